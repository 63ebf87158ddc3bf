"""Suspects computed again from the tensors of a dump: what is asked, what is left alone, what comes of it."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from probe_flow.apis.side import Held
from probe_flow.apis.values import hf32
from probe_flow.cli.main import main
from probe_flow.comparing import recompute, recompute_calls, recompute_framework
from probe_flow.comparing.asked import Asked, Recompute
from probe_flow.comparing.recompute_worker import Job, lost
from probe_flow.comparing.recompute_worker import recompute_call as compute
from probe_flow.comparing.steps import compare_pairs
from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.errors import Diagnostic, Span
from probe_flow.mappings.api_mapping_file import ApiEntry
from probe_flow.matching.mapping.match_mapping import match_api_mapping
from probe_flow.matching.name.match_name import match_name
from probe_flow.records import FindingKind
from probe_flow.testing.run_records import run_record
from probe_flow.work import Context, Settings

RANDOM = np.random.default_rng(24)


class Program:
    """Writes a small program as a dump of MindSpore's calls with tensors.

    Args:
        folder: of the dump.
        dtype: what the results are rounded to.
    """

    def __init__(self, folder: Path, dtype: str) -> None:
        self.folder, self.dtype = folder, dtype
        self.data: dict[str, object] = {}
        (folder / "dump_tensor_data").mkdir(parents=True)

    def call(self, entry: str, inputs: list, result: np.ndarray, spoil=None, **kwargs) -> np.ndarray:
        right = result.astype(self.dtype)
        given = right if spoil is None else spoil(right.astype("f8")).astype(self.dtype)
        self.data[entry] = {
            "input_args": [self._leaf(f"{entry}.input.{n}", each) for n, each in enumerate(inputs)],
            "input_kwargs": {name: self._leaf("", each) for name, each in kwargs.items()},
            "output": [self._leaf(f"{entry}.output.0", given)],
        }
        return given

    def _leaf(self, name: str, value: object) -> object:
        if not isinstance(value, np.ndarray):
            return value if isinstance(value, dict) else {"type": type(value).__name__, "value": value}
        np.save(self.folder / "dump_tensor_data" / f"{name}.npy", value)
        wide = value.astype("f8")
        figures = {"Max": wide.max(), "Min": wide.min(), "Mean": wide.mean(), "Norm": np.linalg.norm(wide)}
        dtype = {"float16": "Float16", "float32": "Float32"}[str(value.dtype)]
        return {
            "type": "mindspore.Tensor", "dtype": dtype, "shape": list(value.shape), "data_name": f"{name}.npy",
            **{key: float(figure) for key, figure in figures.items()},
        }  # fmt: skip

    def write(self) -> Path:
        top = {"task": "tensor", "level": "L1", "framework": "mindspore", "dump_data_dir": None, "data": self.data}
        path = self.folder / "dump.json"
        path.write_text(json.dumps(top))
        return path


def program(folder: Path, dtype: str, spoiled: dict | None = None) -> Path:
    """A network of four calls; ``spoiled`` has what makes some of their results wrong."""
    spoiled = spoiled or {}
    dump = Program(folder, dtype)
    x, w = (each.astype(dtype) for each in INPUTS)
    y = dump.call("Mint.matmul.0.forward", [x, w], x.astype("f8") @ w.astype("f8"), spoiled.get("matmul"))
    z = dump.call("Mint.tanh.0.forward", [y], np.tanh(y.astype("f8")), spoiled.get("tanh"))
    s = z.astype("f8")
    powers = np.exp(s - s.max(axis=-1, keepdims=True))
    name = "MintFunctional.softmax.0.forward"
    p = dump.call(name, [z], powers / powers.sum(axis=-1, keepdims=True), spoiled.get("softmax"), dim=-1)
    dump.call("Mint.add.0.forward", [p, y], p.astype("f8") + y.astype("f8"), spoiled.get("add"))
    return dump.write()


INPUTS = RANDOM.standard_normal((32, 48)), RANDOM.standard_normal((48, 32)) / 7


def larger(factor: float):
    return lambda values: values * factor


def in_order(function, batches, *, sizes, **_):
    assert len(sizes) == len(batches)
    return iter([(number, function(batch)) for number, batch in enumerate(batches)])


def compared(tmp_path: Path, spoiled: dict | None, how: Recompute, isolate=None, change=None, match=match_name):
    """Compare a float16 target, changed or not, with a float32 golden; return that and what was told of recomputing."""
    target = program(tmp_path / "target", "float16", spoiled)
    if change is not None:
        target.write_text(json.dumps(change(json.loads(target.read_text()))))
    golden = program(tmp_path / "golden", "float32")
    told: list[dict] = []

    def emit(event, **fields):
        if event == "compare.recomputed":
            told.append(fields)

    context = Context(
        stage="compare", output=tmp_path, map=in_order, emit=emit, report=lambda _: None, settings=Settings(),
        facts=run_record(), isolate=isolate or (lambda *_: in_order),
    )  # fmt: skip
    pairs = match(read_dump_json(target, side="target"), read_dump_json(golden, side="golden"))
    return compare_pairs(pairs, Asked(recompute=how), context, None), told


def origins(comparison) -> list[str]:
    return [each.node.name for each in comparison.findings if each.kind is FindingKind.ORIGIN and each.fails]


def test_a_second_fault_behind_the_first_is_named(tmp_path):
    spoiled = {"matmul": larger(1.3), "softmax": larger(1.05)}
    alone, told = compared(tmp_path / "never", spoiled, Recompute("never"))
    assert (origins(alone), told) == (["Mint.matmul"], [])
    found, told = compared(tmp_path / "auto", spoiled, Recompute())
    assert origins(found) == ["Mint.matmul", "MintFunctional.softmax"]
    assert "given its own inputs, the output is off by" in found.findings[1].evidence
    assert "where float16 explains" in found.findings[1].evidence
    assert told[0]["calls"] == 4


@pytest.mark.parametrize(("more", "due"), [({}, ["Mint.matmul", "Mint.own_softmax"]), ({"scale": 1}, ["Mint.matmul"])])
def test_a_function_of_ones_own_is_what_a_mapping_joined_it_with_if_its_arguments_are(tmp_path, more, due):
    def change(top):
        softmax = top["data"].pop("MintFunctional.softmax.0.forward")
        softmax["input_kwargs"] |= {name: {"type": "int", "value": value} for name, value in more.items()}
        add = top["data"].pop("Mint.add.0.forward")
        top["data"] |= {"Mint.own_softmax.0.forward": softmax, "Mint.add.0.forward": add}
        return top

    entry = ApiEntry("Mint.own_softmax", "MintFunctional.softmax", Span("mapping.yaml", 1, 1), {})
    spoiled = {"matmul": larger(1.3), "softmax": larger(1.05)}
    match = partial(match_api_mapping, entries=(entry,))
    found, _ = compared(tmp_path, spoiled, Recompute(), change=change, match=match)
    assert [name for name in origins(found) if "add" not in name] == due


def test_nothing_is_computed_where_nothing_is_suspect(tmp_path):
    def never(*_):
        pytest.fail("no process is needed")

    found, told = compared(tmp_path, None, Recompute(), isolate=never)
    assert (found.findings, told) == ((), [])


def test_all_calls_of_a_healthy_pair_are_proven_and_accused_of_nothing(tmp_path):
    found, told = compared(tmp_path, None, Recompute("all"))
    assert found.findings == ()
    assert told[0]["calls"] == 4


def in_place(folder: Path, dtype: str, factor: float, *, is_before: bool = True) -> Path:
    """Two products and an addition in place; the dump has its input as it was, or as it became."""
    dump = Program(folder, dtype)
    x, w = (each.astype(dtype) for each in INPUTS)
    y = dump.call("Mint.matmul.0.forward", [x, w], x.astype("f8") @ w.astype("f8"), larger(factor))
    z = (y.astype("f8") + 1.0) * (1.0 if factor == 1.0 else 1.1)
    dump.call("Tensor.add_.0.forward", [y if is_before else z.astype(dtype), 1.0], z)
    return dump.write()


@pytest.mark.parametrize(("is_before", "due"), [(True, ["Mint.matmul", "Tensor.add_"]), (False, ["Mint.matmul"])])
def test_a_fault_in_place_is_named_where_the_dump_holds_what_the_input_was(tmp_path, is_before, due):
    target = read_dump_json(in_place(tmp_path / "t", "float16", 1.3, is_before=is_before), side="target")
    golden = read_dump_json(in_place(tmp_path / "g", "float32", 1.0, is_before=is_before), side="golden")
    context = Context(
        stage="compare", output=tmp_path, map=in_order, emit=lambda *_, **__: None, report=lambda _: None,
        settings=Settings(), facts=run_record(), isolate=lambda *_: in_order,
    )  # fmt: skip
    found = compare_pairs(match_name(target, golden), Asked(recompute=Recompute()), context, None)
    assert origins(found) == due


def of_products(folder: Path, change, spoil=None) -> Path:
    """Two products in float32 and what follows, of operands that are changed before they are multiplied."""
    dump = Program(folder, "float32")
    x, w = (each.astype("f4") for each in INPUTS)
    y = dump.call("Mint.matmul.0.forward", [x, w], change(x).astype("f8") @ change(w), spoil)
    z = dump.call("Mint.tanh.0.forward", [y], np.tanh(y.astype("f8")))
    dump.call("Mint.matmul.1.forward", [z, x], change(z).astype("f8") @ change(x))
    return dump.write()


def halves_to_even(values: np.ndarray) -> np.ndarray:
    """Return values with 11 bits of fraction as another device may round them: what lies in the middle to even."""
    fraction, exponent = np.frexp(values.astype("f8"))
    return np.ldexp(np.round(fraction * 2.0**12) / 2.0**12, exponent)


def compared_products(tmp_path: Path, change, spoil=None):
    target = read_dump_json(of_products(tmp_path / "target", change, spoil), side="target")
    golden = read_dump_json(of_products(tmp_path / "golden", np.asarray), side="golden")
    context = Context(
        stage="compare", output=tmp_path, map=in_order, emit=lambda *_, **__: None, report=lambda _: None,
        settings=Settings(), facts=run_record(), isolate=lambda *_: in_order,
    )  # fmt: skip
    return compare_pairs(match_name(target, golden), Asked(recompute=Recompute()), context, None)


@pytest.mark.parametrize("change", [hf32, halves_to_even])
def test_products_that_a_device_computes_in_hf32_are_right_and_told(tmp_path, change):
    found = compared_products(tmp_path, change)
    name = "dump_tensor_data/Mint.matmul.0.forward.output.0.npy"
    target, golden = (np.load(tmp_path / side / name).astype("f8") for side in ("target", "golden"))
    assert np.linalg.norm(target - golden) > 1e-4 * np.linalg.norm(golden), "far beyond what float32 explains"
    assert found.findings == ()
    assert any("computed in HF32" in each for each in found.caveats)


@pytest.mark.parametrize("spoil", [larger(1.0003), lambda values: np.roll(values, 1), lambda values: values + 1e-3])
def test_a_wrong_product_in_hf32_is_still_accused(tmp_path, spoil):
    assert origins(compared_products(tmp_path, hf32, spoil)) == ["Mint.matmul"]


@pytest.mark.parametrize("bits", [9, 10])
def test_operands_with_fewer_bits_than_hf32_are_no_such_product(tmp_path, bits):
    def coarser(values):
        fraction, exponent = np.frexp(values.astype("f8"))
        return np.ldexp(np.round(fraction * 2.0**bits) / 2.0**bits, exponent)

    found = compared_products(tmp_path, coarser)
    assert origins(found)[0] == "Mint.matmul"
    assert not any("HF32" in each for each in found.caveats)


def test_products_in_float32_are_not_told_of(tmp_path):
    found = compared_products(tmp_path, np.asarray)
    assert (found.findings, [each for each in found.caveats if "HF32" in each]) == ((), [])


class ToySide:
    """A framework that has one function, which the numpy core lacks."""

    name, device = "toy", "cpu"

    def find(self, kind: str, api: str):
        def logaddexp2(x, y):
            return np.logaddexp2(x, y)

        logaddexp2.__module__ = "torch.functional"
        return logaddexp2, api

    def tensor(self, held):
        return held.values

    def hold(self, tensor):
        return Held(tensor, str(tensor.dtype))

    def call(self, function, args, kwargs):
        return function(*args, **kwargs)


def of_framework(folder: Path, dtype: str, product: float, factor: float) -> Path:
    dump = Program(folder, dtype)
    x, w = (each.astype(dtype) for each in INPUTS)
    y = dump.call("Mint.matmul.0.forward", [x, w], x.astype("f8") @ w.astype("f8"), larger(product))
    dump.call("Mint.logaddexp2.0.forward", [y, y], np.logaddexp2(y.astype("f8"), y.astype("f8")), larger(factor))
    return dump.write()


@pytest.mark.parametrize("is_there", [True, False])
def test_what_the_numpy_core_lacks_is_computed_by_the_framework_in_a_process(tmp_path, monkeypatch, is_there):
    monkeypatch.setattr(recompute_framework, "is_installed", lambda name: is_there and name == "torch")
    monkeypatch.setattr(recompute_framework, "_framework", lambda _: ToySide())
    processes, told = [], []

    def isolate(*_):
        processes.append(True)
        return in_order

    target = read_dump_json(of_framework(tmp_path / "t", "float16", 1.3, 1.1), side="target")
    golden = read_dump_json(of_framework(tmp_path / "g", "float32", 1.0, 1.0), side="golden")
    context = Context(
        stage="compare", output=tmp_path, map=in_order, emit=lambda event, **told_: told.append((event, told_)),
        report=lambda _: None, settings=Settings(), facts=run_record(), isolate=isolate,
    )  # fmt: skip
    found = compare_pairs(match_name(target, golden), Asked(recompute=Recompute()), context, None)
    assert origins(found) == ["Mint.matmul", "Mint.logaddexp2"] if is_there else ["Mint.matmul"]
    assert bool(processes) == is_there
    (fields,) = [fields for event, fields in told if event == "compare.recomputed"]
    assert fields["calls"] == 1 + is_there
    assert fields["import_s"] >= 0
    if is_there:
        assert "(computed by toy, in float64)" in found.findings[1].evidence


def test_a_dump_without_elements_has_nothing_computed_and_names_what_it_named(tmp_path):
    def without_elements(dump):
        for call in dump["data"].values():
            for leaf in (*call["input_args"], *call["output"]):
                leaf.pop("data_name", None)
        return dump | {"task": "statistics", "dump_data_dir": None}

    spoiled = {"matmul": larger(1.3)}
    found, told = compared(tmp_path, spoiled, Recompute("all"), change=without_elements)
    assert (origins(found), told) == (["Mint.matmul"], [])


def test_the_limit_is_kept(tmp_path):
    _, told = compared(tmp_path, {"matmul": larger(1.3)}, Recompute("auto", 2))
    assert told[0]["calls"] == 2
    _, told = compared(tmp_path / "none", {"matmul": larger(1.3)}, Recompute("auto", 0))
    assert told[0]["calls"] == 0


def test_a_call_that_ends_its_worker_keeps_its_judgement_and_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(recompute, "SMALL_BYTES", 0)

    def isolate(*_):
        def tasks(function, jobs, *, sizes, lost):
            for number, job in enumerate(jobs):
                is_lost = job.target.call.api == "matmul"
                reason = Diagnostic("PF6106", "batch 1 of 4 ended its worker 2 times: took longer than 120 s")
                yield number, lost(job, reason) if is_lost else function(job)

        return tasks

    found, told = compared(tmp_path, {"matmul": larger(1.3)}, Recompute(), isolate)
    assert origins(found) == ["Mint.matmul"]
    assert told[0]["left"] == [["Mint.matmul", "its worker took longer than 120 s"]]


def job_of(tmp_path: Path, entry: str, **changed) -> Job:
    """Return the job of one call of a dump whose entry was changed after its tensors were written."""
    path = program(tmp_path / "one", "float16", {"matmul": larger(1.5)})
    content = json.loads(path.read_text())
    content["data"][entry] |= changed
    path.write_text(json.dumps(content))
    catalog = read_dump_json(path, side="target")
    node = next(key for key, each in catalog.nodes.items() if each.entry == entry)
    side = recompute_calls.Side(catalog, {node})
    return Job(side.call(node), None, False, recompute.UNIT, recompute.LIMIT_BYTES)


def test_shapes_that_contradict_each_other_are_told(tmp_path):
    job = job_of(tmp_path, "Mint.tanh.0.forward")
    call = replace(
        job.target, inputs={(0,): next(iter(job.target.results.values())).changed(shape=(1024,), logical_shape=None)}
    )
    found = compute(replace(job, target=call))
    assert (found.results, found.reason) == ({}, "a tensor has shape [1024], the dump says [32, 32]")


def test_a_call_that_asks_for_more_memory_than_is_allowed_is_told(tmp_path):
    job = job_of(tmp_path, "Mint.matmul.0.forward")
    assert "are allowed" in compute(replace(job, limit_bytes=1000)).reason


def test_a_lost_job_says_why():
    reason = Diagnostic("PF6106", "batch 1 of 1 of stage `compare` ended its worker 2 times: killed by SIGKILL")
    assert lost(None, reason).reason == "its worker killed by SIGKILL"


def awkward(folder: Path, dtype: str) -> Path:
    """Calls that cannot be computed, each for another reason, behind one that is wrong in float16."""
    dump = Program(folder, dtype)
    x, w = (each.astype(dtype) for each in INPUTS)
    y = dump.call(
        "Mint.matmul.0.forward", [x, w], x.astype("f8") @ w.astype("f8"), larger(1.3) if dtype != "float32" else None
    )
    holes = y.copy()
    holes[0, 0] = np.nan
    dump.call("Mint.tile.0.forward", [y, 10**9, 1], y.astype("f8"))
    dump.call("Mint.own_operator.0.forward", [y], y.astype("f8"))
    dump.call("Mint.add.0.forward", [y, x[:, :5]], y.astype("f8"))
    dump.call("Mint.mul.0.forward", [holes, y], holes.astype("f8") * y.astype("f8"))
    dump.call("Mint.sort.0.forward", [holes], holes.astype("f8"))
    return dump.write()


def test_what_cannot_be_computed_is_told_and_changes_nothing_else(tmp_path):
    """A custom operator, shapes that contradict, NaN, 100 GB: in a process of its own where it may take much."""
    target, golden = awkward(tmp_path / "t", "float16"), awkward(tmp_path / "g", "float32")
    main(["compare", "-tp", str(target), "-gp", str(golden), "-o", str(tmp_path / "run")])
    found = json.loads((tmp_path / "run/probe_flow/run.json").read_text())
    assert [each["node"] for each in found["findings"] if each["fails"]] == ["Mint.matmul"]
    events = [json.loads(line) for line in (tmp_path / "run/probe_flow/events.jsonl").read_text().splitlines()]
    (told,) = [each for each in events if each["event"] == "compare.recomputed"]
    left = dict(told["left"])
    assert told["calls"] == 2
    assert left.keys() == {"Mint.tile", "Mint.add", "Mint.sort"}
    assert left["Mint.tile"] == "computing it takes more than 1,024 MiB"
    assert left["Mint.add"].startswith("its arguments do not fit each other")
    assert left["Mint.sort"] == "where NaN stands in an order is up to the kernel"


@pytest.mark.parametrize("is_small", [True, False])
def test_calls_are_computed_alike_in_the_run_and_in_a_process_of_their_own(tmp_path, monkeypatch, is_small):
    spoiled = {"matmul": larger(1.3), "softmax": larger(1.05)}
    processes = []

    def isolate(*_):
        processes.append(True)
        return in_order

    monkeypatch.setattr(recompute, "SMALL_BYTES", recompute.SMALL_BYTES if is_small else 0)
    found, told = compared(tmp_path, spoiled, Recompute(), isolate)
    assert bool(processes) != is_small
    assert origins(found) == ["Mint.matmul", "MintFunctional.softmax"]
    assert told[0]["calls"] == 4


def test_it_runs_from_the_command_line(tmp_path):
    spoiled = {"matmul": larger(1.3), "softmax": larger(1.05)}
    target, golden = program(tmp_path / "t", "float16", spoiled), program(tmp_path / "g", "float32")
    main(["compare", "-tp", str(target), "-gp", str(golden), "-o", str(tmp_path / "run")])
    found = json.loads((tmp_path / "run/probe_flow/run.json").read_text())
    failing = [each["node"] for each in found["findings"] if each["fails"]]
    assert failing == ["Mint.matmul", "MintFunctional.softmax"]
    events = [json.loads(line) for line in (tmp_path / "run/probe_flow/events.jsonl").read_text().splitlines()]
    assert [each["calls"] for each in events if each["event"] == "compare.recomputed"] == [4]
