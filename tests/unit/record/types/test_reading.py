"""The readers of stored records: they take what the published schemas allow, and name what they refuse."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from msgspec import Struct
from stored_runs import node, row

from probe_flow.record.json_values import number
from probe_flow.record.run_json import plain
from probe_flow.record.schemas import ROOTS, schema
from probe_flow.record.types.reading import MisfitError, Reader
from probe_flow.record.types.rows import RowRecord
from probe_flow.testing.run_records import run_data

MAP = {"shape": [2, 3], "down": [0], "across": [1], "cell": [1, 1], "errors": [0.5, None], "alike": [], "mismatch": [1]}
WHOLE: dict[str, Any] = {
    "run": run_data(
        findings=[
            {"metrics": {"cosine": 0.5, "max_abs_err": "inf"}, "advice": [{"code": "PF7413", "text": "x"}], "row": 3,
             "source": "a.py:3"},
            {"kind": "drift", "node": None, "name": None, "call": None, "phase": None, "waived": "why"},
        ],
        counts={"pass": 1}, roles={"clean": 1}, coverage={"target": {"tensors": 3}}, problems=[{}], stages=[{}],
        inputs=[{}], params={"a": [1, {"b": None}]}, caveats=["partly"], suspects=[0], cache={"folder": None},
        comparisons={
            "result": {
                "dumps": {"target": {"path": "/d", "framework": "f", "task": "t", "tensors": 1, "executions": 1}},
                "gate": {}, "nodes": 7,
                "waivers": [
                    {"where": "x", "reason": "r", "owner": "o", "expires": "2026-12-31", "bound": None, "state": "used",
                     "rows": 1, "findings": 0, "exceeded": 0}
                ],
                "baseline": {
                    "file": "b", "tolerance": 0.1, "accepted": 1, "counts": {"worse": 1, "better": 0, "absent": 0},
                    "worse": [
                        {"node": "A", "op_type": "", "graph": "g", "call": 0, "phase": "none", "slot": "",
                         "kind": "fail", "accepted": None, "now": "nan", "new": True}
                    ],
                    "better": [], "absent": [],
                },
            }
        },
    ),
    "comparison": row(0, "A_1", transform=["golden:nhwc_to_nchw"], waived="why", accepted="why", excess="inf"),
    "nodes": node(
        "B_1", 1, (0, "A_1", 0), stack=["f"], originals=["a"], passes=["p"], attributes={"entry": "B.0.forward"},
        arguments=[{"direction": "input", "index": "0.x", "path": [0, "x"], "kind": "tensor", "dtype": "f",
                    "shape": [2], "value": None}],
    ),
    "details": {"order": 2, "start": 0, "target": [1.0], "golden": ["nan"], "edges": [0, 1.0], "counts": [1],
                "equal": 0, "maps": [MAP]},
}  # fmt: skip

JUNK: list[Any] = [None, 5, -1, -1.5, "x", "\udcff", [], {}, [1, {"a": 2}], {"a": [1]}, True, "nan", "forward", 2**70]

Place = tuple[str | int, ...]


def places(value: Any, path: Place = ()) -> Iterator[Place]:
    """Yield where the values inside a record lie; of a list, its first two."""
    yield from (path,) if path else ()
    children = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


def changed(record: Any, path: Place, change: Any) -> Any:
    """Return a copy of a record with another value at a place, without it for a change of `...`."""
    key, *rest = path
    copy = dict(record) if isinstance(record, dict) else list(record)
    if rest:
        copy[key] = changed(record[key], tuple(rest), change)
    elif change is ...:
        del copy[key]
    else:
        copy[key] = change
    return copy


def reader(name: str) -> Reader[Struct]:
    return Reader(ROOTS[name][1])


def refusal(name: str, record: Any) -> str:
    with pytest.raises(MisfitError) as caught:
        reader(name).read(json.dumps(record).encode())
    return str(caught.value)


@pytest.mark.parametrize("name", ROOTS)
def test_a_record_that_is_read_is_published_as_it_was_written(name: str) -> None:
    found = plain(reader(name).read(json.dumps(WHOLE[name]).encode()))
    assert json.loads(json.dumps(found)) == WHOLE[name]


@pytest.mark.parametrize("name", ROOTS)
def test_what_the_reader_takes_is_what_the_published_schema_allows(name: str) -> None:
    """Each value in turn replaced by others or taken away, and keys that nobody knows."""
    record, valid = WHOLE[name], Draft202012Validator(schema(name))
    assert valid.is_valid(record)
    cases = [(place, junk) for place in places(record) for junk in [*JUNK, ...]]
    cases += [((*place, "unheard_of"), 1) for place in places(record) if isinstance(_at(record, place), dict)]
    for place, junk in random.Random(0).sample(cases, min(len(cases), 800)):
        other = changed(record, place, junk)
        try:
            reader(name).read(json.dumps(other).encode())
            is_taken = True
        except MisfitError:
            is_taken = False
        assert is_taken == valid.is_valid(other), (place, junk)


def _at(record: Any, place: Place) -> Any:
    for key in place:
        record = record[key]
    return record


@pytest.mark.parametrize(
    ("name", "place", "junk", "said"),
    [
        ("comparison", ("rank",), "first", "`rank` is a text, expected a whole number or null"),
        ("comparison", ("verdict",), "green", "`verdict` is a text, expected one of pass, warning, fail, "),
        ("comparison", ("metrics", "cosine"), [1], "`metrics.cosine` is a list, expected true or false or"),
        ("comparison", ("target", "shape", 1), -2, "`target.shape[1]` is a whole number, expected a whole"),
        ("comparison", ("golden", "dtype"), ..., "`golden` lacks `dtype`"),
        ("comparison", ("golden", "more"), 1, "`golden` has an unknown key `more`"),
        ("comparison", ("call",), True, "`call` is true or false, expected a whole number in its range"),
        ("comparison", ("target",), 3, "`target` is a whole number, expected an object or null"),
        ("nodes", ("edges",), 7, "`edges` is a whole number, expected a list"),
        ("nodes", ("edges", 0, "call"), 1.0, "`edges[0].call` is a number, expected a whole number in its range"),
        ("nodes", ("side",), "left", "`side` is a text, expected one of target, golden, reference"),
        ("run", ("findings", 0, "metrics", "max_abs_err"), {}, "`findings[0].metrics.max_abs_err` is an object, exp"),
        ("run", ("counts", "green"), 1, "`counts` has a key that is not one of pass, warning, f"),
        ("run", ("comparisons", "result", "coverage"), {"target": {}}, "`comparisons.result.coverage.target` lacks `t"),
        ("run", ("verdict",), "green", "`verdict` is a text, expected one of pass, fail, incomplete, stopped or null"),
        ("run", ("run_id",), ..., "it lacks `run_id`"),
        ("details", ("maps", 0, "cell"), [1], "`maps[0].cell` is a list, expected a list in its range"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named_with_its_place_and_what_was_expected(
    name: str, place: Place, junk: Any, said: str
) -> None:
    assert refusal(name, changed(WHOLE[name], place, junk)).startswith(said)


@pytest.mark.parametrize("value", [[], "x", None, 3])
def test_what_is_no_object_is_refused(value: Any) -> None:
    assert refusal("comparison", value).endswith(", expected an object")


def test_figures_are_published_as_they_were_whatever_they_are() -> None:
    figures = {"a": 2**64, "b": -(2**64), "c": True, "d": "nan", "e": "-inf", "f": 5e-324, "g": 0.1, "h": -0.0, "i": 3}
    text = json.dumps(row(0, "A", metrics=figures))
    found = Reader(RowRecord).read(text.encode())
    assert json.dumps(plain(found)) == text
    assert [number(value) for value in found.metrics.values() if value not in ("nan", True)] == [
        2.0**64, -(2.0**64), -float("inf"), 5e-324, 0.1, 0.0, 3.0,
    ]  # fmt: skip
    assert found.metrics["c"] is True


def test_texts_that_are_no_unicode_are_read() -> None:
    found = Reader(RowRecord).read(json.dumps(row(0, "a\udcff")).encode())
    assert found.node == "a\udcff"


@pytest.mark.parametrize("kept", range(0, len(json.dumps(row(0, "A"))), 7))
def test_a_record_that_is_cut_is_no_json(kept: int) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        Reader(RowRecord).read(json.dumps(row(0, "A")).encode()[:kept])


@pytest.mark.parametrize("text", ["NaN", "[" * 100_000, "1e999", "\xff", "{"])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises((ValueError, RecursionError)):
        Reader(RowRecord).read(text.encode("latin-1"))
