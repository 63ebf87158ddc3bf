"""The index of rows: what a full reading of the file finds, and of no use for any other file."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from report_builders import comparison, good_row, measurement, missing_golden, missing_target, row, tensor
from stored_runs import found_index, packaged_run

from probe_flow.record.jsonl import write_comparison_jsonl, write_nodes_jsonl
from probe_flow.record.places import Place
from probe_flow.record.row_index import (
    FILE,
    FORMAT,
    STATES,
    Digest,
    RowIndex,
    call_code,
    error_of,
    is_indexed,
    read_index,
    split_line,
    state_byte,
    write_index,
)
from probe_flow.record.stored.kinds import FILE as STORED
from probe_flow.record.stored.reading import read_comparison
from probe_flow.records import Comparison, Phase, Role, Status

WORKFLOWS = (
    "torchair_ge_vs_fx",
    "torchair_with_reference",
    "torchair_minmax",
    "pytorch_compare",
    "mindspore_vs_pytorch_layer_mapping",
    "offline_om_vs_onnx",
    "find_nonfinite",
)
LIMIT = 1 << 30


def written(given: Comparison, folder: Path) -> RowIndex:
    """Write both files of lines, and the index next to them; return it as the writer made it."""
    index = write_comparison_jsonl(given, folder / "comparison.jsonl")
    write_index(index, write_nodes_jsonl(given, folder / "nodes.jsonl"), folder / FILE)
    return index


def bytes_of(index: RowIndex, folder: Path) -> bytes:
    write_index(index, Digest(), folder / "other.index")
    return (folder / "other.index").read_bytes()


def is_as_found(given: Comparison, folder: Path) -> bool:
    """Return True if the index is the one that a reading of all rows finds."""
    index = written(given, folder)
    stored = read_index(folder / FILE, limit=LIMIT)
    assert stored is not None
    assert stored.rows.digest.is_of(folder / "comparison.jsonl")
    assert stored.nodes.is_of(folder / "nodes.jsonl")
    assert bytes_of(stored.rows, folder) == bytes_of(index, folder)
    return bytes_of(index, folder) == bytes_of(found_index(folder), folder)


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_the_index_of_a_real_run_is_what_reading_all_of_it_finds(tmp_path: Path, workflow: str) -> None:
    run = packaged_run(workflow, tmp_path / "run")
    assert not (run / FILE).exists(), "a run of few rows needs none"
    found = sorted(run.rglob(STORED))
    assert found
    for file in found:
        assert is_as_found(read_comparison(file), tmp_path)


NAMES = st.text(st.characters(exclude_categories=()), min_size=1, max_size=6)
FIGURES = st.none() | st.booleans() | st.floats() | st.integers(-(2**70), 2**70)


@st.composite
def rows(draw: Callable[..., Any]) -> Any:
    """A row of any name, figures, verdict, role and sides."""
    name = draw(NAMES)
    metrics = draw(st.dictionaries(st.sampled_from(("relative_euclidean_distance", "l2norm_diff_rel", "x")), FIGURES))
    said = {"status": draw(st.sampled_from(Status)), "role": draw(st.sampled_from(Role))}
    sides = draw(st.sampled_from(("both", "target", "golden")))
    return row(
        target=tensor(name) if sides != "golden" else None,
        golden=tensor(draw(NAMES), side="golden") if sides != "target" else None,
        measured=measurement(metrics) if sides == "both" else None,
        **said,
    )


@given(found=st.lists(rows(), max_size=5))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_index_of_any_rows_is_what_reading_all_of_them_finds(tmp_path: Path, found: list[Any]) -> None:
    from msgspec.structs import replace

    numbered = [replace(each, order=number) for number, each in enumerate(found)]
    assert is_as_found(comparison(*numbered), tmp_path)


def test_what_the_index_says_of_a_row(tmp_path: Path) -> None:
    given = comparison(
        good_row(0, "Add_1", measured=measurement({"relative_euclidean_distance": math.inf})),
        good_row(1, "Add_1", status=Status.FAIL, role=Role.ORIGIN),
        missing_golden(2, "Mul_9"),
        missing_target(3, "sub_3"),
    )
    index = written(given, tmp_path)
    lines = (tmp_path / "comparison.jsonl").read_bytes().splitlines(keepends=True)
    assert index.lengths.tolist() == [*map(len, lines)]
    assert index.errors.tolist() == [math.inf, 0.001, 0.0, 0.0]
    assert [STATES[byte] for byte in index.states] == [
        (Status.PASS, Role.CLEAN, True, True, False),
        (Status.FAIL, Role.ORIGIN, True, True, False),
        (Status.UNMATCHED_TARGET, Role.CLEAN, True, False, False),
        (Status.UNMATCHED_GOLDEN, Role.CLEAN, False, True, False),
    ]
    assert [(each.begin, each.end) for each in index.stretches()] == [(0, 2), (2, 3), (3, 4)]
    first = json.loads(lines[0])
    at = Place(first["rank"], first["graph"], first["step"])
    assert index.executions == [at]
    assert index.calls[0] == call_code(at, "Add_1", 0, Phase(first["phase"]))
    assert [*index.numbers(lambda state: state.has_golden, lambda _: True)] == [0, 1, 3]
    assert [*index.numbers(lambda _: True, lambda _: False)] == []
    assert [*index.numbers_of_calls({index.calls[1]})] == [2]


def test_every_state_has_a_byte_of_its_own() -> None:
    sides = [(target, golden, third) for target in (None, 1) for golden in (None, 1) for third in (None, 1)]
    states = [(status, role, *side) for status in Status for role in Role for side in sides]
    assert len({state_byte(*state) for state in states}) == len(states) == 256
    assert all(STATES[state_byte(*state)] == (*state[:2], *map(bool, state[2:])) for state in states)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.5, 0.5), (None, 0.0), ("nan", 0.0), (math.nan, 0.0), ("inf", math.inf), (True, 1.0), (10**400, math.inf),
     (-0.25, -0.25), ("word", 0.0)],
)  # fmt: skip
def test_the_error_of_a_row_is_a_number(value: object, expected: float) -> None:
    assert error_of(value) == expected


def test_calls_that_differ_in_anything_have_other_codes() -> None:
    places = [Place(rank, graph, step) for rank in (None, 0, 1) for graph in (None, 1, "1", "a b") for step in (0, 11)]
    calls = [(at, node, call, phase) for at in places for node in ("a", "b 1") for call in (0, 1) for phase in Phase]
    assert len({call_code(*call) for call in calls}) == len(calls)


def test_two_halves_of_a_character_are_the_character_that_json_makes_of_them() -> None:
    halves = "\ud83d" + "\ude00"
    assert json.loads(json.dumps(halves)) == "\U0001f600"
    assert call_code(Place(), halves, 0, Phase.NONE) == call_code(Place(), "\U0001f600", 0, Phase.NONE)


@pytest.mark.parametrize(
    ("line", "head"),
    [
        (b'{"order": 0, "a": 1}\n', b'{"order": 0'), (b'{"order": 120, "a": 1}\n', b'{"order": 120'),
        (b'{"order": 01, }', b""), (b'{"order":1, }', b""), (b'{"ordre": 1, }', b""), (b'{"order": 1}', b""),
        (b"", b""),
    ],
)  # fmt: skip
def test_only_an_order_is_the_begin_of_a_line(line: bytes, head: bytes) -> None:
    assert split_line(line) == (head, line.removeprefix(head))


# -- files that are none


@pytest.fixture
def some(tmp_path: Path) -> Path:
    written(comparison(*(good_row(number, f"Add_{number}") for number in range(3))), tmp_path)
    return tmp_path / FILE


def test_an_index_that_is_cut_anywhere_is_none(some: Path) -> None:
    data = some.read_bytes()
    for size in range(len(data)):
        some.write_bytes(data[:size])
        assert read_index(some, limit=LIMIT) is None, size


def test_an_index_with_any_byte_changed_is_none(some: Path) -> None:
    data = some.read_bytes()
    for place in range(len(data)):
        some.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert read_index(some, limit=LIMIT) is None, place


def sealed(head: dict[str, Any], columns: bytes, path: Path) -> Path:
    """Write an index whose check sum is right, whatever it says."""
    data = json.dumps(head).encode() + b"\n" + columns
    path.write_bytes(data + zlib.crc32(data).to_bytes(4, "little"))
    return path


@pytest.mark.parametrize(
    "changed",
    [
        {"format": "probe_flow.index/2"}, {"byteorder": "big"}, {"count": 10**30}, {"count": 2}, {"count": -1},
        {"stretches": 4}, {"stretches": 0}, {"executions": []}, {"executions": [[0, 1]]}, {"executions": 7},
        {"rows": {"size": 1, "crc32": 0}}, {"rows": None}, {"nodes": []}, {"statuses": ["pass"]},
        {"roles": ["clean", "origin", "inherited", "unknown"]}, {"more": 1},
    ],
)  # fmt: skip
def test_an_index_that_says_what_cannot_be_is_none(some: Path, changed: dict[str, Any]) -> None:
    line, _, columns = some.read_bytes()[:-4].partition(b"\n")
    head = json.loads(line)
    assert head["format"] == FORMAT
    assert read_index(sealed(head, columns, some), limit=LIMIT) is not None
    if "more" in changed:
        assert read_index(sealed(head, columns + b"\0", some), limit=LIMIT) is None
    else:
        assert read_index(sealed({**head, **changed}, columns, some), limit=LIMIT) is None


@given(data=st.binary(max_size=200))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_no_index(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "any.index"
    path.write_bytes(data + zlib.crc32(data).to_bytes(4, "little"))
    assert read_index(path, limit=LIMIT) is None


def test_there_is_no_index_in_a_folder_a_link_to_nothing_or_a_file_that_is_too_large(some: Path) -> None:
    assert read_index(some.parent, limit=LIMIT) is None
    assert read_index(some.parent / "none", limit=LIMIT) is None
    assert read_index(some, limit=10) is None


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"\n", lambda data: b"}" + data[1:]])
def test_a_file_with_other_bytes_is_another(some: Path, change: Callable[[bytes], bytes]) -> None:
    stored = read_index(some, limit=LIMIT)
    assert stored is not None
    file = some.parent / "comparison.jsonl"
    assert stored.rows.digest.is_of(file)
    file.write_bytes(change(file.read_bytes()))
    assert not stored.rows.digest.is_of(file)
    assert not stored.rows.digest.is_of(some.parent)


def test_rows_that_are_not_numbered_have_no_index_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probe_flow.record.row_index.LEAST_ROWS", 2)
    assert is_indexed([good_row(0), good_row(1)])
    assert not is_indexed([good_row(0), good_row(5)])
    assert not is_indexed([good_row(0)])
