"""Dumps, files and workflows that are wrong: what the command line says, how it exits, and that nothing is lost."""

from __future__ import annotations

import os
import re
import shutil
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from ge_writer import DATA_TYPES, FORMATS, container, field_bytes, field_varint, shape_message
from run_records import first_divergence
from torchair_builders import GeDump, Op, X, fx_token, graph_text, write_device_op, write_mul_add_relu

from e2e.projects import GOLDEN, SAMPLE, TARGET, TORCHAIR, Command, Done, Dumps, write_dumps

RUN = ("run", TORCHAIR)
ADD = {name for name in TARGET if name.startswith("Add.")}
MEMORY_BYTES = 64 * 2**20
"""More than any run on the small dumps needs, and far less than what the lying headers announce."""


def assert_nothing_else_is_lost(done: Done, *, target: frozenset[str] | set[str] = TARGET) -> None:
    """Every tensor of both sides has a row, as far as its file says that it exists."""
    assert done.seen("target") == set(target)
    assert done.seen("golden") == GOLDEN
    assert all(row["reason"] for row in done.rows if row["verdict"] != "pass")


def assert_incomplete_by(done: Done, file: str, code: str) -> None:
    """Exit 3; the problem names the file on stderr and in the record, and says what to do next."""
    assert done.code == 3
    assert done.record["verdict"] == "incomplete"
    (problem, *_) = [problem for problem in done.record["problems"] if problem["code"] == code]
    assert file in problem["message"] + str(problem["path"])
    assert problem["help"]
    assert f"error[{code}]" in done.err
    assert file in done.err
    assert problem["help"] in done.err
    assert done.out.rstrip().splitlines()[-1].startswith("INCOMPLETE")


def lying_message(shape: tuple[int, ...], size: int) -> bytes:
    """Return a device dump of `Add` whose only output announces a shape and a size that the file does not have."""
    output = (
        field_varint(1, DATA_TYPES["float32"])
        + field_varint(2, FORMATS["ND"])
        + field_bytes(3, shape_message(shape))
        + field_varint(6, size)
        + field_bytes(7, shape_message(shape))
    )
    header = field_bytes(1, b"2.0") + field_bytes(3, output) + field_bytes(6, b"Add")
    return container(header, b"\0" * 24)


def npy_header(shape: str, data: bytes = b"\0" * 24) -> bytes:
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(10 + len(text) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def test_the_small_dumps_are_right(probe_flow: Command, dumps: Dumps):
    done = probe_flow(*RUN, *dumps.sets())
    assert done.code == 0
    assert_nothing_else_is_lost(done)
    assert done.record["counts"]["pass"] == len(TARGET)
    assert "error[" not in done.err
    assert "warning[" not in done.err


class TestFolders:
    @pytest.mark.parametrize("side", ["target", "golden"])
    def test_a_missing_folder_is_a_mistake_of_the_command(self, probe_flow: Command, dumps: Dumps, side):
        done = probe_flow(*RUN, *dumps.sets(**{side: dumps.root / "gone"}))
        assert done.code == 2
        assert "error[PF2101]" in done.err
        assert str(dumps.root / "gone") in done.err
        assert "= help:" in done.err
        assert not done.folder.exists()

    @pytest.mark.parametrize(("side", "wanted"), [("target", "device dump"), ("golden", "FX dump")])
    def test_an_empty_folder_is_never_green(self, probe_flow: Command, dumps: Dumps, tmp_path, side, wanted):
        (tmp_path / "nothing").mkdir()
        done = probe_flow(*RUN, *dumps.sets(**{side: "nothing"}))
        assert_incomplete_by(done, "nothing", "PF3202")
        assert f"holds no {wanted} file" in done.err
        assert "found nothing" in done.err
        assert "stage `result` skipped" in done.out

    def test_a_file_in_place_of_a_dump_folder_is_a_mistake_of_the_command(self, probe_flow, dumps, tmp_path):
        (tmp_path / "file").write_text("no folder")
        done = probe_flow(*RUN, *dumps.sets(golden="file"))
        assert done.code == 2
        assert "PF3201" in done.err
        assert "is a file, not a folder" in done.err

    def test_a_dump_on_the_wrong_side_is_recognised(self, probe_flow, dumps):
        done = probe_flow(*RUN, *dumps.sets(target=dumps.golden))
        assert done.code == 3
        assert "this looks like an FX dump: read it with `dump.torchair_fx`" in done.err
        done = probe_flow(*RUN, *dumps.sets(golden=dumps.target))
        assert done.code == 3
        assert "this is a device dump" in done.err

    def test_of_a_folder_that_holds_both_dumps_each_side_reads_its_own(self, probe_flow, dumps):
        done = probe_flow(*RUN, *dumps.sets(target=dumps.root, golden=dumps.root))
        assert done.record["problems"] == []
        assert done.record["coverage"]["golden"]["compared"] == 6
        assert done.code == 0
        assert_nothing_else_is_lost(done)

    def test_of_two_dump_runs_the_newest_is_read_and_said_so(self, probe_flow, dumps):
        second = GeDump(dumps.target, time="20260102000000").token(0)
        write_mul_add_relu(second, None)
        (add,) = second.glob("Add.*")
        add.write_bytes(add.read_bytes()[:-24] + np.full(6, 77, np.float32).tobytes())
        done = probe_flow(*RUN, *dumps.sets())
        assert done.code == 1
        assert first_divergence(done.record)["node"] == "Add"
        assert "warning[PF3207]" in done.err
        assert "`20260101000000`, `20260102000000`; the newest, `20260102000000`, is read" in done.err
        assert "choose another with `time:`" in done.err
        assert_nothing_else_is_lost(done)

    def test_the_time_option_chooses_among_dump_runs(self, probe_flow, dumps, tmp_path):
        second = GeDump(dumps.target, time="20260102000000").token(0)
        write_device_op(second, "Mul", "Mul", at=1, inputs=[X, X], outputs=[X])
        text = TORCHAIR.read_text().replace('"${params.target}"}', '"${params.target}", time: "20260101000000"}')
        (tmp_path / "chosen.yaml").write_text(text)
        done = probe_flow("run", "chosen.yaml", *dumps.sets())
        assert done.code == 0
        assert done.record["problems"] == []
        (tmp_path / "chosen.yaml").write_text(text.replace("20260101000000", "20250101000000"))
        done = probe_flow("run", "chosen.yaml", *dumps.sets())
        assert done.code == 2
        assert "holds no run `20250101000000`" in done.err
        assert "runs found: `20260101000000`, `20260102000000`" in done.err


class TestDeviceFiles:
    @pytest.mark.parametrize(
        ("damage", "code", "words"),
        [
            (lambda _: b"", "PF3010", "holds 0 bytes and no header"),
            (lambda content: content[:5], "PF3010", "holds 5 bytes"),
            (lambda content: content[:30], "PF3011", "are there"),
            (lambda _: bytes(range(256)) * 16, "PF3011", "are there"),
            (lambda content: struct.pack("<Q", 2**63 + 1) + content[8:], "PF3011", str(2**63 + 1)),
            (lambda content: struct.pack("<Q", 2**40) + content[8:], "PF3011", str(2**40)),
            (lambda content: struct.pack("<Q", 5) + content[8:], "PF3013", "Add."),
        ],
        ids=["empty", "no header", "cut in the header", "garbage", "2**63", "2**40", "short header"],
    )
    def test_a_file_without_a_readable_header_costs_one_operator(self, probe_flow, dumps, damage, code, words):
        path = dumps.device_file("Add")
        path.write_bytes(damage(path.read_bytes()))
        done = probe_flow(*RUN, *dumps.sets())
        assert_incomplete_by(done, path.name, code)
        assert words in done.err
        # The graph knows that the operator has an output; how many inputs it had, only the file knew.
        assert_nothing_else_is_lost(done, target=TARGET - ADD | {"Add.output.0"})
        assert done.verdicts("error") == {"Add.output.0"}
        assert "1 selected tensor could not be read" in done.record["incomplete"]

    def test_tensors_behind_the_end_of_a_file_cost_themselves(self, probe_flow, dumps):
        path = dumps.device_file("Add")
        path.write_bytes(path.read_bytes()[:-1])
        done = probe_flow(*RUN, *dumps.sets())
        assert_incomplete_by(done, path.name, "PF3015")
        assert "output 0 of `Add` is cut off" in done.err
        assert_nothing_else_is_lost(done)
        assert done.verdicts("error") == {"Add.output.0"}
        assert done.verdicts("pass") == TARGET - {"Add.output.0"}

    @pytest.mark.parametrize(
        ("shape", "size"),
        [
            ((2**20, 2**20), 24),
            ((2**20, 2**20), 2**42),
            ((2**62, 2**62, 2**62), 24),
            ((2**63,), 2**64 - 1),
            ((7,), 24),
        ],
    )
    def test_a_shape_that_lies_costs_one_tensor_and_no_memory(self, probe_flow, dumps, shape, size):
        path = dumps.device_file("Add")
        path.write_bytes(lying_message(shape, size))
        probe_flow(*RUN, *dumps.sets(), output="warm")  # the first run imports what it needs
        tracemalloc.start()
        done = probe_flow(*RUN, *dumps.sets())
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < MEMORY_BYTES
        assert done.code == 3
        assert path.name in done.err
        assert done.verdicts("error") == {"Add.output.0"}
        assert_nothing_else_is_lost(done, target=TARGET - ADD | {"Add.output.0"})

    def test_an_unreadable_tensor_outranks_a_wrong_one(self, probe_flow, dumps):
        mul = dumps.device_file("Mul")
        mul.write_bytes(mul.read_bytes()[:-24] + (X * -3).astype(np.float32).tobytes())
        assert probe_flow(*RUN, *dumps.sets(), output="wrong").code == 1
        relu = dumps.device_file("Relu")
        relu.write_bytes(b"")
        done = probe_flow(*RUN, *dumps.sets())
        assert_incomplete_by(done, relu.name, "PF3010")
        assert first_divergence(done.record)["node"] == "Mul"
        assert "In what was, Mul (Mul) is the first to go wrong." in done.out.replace("\n", " ")

    def test_thousands_of_damaged_files_are_shown_as_a_few(self, probe_flow, dumps):
        folder = dumps.device_file("Add").parent
        for number in range(50):
            (folder / f"Neg.Neg_{number}.{number + 50}.7.{1767225600001000 + number}").write_bytes(b"")
        done = probe_flow(*RUN, *dumps.sets())
        assert done.code == 3
        assert done.err.count("error[PF3010]") == 3
        assert "PF3010: and 47 more, all in `out/run.json`" in done.err
        assert sum(problem["code"] == "PF3010" for problem in done.record["problems"]) == 50
        assert len(done.verdicts("error")) == 50


class TestArrays:
    @pytest.mark.parametrize(
        ("damage", "code", "words"),
        [
            (lambda _: b"", "PF3020", "(0 bytes) does not begin like a `.npy` file"),
            (lambda content: content[:40], "PF3021", "header"),
            (lambda content: content[:-5], "PF3022", "needs 24 bytes, 19 are there"),
            (lambda _: bytes(range(256)), "PF3020", "does not begin like a `.npy` file"),
            (lambda _: npy_header("(1000000, 1000000)"), "PF3022", "24 are there"),
            (lambda _: npy_header("(1000000000, 1000000000, 1000000000)"), "PF3021", "exceed"),
            (lambda _: npy_header("(-2, 3)"), "PF3021", "header"),
            (lambda _: npy_header("__import__('os').system('true')"), "PF3021", "header"),
            (lambda c: c[:8] + b"\xff\xff" + c[10:], "PF3021", "header"),
        ],
        ids=["empty", "cut header", "cut", "garbage", "huge", "beyond memory", "negative", "code", "header length"],
    )
    def test_a_damaged_array_costs_one_tensor_and_no_memory(self, probe_flow, dumps, damage, code, words):
        path = dumps.array("add-*OUTPUT*")
        path.write_bytes(damage(path.read_bytes()))
        probe_flow(*RUN, *dumps.sets(), output="warm")
        tracemalloc.start()
        done = probe_flow(*RUN, *dumps.sets())
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < MEMORY_BYTES
        assert_incomplete_by(done, path.name, code)
        assert words in done.err
        assert_nothing_else_is_lost(done)
        assert done.verdicts("error") == {"add.output.0"}
        (row,) = done.rows_of("Add.output.0")
        assert row["verdict"] == "unmatched_target"
        assert "cannot be read" in row["reason"]

    def test_an_array_of_objects_is_never_unpickled(self, probe_flow, dumps, tmp_path):
        class Bomb:
            def __reduce__(self):
                return os.mkdir, (str(tmp_path / "exploded"),)

        path = dumps.array("add-*OUTPUT*")
        np.save(path, np.array([Bomb()], dtype=object), allow_pickle=True)
        done = probe_flow(*RUN, *dumps.sets())
        assert not (tmp_path / "exploded").exists()
        assert_nothing_else_is_lost(done)
        reasons = {row["verdict"]: row["reason"] for row in done.rows if "pickled Python objects" in str(row["reason"])}
        assert set(reasons) == {"unmatched_target", "unmatched_golden"}
        assert done.verdicts("pass") == TARGET - {"Add.output.0"}

    def test_an_array_of_another_size_is_not_comparable(self, probe_flow, dumps):
        np.save(dumps.array("add-*OUTPUT*"), np.zeros(7, np.float32))
        done = probe_flow(*RUN, *dumps.sets())
        assert_nothing_else_is_lost(done)
        assert done.verdicts("not_comparable") == {"Add.output.0", "Relu.input.0"}
        reasons = {row["reason"] for row in done.rows_of("add.output.0")}
        assert reasons == {"element counts differ: [2, 3] against [7]"}


class TestGraphText:
    def test_a_graph_text_that_is_cut_off_is_named(self, probe_flow, dumps):
        text = dumps.graph.read_text()
        dumps.graph.write_text(text[: text.index('name: "Add"')])
        done = probe_flow(*RUN, *dumps.sets())
        assert done.code == 3
        assert "warning[PF3220]" in done.err
        assert dumps.graph.name in done.err
        assert_nothing_else_is_lost(done)
        (row,) = done.rows_of("relu.output.0")
        assert "the graph text is cut off" in row["reason"]

    def test_an_empty_graph_text_is_named_and_explains_no_gap(self, probe_flow, dumps):
        dumps.graph.write_text("")
        done = probe_flow(*RUN, *dumps.sets())
        assert f"[PF3220]: `{dumps.graph.name}` holds no operator (0 bytes)" in done.err
        assert done.record["coverage"]["golden"]["expected"] == 0
        assert done.record["coverage"]["golden"]["missing"] == 8

    def test_the_graph_text_of_another_model_is_named_and_explains_no_gap(self, probe_flow, dumps):
        dumps.graph.write_text(graph_text([Op("Foo", "Foo", (), [("foo-aten.foo.default.OUTPUT.0", (2,))])]))
        done = probe_flow(*RUN, *dumps.sets())
        assert "[PF4005]: the graph text of rank 0 graph 1 step 0 has none of the 3 dumped operators" in done.err
        assert done.record["coverage"]["golden"]["expected"] == 0
        assert done.record["coverage"]["golden"]["missing"] == 8

    @pytest.mark.parametrize("text", ["", "\0\0\0", "op {", "not a graph at all", "op { " * 5000, '}{"]'])
    def test_nonsense_as_graph_text_matches_nothing(self, probe_flow, dumps, text):
        dumps.graph.write_text(text)
        done = probe_flow(*RUN, *dumps.sets())
        assert done.code == 3
        assert "nothing was compared" in done.out
        assert done.verdicts("pass") == set()
        assert_nothing_else_is_lost(done)

    def test_a_dump_without_graph_text_matches_nothing_and_says_what_to_copy(self, probe_flow, dumps):
        dumps.graph.unlink()
        done = probe_flow(*RUN, *dumps.sets())
        assert done.code == 3
        assert "warning[PF4005]" in done.err
        assert "copy `dynamo_original_graph_*.txt`" in done.err
        assert_nothing_else_is_lost(done)


class TestPlaces:
    def test_a_link_out_of_the_device_dump_is_not_followed(self, probe_flow, dumps, tmp_path):
        path = dumps.device_file("Add")
        path.rename(tmp_path / path.name)
        path.symlink_to(tmp_path / path.name)
        done = probe_flow(*RUN, *dumps.sets())
        assert_incomplete_by(done, path.name, "PF3203")
        assert "leads out of the dump folder" in done.err
        assert_nothing_else_is_lost(done, target=TARGET - ADD)

    def test_a_link_out_of_the_fx_dump_is_not_followed(self, probe_flow, dumps, tmp_path):
        path = dumps.array("add-*OUTPUT*")
        path.rename(tmp_path / path.name)
        path.symlink_to(tmp_path / path.name)
        done = probe_flow(*RUN, *dumps.sets())
        assert_incomplete_by(done, path.name, "PF3203")
        assert done.seen("target") == TARGET
        assert done.seen("golden") == GOLDEN - {"add.output.0"}

    def test_a_folder_of_another_rank_behind_a_link_is_not_dropped_in_silence(self, probe_flow, dumps, tmp_path):
        elsewhere = write_dumps(tmp_path / "elsewhere")
        (dumps.target / "worldsize1_global_rank1").symlink_to(elsewhere.target / "worldsize1_global_rank0")
        done = probe_flow(*RUN, *dumps.sets())
        assert_incomplete_by(done, "worldsize1_global_rank1", "PF3203")

    def test_a_link_to_itself_is_a_problem_of_that_file(self, probe_flow, dumps):
        path = dumps.device_file("Add")
        path.unlink()
        path.symlink_to(path.name)
        done = probe_flow(*RUN, *dumps.sets())
        assert_incomplete_by(done, path.name, "PF3204")
        assert_nothing_else_is_lost(done, target=TARGET - ADD)

    @pytest.mark.parametrize("put", [os.mkdir, os.mkfifo], ids=["folder", "fifo"])
    def test_what_is_no_file_in_place_of_a_dump_file_leaves_a_gap(self, probe_flow, dumps, put):
        path = dumps.device_file("Add")
        path.unlink()
        put(path)
        done = probe_flow(*RUN, *dumps.sets())
        assert_nothing_else_is_lost(done, target=TARGET - ADD)
        (row,) = done.rows_of("add.input.1")
        assert row["reason"] == "the device dump has no file of `Add` (Add)"
        assert done.record["coverage"]["golden"]["missing"] == 1
        if put is os.mkfifo:
            assert "error[PF3205]" in done.err
            assert f"{path.name}` is not a regular file" in done.err

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    @pytest.mark.parametrize("side", ["target", "golden"])
    def test_a_file_that_may_not_be_read_costs_one_tensor(self, probe_flow, dumps, side):
        path = dumps.device_file("Add") if side == "target" else dumps.array("add-*OUTPUT*")
        path.chmod(0)
        done = probe_flow(*RUN, *dumps.sets())
        path.chmod(0o600)
        assert done.code == 3
        assert path.name in done.err
        assert "Permission denied" in done.err
        assert done.seen("golden") == GOLDEN

    def test_names_of_files_cannot_lead_out_or_steer_the_terminal(self, probe_flow, dumps, tmp_path):
        content = dumps.device_file("Add").read_bytes()
        folder = os.fsencode(dumps.device_file("Add").parent)
        names = [
            b"Add...7.7.1767225600000021",
            b"Add.... etc.8.7.1767225600000022",
            b"Add.\x1b[31mred.9.7.1767225600000023",
            b"Add.a\nb.10.7.1767225600000024",
            b"Add.$(touch x);`touch y`.11.7.1767225600000025",
            "Add.行列\u202e.12.7.1767225600000026".encode(),
            b"Add.=cmd|calc.13.7.1767225600000027",
            b"Add.\xff\xfe.14.7.1767225600000028",
            b"\xff\xfe",
        ]
        for name in names:
            Path(os.fsdecode(folder + b"/" + name)).write_bytes(content)
        before = set(dumps.root.rglob("*"))
        done = probe_flow(*RUN, *dumps.sets())
        assert set(dumps.root.rglob("*")) == before
        assert {path.name for path in tmp_path.iterdir()} <= {"dumps", "out", "cache0"}
        assert done.code == 3
        assert done.seen("target") > TARGET
        assert done.seen("golden") == GOLDEN
        assert len(done.rows) == len(done.seen("target")) + 2
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", done.out + done.err)
        assert done.record["coverage"]["target"]["missing"] == len(done.seen("target") - TARGET)


def one_call(output: str) -> str:
    return f'{{"task": "statistics", "level": "L1", "data": {{"Tensor.add.0.forward": {{"output": [{output}]}}}}}}'


class TestDumpJson:
    @pytest.fixture
    def compare(self, probe_flow, tmp_path):
        def run(target: bytes | str, golden: bytes | str) -> Done:
            for side, content in (("target", target), ("golden", golden)):
                (tmp_path / side).mkdir(exist_ok=True)
                data = content if isinstance(content, bytes) else content.encode()
                (tmp_path / side / "dump.json").write_bytes(data)
            paths = ("-tp", "target/dump.json", "-gp", "golden/dump.json", "-o", "result")
            done = probe_flow("compare", *paths, output=None)
            return Done(done.code, done.out, done.err, tmp_path / "result" / "probe_flow")

        return run

    GOOD = one_call('{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [3], "Max": 1, "Min": 1, "Mean": 1}')

    @pytest.mark.parametrize(
        ("content", "code"),
        [
            (b"", "PF3407"),
            (GOOD[:-20], "PF3407"),
            (b"\xff\xfe\x00", "PF3407"),
            ("[" * 100_000, "PF3407"),
            ("[1, 2]", "PF3408"),
            ('{"task": "statistics", "data": {}}', "PF3402"),
        ],
        ids=["empty", "cut", "no text", "deep", "list", "no entry"],
    )
    def test_a_file_that_is_no_dump_is_named_with_the_next_step(self, compare, content, code):
        done = compare(content, self.GOOD)
        assert_incomplete_by(done, "dump.json", code)
        assert "stage: `target`" in done.err

    def test_one_broken_entry_costs_itself_and_is_reported_for_each_dump(self, compare):
        broken = one_call('{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [3], "Max": "x"}')
        merged = self.GOOD[:-2] + ", " + broken[broken.index('"Tensor.add') :].replace("Tensor.add", "Tensor.mul")
        done = compare(merged, merged)
        assert_incomplete_by(done, "dump.json", "PF3411")
        assert done.verdicts("pass") == {"Tensor.add.output.0"}
        assert done.verdicts("error") == {"Tensor.mul.output.0"}
        # Both files have the same name and the same problem: it is one of each dump.
        assert {problem["stage"] for problem in done.record["problems"]} == {"target", "golden"}

    def test_sizes_that_lie_cost_no_memory(self, compare):
        huge = self.GOOD.replace("[3]", "[1000000000000, 1000000000000]")
        compare(huge, huge)
        tracemalloc.start()
        done = compare(huge, huge)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < MEMORY_BYTES
        assert done.seen("target") == done.seen("golden") == {"Tensor.add.output.0"}


class TestSides:
    def test_a_golden_of_another_step_matches_nothing_and_says_what_there_is(self, probe_flow, dumps, tmp_path):
        write_mul_add_relu(None, fx_token(tmp_path / "later", 5))
        done = probe_flow(*RUN, *dumps.sets(golden="later/msprobe_fx_dump"))
        assert done.code == 3
        assert "nothing was compared: no target tensor has a golden partner" in done.out
        assert "warning[PF4001]" in done.err
        assert "executions of the golden dump: rank 0 graph 1 step 5" in done.err
        assert_nothing_else_is_lost(done)
        assert done.record["counts"]["pass"] == 0

    def test_a_golden_of_another_model_is_incomplete(self, probe_flow, dumps):
        done = probe_flow(*RUN, *dumps.sets(golden=SAMPLE / "healthy" / "msprobe_fx_dump"))
        assert done.code == 3
        assert done.seen("target") == TARGET
        assert len(done.seen("golden")) == done.record["coverage"]["golden"]["tensors"]
        assert done.verdicts("pass") == set()
        assert done.verdicts("fail") == set()
        assert "nothing was compared" in done.out

    def test_damage_in_the_sample_keeps_every_other_tensor(self, probe_flow, tmp_path):
        shutil.copytree(SAMPLE / "healthy", tmp_path / "sample")
        sets = ("--set", "target=sample/msprobe_ge_dump", "--set", "golden=sample/msprobe_fx_dump")
        whole = probe_flow(*RUN, *sets, output="whole")
        assert whole.code == 0
        (path,) = (tmp_path / "sample" / "msprobe_ge_dump").rglob("SoftmaxV2.SoftmaxV2_1.*")
        path.write_bytes(path.read_bytes()[:64])
        done = probe_flow(*RUN, *sets)
        assert_incomplete_by(done, path.name, "PF3011")
        lost = {name for name in whole.seen("target") if name.startswith("SoftmaxV2_1.")}
        assert whole.seen("target") - done.seen("target") == lost - {"SoftmaxV2_1.output.0"}
        assert done.seen("golden") == whole.seen("golden")


WORKFLOW = TORCHAIR.read_text()
RESULT = "result: {uses: compare, pairs: pairs, policy: torchair, gate: findings}"


class TestWorkflows:
    @pytest.mark.parametrize(
        ("old", "new", "words"),
        [
            ("dump.torchair_ge", "dump.torchair_gee", ["dump.torchair_gee", "did you mean `dump.torchair_ge`"]),
            ("gate: findings", "gatte: findings", ["gatte", "did you mean `gate`"]),
            ("gate: findings", "gate: [findings]", ["gate"]),
            ("gate: findings", "require: {coverage: half}", ["coverage", "half"]),
            ("pairs: pairs", "pairs: report", ["report"]),
            ("pairs: pairs", "pairs: pears", ["pears", "did you mean `pairs`"]),
            ("target: target", "target: result", ["result"]),
            ("${params.target}", "${params.taget}", ["taget", "did you mean `target`"]),
            (RESULT, f"{RESULT}\n  {RESULT}", ["result", "twice"]),
            (RESULT, f"{RESULT}\n---\nversion: 1", ["document"]),
            (RESULT, "result: {uses: compare, pairs: [pairs", ["9"]),
            ("version: 1", "version: 7", ["7"]),
            ("type: path, sample: ../examples/torchair/faulty/msprobe_fx_dump", "type: path", ["golden", "--set"]),
        ],
        ids=[
            "stage",
            "key",
            "type",
            "number",
            "wrong kind",
            "dangling",
            "cycle",
            "parameter",
            "duplicate",
            "documents",
            "syntax",
            "version",
            "unset",
        ],
    )
    def test_a_mistake_in_the_file_is_shown_with_its_line_and_nothing_runs(self, probe_flow, tmp_path, old, new, words):
        assert old in WORKFLOW
        (tmp_path / "w.yaml").write_text(WORKFLOW.replace(old, new))
        is_unset = "--set" in words  # whoever runs the file sets it: no mistake of the file
        assert not is_unset or probe_flow("validate", "w.yaml", output=None).code == 0
        for command in ("run",) if is_unset else ("run", "validate"):
            done = probe_flow(command, "w.yaml", output="out" if command == "run" else None)
            assert done.code == 2
            assert re.search(r"error\[PF\d{4}\]", done.err)
            assert re.search(r"--> w\.yaml:\d+:\d+", done.err)
            assert "Traceback" not in done.err
            for word in words:
                assert word in done.err
        assert not (tmp_path / "out").exists()

    def test_a_value_for_a_parameter_that_is_not_there_is_refused(self, probe_flow, dumps):
        done = probe_flow(*RUN, *dumps.sets(), "--set", f"goldn={dumps.golden}")
        assert done.code == 2
        assert "goldn" in done.err
        assert "did you mean `golden`" in done.err
        assert not done.folder.exists()

    @pytest.mark.parametrize("content", [b"", b"\x00\x01", b"\xff\xfe\xfa", b"[]", b"null", b"version: 1"])
    def test_what_is_no_workflow_is_refused(self, probe_flow, tmp_path, content):
        (tmp_path / "w.yaml").write_bytes(content)
        done = probe_flow("run", "w.yaml")
        assert done.code == 2
        assert "error[PF1" in done.err
        assert "Traceback" not in done.err

    @pytest.mark.parametrize("name", ["gone.yaml", "folder"])
    def test_a_workflow_file_that_cannot_be_read_is_named(self, probe_flow, tmp_path, name):
        (tmp_path / "folder").mkdir()
        done = probe_flow("run", name)
        assert done.code == 2
        assert name in done.err
        assert "Traceback" not in done.err
