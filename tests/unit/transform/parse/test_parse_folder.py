"""Folders of dumped files converted tensor by tensor: names, contents, what is passed over, what fails."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import ge_writer
import numpy as np
import om_writer
import pytest
from ge_writer import DumpTensor
from om_writer import OmFolder
from raw_pairs import context

from probe_flow.elements.converted.files import FileKind
from probe_flow.errors import Diagnostic, IncompleteError, UsageError
from probe_flow.transform.parse.parse_files import Batch, Source, Wanted, lost_batch
from probe_flow.transform.parse.parse_folder import Outcome, parse_paths

X = np.arange(24, dtype=np.float16).reshape(1, 3, 4, 2)


def parse(*paths: Path, output: Path, **wanted: Any) -> Outcome:
    return parse_paths(paths, Wanted(output, **wanted), context().map)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def codes(outcome: Outcome) -> list[str]:
    return [problem.code for problem in outcome.problems]


@pytest.fixture
def dump(tmp_path: Path) -> OmFolder:
    return OmFolder(tmp_path / "dump")


def test_each_tensor_and_section_becomes_a_file(dump: OmFolder, tmp_path: Path) -> None:
    path = dump.op(
        "Conv2D",
        "net/conv1",
        at=1,
        inputs=[X, DumpTensor(X, "float16", "NC1HWC0")],
        outputs=[DumpTensor(X, "bfloat16")],
        buffers=[b"l1 bytes"],
        spaces=[b"log", b""],
    )
    outcome = parse(dump.path, output=tmp_path / "out")

    name = path.name
    assert names(tmp_path / "out") == sorted(
        f"{name}.{end}"
        for end in ("input.0.npy", "input.1.npy", "output.0.npy", "l1buffer.0.bin", "space.0.bin", "space.1.bin")
    )
    stored = np.load(tmp_path / "out" / f"{name}.input.1.npy")
    np.testing.assert_array_equal(stored, ge_writer.to_layout(X, "NC1HWC0"))
    assert np.load(tmp_path / "out" / f"{name}.output.0.npy").dtype == np.float32
    assert (tmp_path / "out" / f"{name}.l1buffer.0.bin").read_bytes() == b"l1 bytes"
    assert (tmp_path / "out" / f"{name}.space.1.bin").read_bytes() == b""
    assert outcome.is_complete
    assert (outcome.sources, outcome.written, outcome.already) == (1, 6, 0)


@pytest.mark.parametrize("form", ["container", "bare", "nano"])
@pytest.mark.parametrize("kind", list(FileKind))
def test_every_container_gives_the_same_files(form: str, kind: FileKind, dump: OmFolder, tmp_path: Path) -> None:
    op_name = "" if form == "nano" else "net/a"
    path = dump.op("Add", "net/a", at=1, outputs=[DumpTensor(X, "float16", "NHWC")], form=form, header_name=op_name)
    parse(dump.path, output=tmp_path / "out", kind=kind)
    (found,) = (tmp_path / "out").iterdir()
    stem = path.name if form == "nano" or kind is not FileKind.MSNPY else path.name.replace("net_a", "a")
    ends = {
        FileKind.NPY: "output.0.npy",
        FileKind.PT: "output.0.pt",
        FileKind.BIN: "output.0.1_4_2_3.float16.NHWC.bin",
        FileKind.MSNPY: "output.0.NHWC.npy",
    }
    assert found.name == f"{stem}.{ends[kind]}"
    assert X.transpose(0, 2, 3, 1).tobytes() in found.read_bytes()


def test_a_layout_is_in_the_name_as_a_shape(dump: OmFolder, tmp_path: Path) -> None:
    path = dump.op("Add", "a", at=1, outputs=[DumpTensor(X, "float16", "NC1HWC0")], buffers=[b"x"])
    parse(dump.path, output=tmp_path / "out", layout="NHWC")
    assert names(tmp_path / "out") == [f"{path.name}.output.0.1x4x2x3.npy"]
    found = np.load(tmp_path / "out" / f"{path.name}.output.0.1x4x2x3.npy")
    np.testing.assert_array_equal(found, X.transpose(0, 2, 3, 1))


def test_a_given_shape_counts_in_place_of_the_recorded_one(dump: OmFolder, tmp_path: Path) -> None:
    given = np.arange(21.0).reshape(3, 7)
    path = dump.op("M", "a", at=1, outputs=[om_writer.tensor(given, "float32", "FRACTAL_NZ", original_shape=None)])
    assert codes(parse(dump.path, output=tmp_path / "out", layout="ND")) == ["PF6505"]
    assert parse(dump.path, output=tmp_path / "out", layout="ND", shape=(3, 7)).is_complete
    np.testing.assert_array_equal(np.load(tmp_path / "out" / f"{path.name}.output.0.3x7.npy"), given)


def test_tensors_can_be_chosen_by_their_numbers(dump: OmFolder, tmp_path: Path) -> None:
    first = dump.op("A", "a", at=1, inputs=[X, X], outputs=[X, X], buffers=[b"x"])
    second = dump.op("B", "b", at=2, outputs=[X])
    parse(dump.path, output=tmp_path / "out", inputs=(1,), outputs=(0,))
    ends = {f"{first.name}.input.1.npy", f"{first.name}.output.0.npy", f"{second.name}.output.0.npy"}
    assert set(names(tmp_path / "out")) == ends
    with pytest.raises(IncompleteError) as caught:
        parse(dump.path, output=tmp_path / "out", outputs=(7,))
    assert caught.value.diagnostic.code == "PF6506"


def test_overflow_records_become_json(dump: OmFolder, tmp_path: Path) -> None:
    record = om_writer.op_debug_record("AICPU", {"task_id": 5, "status": 3})
    path = dump.op_debug(record, at=1)
    outcome = parse(dump.path, output=tmp_path / "out")
    (found,) = (tmp_path / "out").iterdir()
    assert found.name == f"{path.name}.output.0.json"
    content = json.loads(found.read_text())
    assert content["magic"] == "0x5a5a5a5a"
    assert content["acc_list"]["acc_type"] == "AICPU"
    assert content["acc_list"]["data"]["task_id"] == 5
    assert outcome.is_complete


def test_a_slice_of_a_thread_has_the_shape_of_its_range(dump: OmFolder, tmp_path: Path) -> None:
    parts = [np.arange(8.0).reshape(2, 4), np.arange(4.0).reshape(1, 4)]
    paths = dump.slices("Add", "a", at=1, parts=parts, axis=0)
    parse(dump.path, output=tmp_path / "out")
    for path, part in zip(paths, parts, strict=True):
        np.testing.assert_array_equal(np.load(tmp_path / "out" / f"{path.name}.output.0.npy"), part)


def test_an_array_in_place_of_a_device_file_is_one_output(dump: OmFolder, tmp_path: Path) -> None:
    np.save(dump.path / "Add.a.1.2.1700000000000001.npy", X)
    assert parse(dump.path, output=tmp_path / "out", kind=FileKind.PT).is_complete
    assert names(tmp_path / "out") == ["Add.a.1.2.1700000000000001.npy.output.0.pt"]


def test_names_that_are_too_long_are_resolved_by_a_mapping(dump: OmFolder, tmp_path: Path) -> None:
    path = dump.op("Add", "a" * 220, at=1, outputs=[X])
    assert len(path.name) < 255
    parse(dump.path, output=tmp_path / "out")
    parse(dump.path, output=tmp_path / "out")
    mapping, *found = sorted((tmp_path / "out").iterdir(), key=lambda path: path.suffix)
    assert mapping.name == "mapping.csv"
    assert [len(path.stem) for path in found] == [32]
    assert mapping.read_text() == f"{found[0].name},{path.name}.output.0.npy\n"


def test_a_hashed_overflow_record_is_known_by_its_true_name(dump: OmFolder, tmp_path: Path) -> None:
    dump.hashed(dump.op_debug(om_writer.op_debug_table({}), at=1), "123456789")
    assert parse(dump.path, output=tmp_path / "out").is_complete
    assert names(tmp_path / "out") == ["123456789.output.0.json"]


def test_a_tensor_that_cannot_be_converted_costs_itself(dump: OmFolder, tmp_path: Path) -> None:
    strings = DumpTensor(np.zeros(8), "string")
    bad = dump.op("Print", "p", at=1, inputs=[strings, X], outputs=[om_writer.tensor([1.0], shape=(99,))])
    good = dump.op("Add", "a", at=2, outputs=[X])
    outcome = parse(dump.path, output=tmp_path / "out")
    assert codes(outcome) == ["PF6504", "PF6504"]
    assert all(problem.help for problem in outcome.problems)
    assert "needs 396 bytes" in outcome.problems[1].message
    assert "input.0" in outcome.problems[0].message
    assert "`DT_STRING` elements are no numbers" in outcome.problems[0].message
    assert names(tmp_path / "out") == sorted(
        [f"{bad.name}.input.1.npy", f"{good.name}.output.0.npy", "convert_failed_file_list.txt"]
    )
    assert (tmp_path / "out" / "convert_failed_file_list.txt").read_text() == f"{bad}\n"
    assert not outcome.is_complete


def test_the_list_of_failures_keeps_those_of_files_that_are_not_tried_again(dump: OmFolder, tmp_path: Path) -> None:
    listed = tmp_path / "out" / "convert_failed_file_list.txt"
    bad = dump.file("Add.a.1.2.1700000000000001", b"")
    good = dump.op("Add", "b", at=2, outputs=[X])
    other = OmFolder(tmp_path / "other").file("Add.c.1.2.1700000000000003", b"")
    parse(dump.path, output=tmp_path / "out")
    parse(other, output=tmp_path / "out")
    assert listed.read_text() == f"{bad}\n{other}\n"
    assert parse(good, output=tmp_path / "out").is_complete
    assert listed.read_text() == f"{bad}\n{other}\n"
    parse(dump.path, output=tmp_path / "out")
    assert listed.read_text() == f"{other}\n{bad}\n"
    other.write_bytes(good.read_bytes())
    assert parse(other, output=tmp_path / "out").is_complete
    assert listed.read_text() == f"{bad}\n"


def test_the_list_of_failures_is_that_of_the_last_run(dump: OmFolder, tmp_path: Path) -> None:
    bad = dump.file("Add.a.1.2.1700000000000001", b"")
    assert codes(parse(dump.path, output=tmp_path / "out")) == ["PF3010"]
    bad.unlink()
    dump.op("Add", "b", at=2, outputs=[X])
    assert parse(dump.path, output=tmp_path / "out").is_complete
    assert "convert_failed_file_list.txt" not in names(tmp_path / "out")


def test_slots_without_type_and_bytes_are_no_failure(dump: OmFolder, tmp_path: Path) -> None:
    empty = om_writer.tensor(np.zeros(0), "undefined", original_shape=None)
    dump.op("Add", "a", at=1, inputs=[empty], outputs=[X])
    outcome = parse(dump.path, output=tmp_path / "out")
    assert outcome.is_complete
    assert outcome.written == 1


def test_what_is_there_already_is_not_written_again_nor_replaced(dump: OmFolder, tmp_path: Path) -> None:
    path = dump.op("Add", "a", at=1, inputs=[X], outputs=[X])
    parse(dump.path, output=tmp_path / "out")
    result = tmp_path / "out" / f"{path.name}.input.0.npy"
    result.write_bytes(b"mine")

    outcome = parse(dump.path, output=tmp_path / "out")
    assert (outcome.written, outcome.already, codes(outcome)) == (0, 1, ["PF6503"])
    assert result.read_bytes() == b"mine"

    outcome = parse(dump.path, output=tmp_path / "out", replaces=True)
    assert (outcome.written, outcome.already, outcome.is_complete) == (1, 1, True)
    np.testing.assert_array_equal(np.load(result), X)


def test_files_of_other_kinds_are_passed_over_and_counted(dump: OmFolder, tmp_path: Path) -> None:
    dump.op("Add", "a", at=1, outputs=[X])
    for name in ("graph.json", "mapping.csv", "convert_failed_file_list.txt", ".hidden"):
        (dump.path / name).write_text("{}")
    (dump.path / "inside").mkdir()
    outcome = parse(dump.path, output=tmp_path / "out")
    assert (outcome.sources, outcome.passed_over, outcome.is_complete) == (1, 4, True)
    assert "4 files of other kinds passed over" in outcome.line(tmp_path / "out")


def test_links_out_of_the_folder_are_not_followed(dump: OmFolder, tmp_path: Path) -> None:
    inside = dump.op("Add", "a", at=1, outputs=[X])
    outside = OmFolder(tmp_path / "other").op("Add", "b", at=2, outputs=[X])
    (dump.path / "Add.inside.1.2.1700000000000003").symlink_to(inside)
    (dump.path / "Add.outside.1.2.1700000000000004").symlink_to(outside)
    (dump.path / "Add.nowhere.1.2.1700000000000005").symlink_to(tmp_path / "absent")
    (dump.path / "Add.itself.1.2.1700000000000006").symlink_to(dump.path / "Add.itself.1.2.1700000000000006")
    outcome = parse(dump.path, output=tmp_path / "out")
    assert codes(outcome) == ["PF3203"] * 3
    assert len(outcome.failed) == 3
    assert (outcome.sources, outcome.written) == (2, 2)


def test_single_files_and_folders_may_be_mixed(dump: OmFolder, tmp_path: Path) -> None:
    path = dump.op("Add", "a", at=1, outputs=[X])
    other = OmFolder(tmp_path / "other").op("Add", "b", at=2, outputs=[X])
    outcome = parse(path, other.parent, path, output=tmp_path / "out")
    assert (outcome.sources, outcome.written) == (2, 2)


def test_two_files_of_one_name_do_not_replace_each_other(dump: OmFolder, tmp_path: Path) -> None:
    path = dump.op("Add", "a", at=1, outputs=[X])
    other = OmFolder(tmp_path / "other").op("Add", "a", at=1, outputs=[X + 1])
    outcome = parse(path, other, output=tmp_path / "out")
    assert codes(outcome) == ["PF6503"]
    np.testing.assert_array_equal(np.load(tmp_path / "out" / f"{path.name}.output.0.npy"), X)


def test_a_file_without_tensors_is_told(dump: OmFolder, tmp_path: Path) -> None:
    dump.op("NoOp", "n", at=1)
    with pytest.raises(IncompleteError) as caught:
        parse(dump.path, output=tmp_path / "out")
    assert caught.value.diagnostic.code == "PF6507"
    dump.op("Add", "a", at=2, outputs=[X])
    outcome = parse(dump.path, output=tmp_path / "out")
    assert outcome.is_complete
    assert "1 dumped files hold no such tensor" in outcome.line(tmp_path / "out")


@pytest.mark.parametrize("content", [b"", b"x", b"\xff" * 100, bytes(range(256)) * 9, b"\0" * 64])
def test_wreckage_costs_its_own_file(content: bytes, dump: OmFolder, tmp_path: Path) -> None:
    dump.file("Add.a.1.2.1700000000000001", content)
    dump.op("Add", "b", at=2, outputs=[X])
    outcome = parse(dump.path, output=tmp_path / "out")
    assert len(outcome.problems) == 1
    assert (outcome.written, len(outcome.failed)) == (1, 1)


def test_a_folder_of_folders_says_so(tmp_path: Path) -> None:
    (tmp_path / "dump" / "20260101000000").mkdir(parents=True)
    with pytest.raises(IncompleteError) as caught:
        parse(tmp_path / "dump", output=tmp_path / "out")
    assert caught.value.diagnostic.code == "PF6507"
    assert "`20260101000000`" in caught.value.diagnostic.message


def test_paths_that_do_not_exist_are_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        parse(tmp_path / "dump", output=tmp_path / "out")
    assert caught.value.diagnostic.code == "PF2101"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("output", "code"), [("dump", "PF6501"), ("dump/../dump", "PF6501"), ("file", "PF6502")])
def test_results_do_not_go_among_dumped_files(dump: OmFolder, tmp_path: Path, output: str, code: str) -> None:
    dump.op("Add", "a", at=1, outputs=[X])
    (tmp_path / "file").write_text("")
    before = names(dump.path)
    with pytest.raises(UsageError) as caught:
        parse(dump.path, output=tmp_path / output)
    assert caught.value.diagnostic.code == code
    assert names(dump.path) == before


def test_a_full_disk_is_told_for_each_file(dump: OmFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dump.op("Add", "a", at=1, inputs=[X], outputs=[X])

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    outcome = parse(dump.path, output=tmp_path / "out")
    assert set(codes(outcome)) == {"PF6509"}
    assert [name for name in names(tmp_path / "out") if name.endswith("npy")] == []


def test_a_lost_worker_costs_its_files() -> None:
    reason = Diagnostic("PF6106", "gone")
    source = Source(Path("a"), "a", 1)
    (parsed,) = lost_batch(Batch((source,), Wanted(Path("out"))), reason)
    assert parsed.problems == [reason]


def test_more_files_than_a_group_are_all_written(dump: OmFolder, tmp_path: Path) -> None:
    for number in range(150):
        dump.op("Add", f"a{number}", at=number, outputs=[np.float32(number)])
    outcome = parse(dump.path, output=tmp_path / "out")
    assert outcome.written == 150
    assert len(names(tmp_path / "out")) == 150
