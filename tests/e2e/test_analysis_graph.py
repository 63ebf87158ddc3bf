"""Casts that lose values, and operators that two graphs of one step describe in other ways."""

from __future__ import annotations

from pathlib import Path

import graph_text_writer
import pytest
import rule_builders as rules
from rule_builders import attr, desc, op

from e2e.projects import Command, Done

K = [attr("k", i=1)]


def graph(path: Path, *ops: rules.Tree) -> Path:
    return graph_text_writer.write(path, rules.model(*ops))


def base(dtype: str = "DT_FLOAT16", layout: str = "ND") -> list[rules.Tree]:
    return [
        op("x", "Data", outputs=[desc(dtype="DT_FLOAT")], attrs=K),
        op("add", "Add", number=1, inputs=["x:0"], outputs=[desc(dtype=dtype, layout=layout)]),
        op("trans", "TransData", number=2, inputs=["add:0"], outputs=[desc(dtype=dtype)]),
    ]


def examined(probe_flow: Command, folder: Path, **options: Path) -> Done:
    file = folder / "graph.yaml"
    given = ", ".join(f"{name}: {path}" for name, path in options.items())
    file.write_text(f"version: 1\nname: graphs\nstages:\n  found: {{uses: analysis.graph, {given}}}\n")
    return probe_flow("run", file)


def texts(done: Done) -> list[str]:
    return [finding["evidence"] for finding in done.record["findings"] if finding["kind"] == "remark"]


@pytest.mark.parametrize(
    ("source", "result", "word"),
    [
        ("DT_FLOAT", "DT_INT32", "fractions"),
        ("DT_BF16", "DT_UINT8", "fractions"),
        ("DT_INT64", "DT_INT32", "beyond 32 bits"),
        ("DT_FLOAT", "DT_FLOAT16", None),
        ("DT_INT32", "DT_INT64", None),
    ],
)
def test_casts_that_lose_values_are_named_by_their_types(probe_flow, tmp_path, source, result, word):
    path = graph(
        tmp_path / "ge_proto_1_Build.txt",
        op("a", "Mul", outputs=[desc(dtype=source)], attrs=K),
        op("c", "Cast", number=1, inputs=["a:0"], outputs=[desc(dtype=result)]),
    )
    done = examined(probe_flow, tmp_path, graph=path)
    found = texts(done)

    assert done.code == 0
    assert [("`c`" in text, f"{source} into {result}" in text, word in text) for text in found] == (
        [(True, True, True)] if word else []
    )


def test_equal_graphs_are_alike_altogether(probe_flow, tmp_path):
    one, other = (graph(tmp_path / f"{name}.txt", *base()) for name in "ab")
    (text,) = texts(examined(probe_flow, tmp_path, graph=one, other=other))
    assert "alike in 2 of 2 operators (100.0%)" in text


def test_what_differs_is_named_with_both_values_and_names_of_one_graph_are_counted(probe_flow, tmp_path):
    one = graph(tmp_path / "a.txt", *base())
    other = graph(tmp_path / "b.txt", *base("DT_FLOAT", "FRACTAL_NZ"), op("new", "Relu", number=9, outputs=[desc()]))
    found = texts(examined(probe_flow, tmp_path, graph=one, other=other))

    assert "alike in 1 of 2 operators (50.0%); 0 and 1 are in one of them only, such as `new`" in found[0]
    assert "type of output 0: DT_FLOAT16 and DT_FLOAT; layout of output 0: ND and FRACTAL_NZ" in found[1]


def test_a_file_that_is_no_graph_is_a_mistake(probe_flow, tmp_path):
    (tmp_path / "a.txt").write_text("hello")
    assert examined(probe_flow, tmp_path, graph=tmp_path / "a.txt").code == 2
