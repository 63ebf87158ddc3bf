"""Workflows with thousands of ``${...}``, keys, stages or variants: work grows with the file, or is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from work_done import growth

from probe_flow.errors import Diagnostic, Span, WorkflowError
from probe_flow.errors.render import render, render_all
from probe_flow.workflow.loading.interpolation import MAX_EXPANDED, MAX_MISTAKES
from probe_flow.workflow.loading.loader import MAX_STAGES, load_workflow
from probe_flow.workflow.loading.matrix import MAX_INSTANCES

LINEAR = 2.3

HEAD = 'version: 1\nname: many\nparams:\n  x: {type: str, default: "v"}\nstages:\n'


def problems(path: Path) -> list[Diagnostic]:
    """Return what is wrong with a workflow file."""
    try:
        load_workflow(path, env={}, cwd=path.parent)
    except WorkflowError as error:
        return list(error.diagnostics)
    return []


def codes(path: Path) -> set[str]:
    return {problem.code for problem in problems(path)}


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def to_file(stages: str) -> Path:
        path = tmp_path / f"w{len(list(tmp_path.iterdir()))}.yaml"
        path.write_text(HEAD + stages, encoding="utf-8")
        return path

    return to_file


@pytest.mark.parametrize(
    "piece", ["${params.x}", "${", "${params.y}", "${ }", "$${", r"\x24{params.x}", "${params.x}\\\n    "]
)
def test_work_is_linear_in_the_interpolations_of_a_text(piece: str, write: Callable[[str], Path]) -> None:
    def work(count: int) -> Callable[[], object]:
        path = write(f'  t: {{uses: dump.npy, path: "{piece * count}"}}\n')
        return lambda: problems(path)

    assert growth(work, 500) < LINEAR


def test_work_is_linear_in_the_lines_with_mistakes(write: Callable[[str], Path]) -> None:
    def work(count: int) -> Callable[[], object]:
        lines = "".join(f"  s{i}: {{uses: dump.npy, path: '${{params.y{i}}}'}}\n" for i in range(count))
        path = write(lines)
        return lambda: problems(path)

    assert growth(work, 200) < LINEAR


def test_wrong_interpolations_are_listed_up_to_a_number(write: Callable[[str], Path]) -> None:
    found = problems(write(f'  t: {{uses: dump.npy, path: "{"${params.x" * (MAX_MISTAKES + 50)}"}}\n'))
    listed = [problem for problem in found if problem.code == "PF1305"]
    (last,) = [problem for problem in found if problem.code == "PF1312"]
    assert len(listed) == MAX_MISTAKES
    columns = [problem.span.column for problem in [*listed, last] if problem.span]
    assert columns == [columns[0] + len("${params.x") * i for i in range(MAX_MISTAKES + 1)]


def test_as_many_mistakes_as_are_listed_are_all(write: Callable[[str], Path]) -> None:
    path = write(f'  t: {{uses: dump.npy, path: "{"${params.x" * MAX_MISTAKES}"}}\n')
    assert codes(path) == {"PF1305"}


def test_variants_of_a_stage_do_not_use_up_the_list(write: Callable[[str], Path]) -> None:
    variants = ", ".join(map(str, range(MAX_MISTAKES + 1)))
    found = problems(
        write(
            f"  a: {{uses: dump.npy, path: 'a${{params.y}}${{matrix.n}}', matrix: {{n: [{variants}]}}}}\n"
            "  b: {uses: dump.npy, path: 'b${params.z}'}\n"
        )
    )
    assert [problem.message for problem in found] == ["there is no parameter `y`", "there is no parameter `z`"]


def test_each_interpolation_is_pointed_at_where_it_stands(write: Callable[[str], Path]) -> None:
    found = problems(write("  t: {uses: dump.npy, path: '$${ ${a} ${params.x} ${a}\n    ${a} ${b}'}\n"))
    line = HEAD.count("\n") + 1
    assert [(problem.span.line, problem.span.column) for problem in found if problem.span] == [
        (line, 34),
        (line, 51),
        (line + 1, 5),
        (line + 1, 10),
    ]


def test_a_long_value_inserted_often_is_refused(write: Callable[[str], Path]) -> None:
    uses = MAX_EXPANDED // 100_000 + 1
    path = write("  t: {uses: dump.npy, path: '" + "${params.long}" * uses + "'}\n")
    text = path.read_text(encoding="utf-8").replace(
        "params:\n", f"params:\n  long: {{type: str, default: '{'v' * 100_000}'}}\n"
    )
    path.write_text(text, encoding="utf-8")
    (problem,) = [each for each in problems(path) if each.code == "PF1311"]
    assert problem.span is not None
    assert problem.span.line == text.count("\n", 0, text.index("t: {uses")) + 1


def test_long_stages_with_many_variants_are_refused(write: Callable[[str], Path]) -> None:
    ranks = ", ".join(["0"] * (MAX_EXPANDED // 900))
    variants = ", ".join(map(str, range(1000)))
    path = write(f"  t: {{uses: dump.npy, path: a, select: {{ranks: [{ranks}]}}, matrix: {{n: [{variants}]}}}}\n")
    assert "PF1311" in codes(path)


def test_showing_mistakes_is_linear_in_the_text() -> None:
    def work(count: int) -> Callable[[], object]:
        text = "${x} " * count
        found = [Diagnostic("PF1305", "wrong", span=Span("w", 1, 5 * i + 1, 1, 5 * i + 5)) for i in range(count)]
        return lambda: render_all(found, sources={"w": text})

    assert growth(work, 400) < LINEAR


def test_a_place_far_in_a_long_line_is_shown_with_what_is_around_it() -> None:
    at = 400_000
    line = "a" * at + "WRONG" + "b" * at
    shown = render(Diagnostic("PF1305", "m", span=Span("w", 1, at + 1, 1, at + 6)), sources={"w": line}, width=60)
    snippet, marks = shown.splitlines()[-2:]
    assert snippet.startswith(" 1 | ...aaa")
    assert snippet.endswith("bbb...")
    assert marks.index("^") == snippet.index("WRONG")
    assert marks.count("^") == len("WRONG")


def test_work_is_linear_in_the_keys_that_are_missing(tmp_path: Path) -> None:
    def work(count: int) -> Callable[[], object]:
        path = tmp_path / f"keys{count}.yaml"
        params = "".join(f"  p{i}: {{tipe: str}}\n" for i in range(count))
        path.write_text(f"version: 1\nname: w\nparams:\n{params}stages: {{a: {{uses: dump.npy, path: x}}}}\n")
        return lambda: problems(path)

    assert growth(work, 30) < LINEAR


@pytest.mark.parametrize(("count", "expected"), [(MAX_STAGES, set()), (MAX_STAGES + 1, {"PF1313"})])
def test_more_stages_than_a_workflow_can_mean_are_refused(
    write: Callable[[str], Path], count: int, expected: set[str]
) -> None:
    path = write("".join(f"  s{i}: {{uses: dump.npy, path: x}}\n" for i in range(count)))
    assert codes(path) == expected


def test_variants_of_all_stages_are_counted_together(write: Callable[[str], Path]) -> None:
    variants = ", ".join(map(str, range(1000)))
    stages = [f"  s{i}: {{uses: dump.npy, path: x, matrix: {{m: [{variants}]}}}}\n" for i in range(12)]
    assert codes(write("".join(stages[: MAX_INSTANCES // 1000]))) == set()
    (problem,) = problems(write("".join(stages)))
    assert problem.code == "PF1313"
    assert problem.stage == "s10"
