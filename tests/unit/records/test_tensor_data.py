"""Files, statistics and checksums of tensors in tables."""

from __future__ import annotations

import pickle
from array import array

import pytest

from probe_flow.records import (
    Execution,
    Extent,
    FigureTable,
    NodeKey,
    Slot,
    SlotRole,
    Statistics,
    TensorData,
    TensorKind,
    TensorRef,
    TensorTable,
    TensorTables,
)

NODE = NodeKey(Execution(), "add_1")


def tensor(file: str, index: int = 0, **facts: object) -> TensorRef:
    extents = (Extent(file, 128, 24),)
    slot = Slot(SlotRole.OUTPUT, (index,))
    return TensorRef.of(NODE, slot, TensorKind.TENSOR, "float32", shape=(2, 3), extents=extents, **facts)


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"checksum": "0a1b2c3d"},
        {"recorded": Statistics(0.0, 1.5, 0.5, 2.0)},
        {"recorded": Statistics(False, 7, float("inf"), None, 0, 2**70), "checksum": "ff"},
        {"recorded": Statistics()},
        {"source": "/dump/dump.json", "item": "Tensor.add.0.forward.output.0"},
    ],
)
@pytest.mark.parametrize("file", ["/dump/a/x.npy", "/dump/a/größe_\udcff.npy", "/x", "name alone"])
def test_a_tensor_in_a_table_is_what_it_was(file: str, facts: dict[str, object]) -> None:
    alone, tables = tensor(file, **facts), TensorTables()
    stored = alone.stored_in(tables)
    assert isinstance(stored.data, TensorTable)
    assert stored == alone
    assert stored.extents == (Extent(file, 128, 24),)
    assert stored.source == facts.get("source", file)
    assert (stored.recorded, stored.checksum) == (facts.get("recorded"), facts.get("checksum"))
    assert stored.stored_in(tables) is stored
    again = pickle.loads(pickle.dumps(stored))
    assert again == alone
    assert not isinstance(again.data, TensorTable)


def test_files_of_a_folder_share_a_table_and_tensors_of_a_file_its_name() -> None:
    tables = TensorTables()
    files = ["/d/one", "/d/one", "/d/two", "/d/one", "/e/one"]
    refs = [tensor(file, place).stored_in(tables) for place, file in enumerate(files)]
    first = refs[0].data
    assert isinstance(first, TensorTable)
    assert [ref.data is first for ref in refs] == [True, True, True, True, False]
    assert [ref.number for ref in refs] == [0, 1, 2, 3, 0]
    assert first.names.tobytes() == b"onetwoone"
    assert [*first.begins] == [0, 0, 3, 6]
    assert [ref.source for ref in refs] == files
    assert first.is_sound


def test_a_name_that_begins_like_the_one_before_is_another_file() -> None:
    tables = TensorTables()
    files = ["/d/ab", "/d/a", "/d/abc", "/d/"]
    assert [tensor(file).stored_in(tables).source for file in files] == files


def test_checksums_may_begin_and_end_anywhere() -> None:
    tables, sums = TensorTables(), [None, "a", None, "b", None]
    refs = [tensor(f"/d/{place}", checksum=text).stored_in(tables) for place, text in enumerate(sums)]
    assert [ref.checksum for ref in refs] == sums
    assert all(isinstance(ref.data, TensorTable) and ref.data.is_sound for ref in refs)


def test_tensors_without_a_file_and_in_several_parts_stay_alone() -> None:
    parts = (Extent("/d/one", 0, 8, part=(0, 0)), Extent("/d/two", 0, 16, part=(0, 1)))
    for ref in (tensor("/d/one").changed(extents=parts), tensor("/d/one").changed(extents=(), source=None)):
        assert ref.stored_in(TensorTables()) is ref
    joined = tensor("/d/one").changed(extents=parts)
    assert (joined.extents, joined.nbytes, joined.source) == (parts, 24, "/d/one")


def test_a_table_of_one_file_has_no_names() -> None:
    figures = FigureTable(("min", "max", "mean", "l2norm"))
    table, numbers = TensorTable("/d/dump.json", figures), [figures.add((0.0, top, 0.5, 2.0)) for top in (1.0, 2.0)]
    refs = [TensorRef(NODE, tensor("/d/x").traits, table, number) for number in numbers]
    assert [ref.source for ref in refs] == ["/d/dump.json"] * 2
    assert [ref.recorded for ref in refs] == [Statistics(0.0, top, 0.5, 2.0) for top in (1.0, 2.0)]
    assert table.is_sound


@pytest.mark.parametrize(
    "table",
    [
        TensorTable("/d/", names=array("B", b"abc"), begins=array("I", [1]), lengths=array("H", [3])),
        TensorTable("/d/", names=array("B", b"abc"), begins=array("I", [0]), lengths=array("H", [])),
        TensorTable("/d/", names=array("B", b"abc"), begins=array("I", []), lengths=array("H", [1])),
        TensorTable("/d/", names=array("b", b"abc"), begins=array("I", [0]), lengths=array("H", [1])),
        TensorTable(
            "/d/", checksums=["a"], names=array("B", b"ab"), begins=array("I", [0, 1]), lengths=array("H", [1, 1])
        ),
        TensorTable("/d/", FigureTable(tuple("abcdefg"))),
    ],
)
def test_a_table_whose_columns_do_not_fit_is_not_sound(table: TensorTable) -> None:
    assert not table.is_sound


def test_a_name_that_no_file_can_have_stays_with_its_tensor() -> None:
    tables = TensorTables()
    assert tables.add(TensorData("/dump/" + "x" * 70_000)) is None
    assert tables.add(TensorData("/dump/" + "\N{GRINNING FACE}" * 4096)) is not None


def test_the_holder_is_the_file_with_the_bytes_and_else_the_one_that_the_tensor_came_from() -> None:
    source = "/dump/dump.json"
    assert tensor("/dump/a.npy", source=source).holder == "/dump/a.npy"
    parts = (Extent("/dump/part_0", 0, 8), Extent("/dump/part_1", 0, 16))
    in_parts = TensorRef.of(NODE, Slot(SlotRole.OUTPUT), TensorKind.TENSOR, "float32", extents=parts, source=source)
    assert in_parts.holder == "/dump/part_0"
    for given in (source, None):
        none = TensorRef.of(NODE, Slot(SlotRole.OUTPUT), TensorKind.STATISTICS, "float32", source=given)
        assert none.holder == given
