"""What runs leave behind, and runs themselves: their folders, cache files, tables of ranks, runs on bad dumps."""

from __future__ import annotations

import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import h5py
import msgspec
import numpy as np
from ge_writer import DumpTensor, write_dump
from reduce_dumps import fx_name, ge_name, job_of, reduce_one, write_fx, write_ge
from report_builders import comparison, good_row, missing_golden, missing_target, origin
from sealed_files import sealed
from stored_runs import node, row, write_run
from torchair_builders import GeDump, fx_token, mul_add_relu, write_mul_add_relu

from fuzz import seeds, workflows
from fuzz.target import Target, check_diagnostics, file_target, only_file
from fuzz.tree import Tree
from probe_flow.api.dumps import asker_of
from probe_flow.dumps.device.device_file import read_ge_header
from probe_flow.dumps.device.refs import tensor_refs
from probe_flow.elements.converted.files import FileKind
from probe_flow.elements.tensor_store import TensorStore, problem_of
from probe_flow.engine.cache import PAIRS, PARTIAL, VERSION
from probe_flow.engine.run.events import Clock
from probe_flow.engine.run.execute import execute
from probe_flow.engine.run.plan import make_plan
from probe_flow.engine.schedulers.choice import make_scheduler
from probe_flow.errors import Diagnostic, FormatError, IncompleteError, ProbeFlowError
from probe_flow.files.shards import Entry, ShardStore, inspect
from probe_flow.record.conclusion import last_line
from probe_flow.record.run_folder import read_run
from probe_flow.record.stored.kinds import PREFIX, header
from probe_flow.record.stored.reading import read_comparison
from probe_flow.record.stored.writing import write_comparison
from probe_flow.records import Execution, NodeKey, TensorRef
from probe_flow.reports.rank_merge.config import read_merge_config
from probe_flow.reports.rank_merge.sources import merge_folder
from probe_flow.runs.baseline.accept import baseline_of
from probe_flow.runs.baseline.file_text import baseline_text
from probe_flow.runs.diff.differences import diff_runs
from probe_flow.runs.diff.page import write_diff_html
from probe_flow.runs.diff.text import diff_json, diff_lines, outcome
from probe_flow.runs.queries.base import Scope
from probe_flow.runs.queries.threshold import Relation, parse_threshold
from probe_flow.runs.view import Filter, Selection, render_rows, render_run, run_json
from probe_flow.transform.parse.parse_files import Batch, Source, Wanted, parse_batch
from probe_flow.workflow.loading.loader import load_workflow

WORKFLOW = """version: 1
name: fuzz
stages:
  target: {uses: dump.torchair_ge, path: target}
  golden: {uses: dump.torchair_fx, path: golden}
  pairs: {uses: match.torchair, target: target, golden: golden}
  result: {uses: compare, pairs: pairs, policy: torchair, gate: findings}
  report: {uses: report, comparison: result, formats: [{csv: torchair}, jsonl, html, junit, annotations]}
"""
EAGER = """version: 1
name: fuzz
stages:
  target: {uses: dump.auto, path: target}
  golden: {uses: dump.auto, path: golden}
  pairs: {uses: match.name, target: target, golden: golden}
  result: {uses: compare, pairs: pairs, policy: dump_json, gate: findings}
  report: {uses: report, comparison: result, formats: [{csv: dump_json}, jsonl, html, junit]}
"""
STRUCTURE = EAGER.replace("match.name", "match.structure")
OFFLINE = """version: 1
name: fuzz
stages:
  target: {uses: dump.om, path: target}
  golden: {uses: dump.npy, path: golden}
  pairs: {uses: match.fusion_rule, target: target, golden: golden, fusion_rule: rules.json}
  result: {uses: compare, pairs: pairs, policy: offline, metrics: offline, gate: findings}
  report: {uses: report, comparison: result, formats: [{csv: offline}, jsonl, html, junit]}
"""
FILE = workflows.FILE
STARTED = datetime(2026, 1, 1, tzinfo=timezone.utc)
OUTPUT = "out"


def _run(folder: Path) -> Sequence[Diagnostic]:
    """Run the workflow of a folder and return what it had to say."""
    output = folder / OUTPUT
    shutil.rmtree(output, ignore_errors=True)
    plan = make_plan(load_workflow(folder / FILE, env={}, cwd=folder))
    clock = Clock(lambda: STARTED, lambda: 0.0)
    found = execute(plan, scheduler=make_scheduler("sync", 1), cwd=folder, output=output, clock=clock)
    return [*found.diagnostics, *(problem for stage in found.stages for problem in stage.diagnostics)]


def compare(folder: Path) -> None:
    try:
        found = _run(folder)
    finally:
        shutil.rmtree(folder / OUTPUT, ignore_errors=True)
    check_diagnostics(found)
    errors = [each for each in found if each.severity.value == "error"]
    if errors:
        raise IncompleteError(errors)


def _pair(folder: Path) -> None:
    dump = GeDump(folder / "target")
    dump.graph(mul_add_relu())
    write_mul_add_relu(dump.token(0), fx_token(folder / "golden", 0))
    (folder / FILE).write_text(WORKFLOW)


def _pairs() -> Sequence[Tree]:
    return seeds.written(_pair)


def _eager_pairs() -> Sequence[Tree]:
    dumps = [seeds.eager_dumps()[number] for number in (0, 4, 5)]
    return [sides(dump, dump, EAGER) for dump in dumps]


def _structure_pairs() -> Sequence[Tree]:
    ms, pt, made, calls = (seeds.eager_dumps()[number] for number in (3, 4, 5, 7))
    pairs = [(ms, pt), (made, made), (calls, calls), (calls, pt)]
    return [sides(target, golden, STRUCTURE) for target, golden in pairs]


def _offline_pairs() -> Sequence[Tree]:
    rules = seeds.rule_files()[0]["net.json"]
    pairs = zip(seeds.offline_dumps()[:1], seeds.golden_folders()[:1], strict=True)
    return [{**sides(target, golden, OFFLINE), "rules.json": rules} for target, golden in pairs]


def sides(target: Tree, golden: Tree, workflow: str) -> Tree:
    both = {"target": target, "golden": golden}
    files = {f"{side}/{name}": content for side, tree in both.items() for name, content in tree.items()}
    return {**files, FILE: workflow.encode()}


# Folders of runs


@cache
def _runs() -> Sequence[Tree]:
    """Return folders of runs: one that a run left, and one written by hand from the schemas."""

    def made(folder: Path) -> None:
        _pair(folder / "in")
        (wrong,) = (folder / "in" / "golden").rglob("add-aten.add.Tensor.OUTPUT.0.*.npy")
        np.save(wrong, np.load(wrong) * 1.5)
        assert not [each for each in _run(folder / "in") if each.code.startswith("PF9")]
        for path in (folder / "in" / OUTPUT).iterdir():
            if path.suffix in (".json", ".jsonl"):
                (folder / path.name).write_text(_anywhere(path.read_text(), folder))
        for side in ("target", "golden"):
            (folder / "in" / side).rename(folder / side)
        shutil.rmtree(folder / "in")

    def by_hand(folder: Path) -> None:
        nodes = [
            node("Add_1", 0),
            node("Mul_2", 1, (0, "Add_1", 0)),
            node("Gelu_3", 2, (0, "Mul_2", 0), (1, "Add_1", 0)),
        ]
        detail = {"order": 1, "worst": [], "values": []}
        write_run(
            folder, [row(0, "Add_1"), row(1, "Mul_2", cosine=0.5, verdict="fail", role="origin")], nodes, [detail]
        )

    return seeds.written(made, by_hand)


def _anywhere(text: str, folder: Path) -> str:
    """Return what a run wrote as it would have on any machine, at any time."""
    text = text.replace(str(folder / "in"), "/dumps").replace(str(Path.cwd()), "/here")
    text = re.sub(r'("fingerprint": )"\w+"', r'\1"0123"', text)
    return re.sub(r'("versions": )\{[^}]*\}', r'\1{"probe_flow": "0.1.0"}', text)


def _show(folder: Path) -> None:
    """Ask a run everything that `show` and the prompt can."""
    asker = asker_of(folder, [f"{side}={folder / side}" for side in ("target", "golden") if (folder / side).is_dir()])
    run = asker.run
    assert last_line(run.record, folder="run")
    assert all(render_run(run, color=False, width=100, folder="run", is_verbose=each) for each in (False, True))
    everything = Selection(run, Filter(None, None, None), limit=None)
    questions: list[Callable[[], object]] = [
        lambda: "".join(run_json(run, everything)),
        lambda: list(render_rows(Selection(run, Filter("fail", "origin", "*"), limit=3), run, folder="run")),
        lambda: _told(asker.origin()),
        lambda: _told(asker.unmatched(limit=5)),
        lambda: _told(asker.threshold(parse_threshold("cosine=0.99", Relation.BELOW), limit=None)),
        lambda: _told(asker.node("Mul", depth=2, has_attributes=True)),
        lambda: _told(asker.node("Add", depth=1, has_attributes=False, scope=Scope(None, 0, 0, None))),
        lambda: _told(asker.tensor("output", limit=0)),
        lambda: (asker.tensor_names(), asker.metric_names()),
    ]
    refusals = [error for error in map(_refusal, questions) if error is not None]
    if refusals:
        raise refusals[0]


def _refusal(question: Callable[[], object]) -> ProbeFlowError | None:
    try:
        question()
    except ProbeFlowError as error:
        check_diagnostics(error.diagnostics)
        return error
    return None


def _told(reply: object) -> None:
    assert all(isinstance(line, str) for line in reply.lines)  # type: ignore[attr-defined]


def _two_runs() -> Sequence[Tree]:
    return [
        {**{f"a/{name}": content for name, content in run.items()}, **{f"b/{name}": run[name] for name in run}}
        for run in _runs()
    ]


def _diff(folder: Path) -> None:
    found = diff_runs(read_run(folder / "a"), read_run(folder / "b"), tolerance=0.01)
    check_diagnostics(found.problems)
    assert list(diff_lines(found, limit=3, names=("a", "b")))
    assert diff_json(found)
    write_diff_html(found, folder / "diff.html", names=("a", "b"))
    assert outcome(found)


def _stopped_runs() -> Sequence[Tree]:
    """Return folders of dumps, workflow and run, as one that is to be resumed finds them."""

    def write(folder: Path) -> None:
        _pair(folder)
        _run(folder)
        for path in (folder / OUTPUT).iterdir():
            if path.suffix in (".json", ".jsonl"):
                path.write_text(_anywhere(path.read_text(), folder))
        shards = ShardStore(folder / OUTPUT / PARTIAL / VERSION / PAIRS)
        shards.add({f"{number:032x}": Entry(f"text {number}", "label") for number in range(3)})

    return seeds.written(write)


def _resume(folder: Path) -> None:
    copied = folder.with_name(f"{folder.name}-{OUTPUT}")
    shutil.rmtree(copied, ignore_errors=True)
    shutil.copytree(folder / OUTPUT, copied, symlinks=True, copy_function=_copy)
    try:
        plan = make_plan(load_workflow(folder / FILE, env={}, cwd=folder))
        scheduler = make_scheduler("sync", 1)
        found = execute(plan, scheduler=scheduler, cwd=folder, output=copied, is_resumed=True)
        check_diagnostics(found.diagnostics)
    finally:
        shutil.rmtree(copied, ignore_errors=True)


def _copy(source: str, target: str) -> None:
    if Path(source).is_file():
        shutil.copyfile(source, target)
    else:
        os.mkfifo(target)


def _accept(folder: Path) -> None:
    assert baseline_text(baseline_of(read_run(folder)))


# Caches

_KEY = "ab" * 16


def _shards() -> Sequence[Tree]:
    def write(folder: Path) -> None:
        ShardStore(folder).add({f"{number:032x}": Entry(f"text {number} \u00e9", "label") for number in range(3)})

    return [*seeds.written(write), *_shards_of_others()]


def _shards_of_others() -> Sequence[Tree]:
    """Return files that a library of HDF5 writes and we do not: packed, sparse, linked, of other types and shapes."""
    index = np.dtype(
        [("key", "S32"), ("offset", "<u8"), ("nbytes", "<u8"), ("crc32", "<u4"), ("at", "<u8"), ("n", "<u8")]
    )

    def writer(fill: Callable[[h5py.File], object]) -> Callable[[Path], None]:
        def write(folder: Path) -> None:
            with sealed(folder / f"{'0' * 32}.h5") as file:
                file.attrs["format"] = 1
                fill(file)

        return write

    def packed(file: h5py.File) -> None:
        file.create_dataset("index", data=np.zeros(3, index), chunks=(1,), compression="gzip", track_times=False)
        file.create_dataset("blob", (2**34,), np.uint8, chunks=(2**20,), compression="gzip", track_times=False)

    def linked(file: h5py.File) -> None:
        file["index"] = h5py.SoftLink("/blob")
        file["blob"] = h5py.ExternalLink("/etc/hostname", "/blob")

    def outside(file: h5py.File) -> None:
        file.create_dataset("index", data=np.zeros(1, index), track_times=False)
        file.create_dataset("blob", (12,), np.uint8, external=[("/etc/hostname", 0, 12)])

    def other_types(file: h5py.File) -> None:
        file.attrs["format"] = "1"
        file.create_dataset("index", data=["a", "b"], dtype=h5py.string_dtype(), track_times=False)
        file.create_group("blob")

    def empty(file: h5py.File) -> None:
        file.attrs["format"] = [1, 2]
        file.create_dataset("index", data=h5py.Empty("f4"))
        file.create_dataset("blob", data=np.uint8(1))

    return seeds.written(*map(writer, (packed, linked, outside, other_types, empty)))


def _shard(folder: Path) -> None:
    states = [inspect(path) for path in ShardStore(folder).shards()]
    found = ShardStore(folder).find([f"{1:032x}"])
    check_diagnostics([state.problem for state in states if state.problem is not None])
    assert all(entry.text == "text 1 \u00e9" for entry in found.values())
    problems = [state.problem for state in states if state.problem is not None]
    if problems:
        raise FormatError(problems)


def _blocked_tensor(folder: Path) -> TensorRef:
    data = np.arange(40, dtype=np.float16).reshape(2, 20)
    path = write_dump(folder / "dump", op_name="op", inputs=[], outputs=[DumpTensor(data, "float16", "FRACTAL_NZ")])
    (ref,) = tensor_refs(read_ge_header(path), path, NodeKey(Execution(), "op"))
    return ref


def _converted() -> Sequence[Tree]:
    return seeds.written(
        lambda folder: TensorStore(folder, keeps_all=True).open(_blocked_tensor(folder), _KEY, io="auto").close()
    )


def _tensor_store(folder: Path) -> None:
    kept = folder / "ab" / f"{_KEY}.h5"
    problem = problem_of(kept)
    ref = _blocked_tensor(folder)
    with suppress(OSError), TensorStore(folder, keeps_all=True).open(ref, _KEY, io="auto") as blocks:
        assert len(blocks.read(0, 40)) == 40
    if not kept.is_dir():
        kept.unlink(missing_ok=True)
    if problem is not None:
        check_diagnostics([problem])
        raise FormatError(problem)


# Commands on single files


def _parse(folder: Path) -> None:
    path = only_file(folder)
    output = folder.with_name(f"{folder.name}-{OUTPUT}")
    output.mkdir()
    number = path.lstat().st_size % 5
    kind = list(FileKind)[number % len(FileKind)]
    wanted = Wanted(output, kind, "NCHW" if number == 4 else None)
    try:
        (parsed,) = parse_batch(Batch((Source(path, path.name, path.lstat().st_size),), wanted))
    finally:
        shutil.rmtree(output, ignore_errors=True)
    check_diagnostics(parsed.problems)
    if parsed.problems:
        raise FormatError(parsed.problems)


def _dumped_files() -> Sequence[Tree]:
    return [*seeds.device_files(), *seeds.op_debug_files(), *seeds.arrays()]


def _reduce_seeds() -> Sequence[Tree]:
    made = seeds.written(lambda folder: write_ge(folder), lambda folder: write_fx(folder))
    devices = [{ge_name(): content} for content in seeds.device_contents()]
    return [*made, *devices, *({fx_name(): tree["a.npy"]} for tree in seeds.arrays())]


def _reduce(folder: Path) -> None:
    path = only_file(folder)
    done = reduce_one(path)
    Path(job_of(path).result).unlink(missing_ok=True)
    if done.problem is not None:
        check_diagnostics([done.problem])
        raise FormatError(done.problem)


# Tables of ranks

_CSV = (
    "NPU Name,Bench Name,NPU Dtype,Bench Dtype,NPU Tensor Shape,Bench Tensor Shape,NPU Requires_grad,"
    "Bench Requires_grad,"
    "Max diff,Min diff,Mean diff,L2norm diff,MaxRelativeErr,MinRelativeErr,MeanRelativeErr,NormRelativeErr,"
    "NPU max,NPU min,NPU mean,NPU l2norm,Bench max,Bench min,Bench mean,Bench l2norm,"
    "Requires_grad Consistent,Result,Err_message\n"
    "Distributed.all_reduce.0.forward.input.0,Distributed.all_reduce.0.forward.input.0,torch.float32,torch.float32,"
    '"[2, 3]","[2, 3]",True,True,0.5,0,0,0,0.1%,0.0%,N/A,0.2%,3,1,2,4,2.5,1,2,4,True,pass,\n'
)  # fmt: skip


def _tables() -> Sequence[Tree]:
    tables = {f"in/compare_result_rank{rank}_20260101000000.csv": _CSV.encode() for rank in range(2)}
    folder = seeds.DATA / "dump_json" / "expected" / "dist_stat_bug_before_comm"
    books = {
        f"in/{path.stem}_20260101000000.xlsx": path.read_bytes()
        for path in sorted(folder.glob("compare_result_rank*.xlsx"))
    }
    return [{"config.yaml": workflows.MERGE, **each} for each in (tables, tables, tables, books)]


def _merge(folder: Path) -> None:
    output = folder / OUTPUT
    (folder / "in").mkdir(exist_ok=True)
    try:
        _, problems = merge_folder(folder / "in", output, read_merge_config(folder / "config.yaml"), started=STARTED)
    finally:
        shutil.rmtree(output, ignore_errors=True)
    check_diagnostics(problems)


def _stored_comparison(path: Path) -> None:
    """Read messages as a file that a run wrote, with right check sums: what these find needs no reader."""
    if not path.is_file():
        read_comparison(path)
    try:
        messages = [msgspec.msgpack.encode(each) for each in msgspec.msgpack.decode(path.read_bytes(), type=list)]
    except (ValueError, RecursionError) as error:
        raise FormatError(Diagnostic("PF7116", "no messages")) from error
    parts = [PREFIX.pack(len(each), zlib.crc32(each)) + each for each in messages]
    path.write_bytes(b"".join((json.dumps(header()).encode(), b"\n", *parts, PREFIX.pack(0, 0))))
    found = read_comparison(path)
    write_comparison(found, path)
    assert repr(read_comparison(path)) == repr(found)


def _stored_comparisons() -> Sequence[Tree]:
    """Return the messages of a comparison with a row of each kind, without their sizes and check sums."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "file")
        write_comparison(
            comparison(good_row(), missing_golden(1), missing_target(2), findings=(origin(0, "Add_1"),)), path
        )
        body = path.read_bytes().partition(b"\n")[2]
    messages = []
    while size := PREFIX.unpack(body[: PREFIX.size])[0]:
        messages.append(msgspec.msgpack.decode(body[PREFIX.size : PREFIX.size + size]))
        body = body[PREFIX.size + size :]
    return [{"messages": msgspec.msgpack.encode(messages)}]


TARGETS = (
    Target("show", _runs, _show, renames=False),
    Target("diff", _two_runs, _diff, renames=False, changes=("a/",)),
    Target("baseline_accept", _runs, _accept, renames=False),
    file_target("stored_comparison", _stored_comparisons, _stored_comparison),
    Target("cache_shard", _shards, _shard, renames=False),
    Target("converted_tensor", _converted, _tensor_store, renames=False, changes=("ab/",)),
    file_target("parse", _dumped_files, lambda path: _parse(path.parent)),
    file_target("reduce", _reduce_seeds, lambda path: _reduce(path.parent)),
    Target("merge_result", _tables, _merge, renames=False),
    Target("resume", _stopped_runs, _resume, renames=False, changes=("out/",)),
    Target("compare_torchair", _pairs, compare, changes=("target/", "golden/")),
    Target("compare_eager", _eager_pairs, compare, changes=("target/", "golden/")),
    Target("compare_structure", _structure_pairs, compare, changes=("target/", "golden/")),
    Target("compare_offline", _offline_pairs, compare, changes=("target/", "golden/", "rules")),
)
