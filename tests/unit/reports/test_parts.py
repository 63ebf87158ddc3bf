"""The files of one table: a file per rank, step and process, named as users know them."""

from __future__ import annotations

from typing import Any

import pytest
from call_rows import Call, compared
from msgspec.structs import replace
from offline_rows import Op, figures, offline

from probe_flow.records import Execution
from probe_flow.reports.layout import LAYOUTS


def names(*calls: Call, layout: str = "dump_json", max_rows: int | None = None, **attrs: Any) -> list[str]:
    found = LAYOUTS[layout].parts(compared(*calls, **attrs), max_rows)
    return [f"{part.folder}{'debug_' * part.is_debug}result{part.suffix}{part.ending}" for part in found]


@pytest.mark.parametrize(
    ("calls", "files", "expected"),
    [
        ([Call("a")], ("dump.json",), ["result"]),
        ([Call("a")], ("debug.json",), ["debug_result"]),
        ([Call("a", rank=0)], ("dump.json",), ["result"]),
        ([Call("a", rank=0)], ("rank0/dump.json",), ["result_rank0"]),
        ([Call("a")], ("step0/proc1000/dump.json",), ["result_proc1000"]),
        (
            [Call("a", rank=1), Call("a", rank=0)],
            ("rank0/dump.json", "rank1/dump.json"),
            ["result_rank1", "result_rank0"],
        ),
        (
            [Call("a", step=0), Call("a", step=2)],
            ("step0/proc7/dump.json", "step2/proc9/dump.json"),
            ["step0/result_proc7", "step2/result_proc9"],
        ),
    ],
)
def test_files_are_named_after_the_folders_of_the_dump(calls: Any, files: Any, expected: list[str]) -> None:
    assert names(*calls, files=files) == expected


def test_rows_of_the_golden_alone_go_to_the_execution_that_it_was_compared_with() -> None:
    calls = [Call("a", rank=0), Call("b", [(None, 1.0)], [(None, 1.0)], rank=0), Call("a", rank=1)]
    found = list(LAYOUTS["dump_json"].parts(compared(*calls, files=("rank0/dump.json", "rank1/dump.json")), None))
    assert [len(part.comparison.rows) for part in found] == [4, 2]


def test_long_tables_are_cut() -> None:
    assert names(Call("a"), Call("b"), max_rows=3) == ["result_part_1", "result_part_2"]
    assert names(Call("a"), Call("b"), max_rows=4) == ["result"]


def test_other_layouts_are_one_file() -> None:
    calls = [Call("a", rank=0), Call("a", rank=1)]
    assert names(*calls, layout="torchair", max_rows=1, files=("rank0/dump.json", "rank1/dump.json")) == ["result"]


def test_no_rows_are_one_empty_table() -> None:
    assert names() == ["result"]


def models(*executions: Execution, layout: str = "offline") -> list[str]:
    ops = [offline(Op("a", outputs=[figures()]), execution=execution) for execution in executions]
    rows = tuple(row for each in ops for row in each.rows)
    return [f"{part.prefix}result" for part in LAYOUTS[layout].parts(replace(ops[0], rows=rows), None)]


@pytest.mark.parametrize("layout", ["offline", "msaccucmp"])
def test_a_tree_of_models_has_a_file_for_each(layout: str) -> None:
    found = models(
        Execution(rank=0, step=3, graph=11, model="ge_default_1"),
        Execution(rank=1, step=3, graph=11, model="ge_default_1"),
        layout=layout,
    )
    assert found == ["0_ge_default_1_3_result", "1_ge_default_1_3_result"]


def test_models_of_one_name_are_told_apart_by_their_id() -> None:
    same = [Execution(rank=0, step=3, graph=graph, model="m") for graph in (11, 12)]
    assert models(*same, Execution(rank=0, step=4, graph=11, model="m")) == [
        "0_m_11_3_result",
        "0_m_12_3_result",
        "0_m_4_result",
    ]


def test_a_folder_of_offline_tensors_is_one_file() -> None:
    assert models(Execution()) == ["result"]


def test_names_of_models_are_names_of_files() -> None:
    assert models(Execution(rank=0, step=0, graph=1, model="../a b/=c")) == ["0__a_b_c_0_result"]
