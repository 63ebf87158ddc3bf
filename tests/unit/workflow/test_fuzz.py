"""Any text gives a workflow or a WorkflowError with places inside it: nothing else."""

from __future__ import annotations

import tempfile
from pathlib import Path

from corpus_cases import CORPUS
from hypothesis import example, given, settings
from hypothesis import strategies as st

from probe_flow.errors import WorkflowError
from probe_flow.errors.render import render_all, split_lines
from probe_flow.workflow.loader import load_workflow

SEEDS = [path.read_text(encoding="utf-8") for path in sorted((CORPUS / "valid").glob("*.yaml"))]
PIECES = [
    "${",
    "}",
    "[",
    "]",
    "{",
    "*a",
    "&a ",
    "<<: ",
    "---\n",
    "\t",
    "\n",
    "  ",
    ": ",
    "!!x ",
    "'",
    '"',
    "null",
    "1e9",
    "\x00",
    "é",
    "#",
]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(text)))
        end = min(len(text), at + draw(st.integers(0, 12)))
        text = text[:at] + draw(st.sampled_from(["", *PIECES, text[at:end] * 2])) + text[end:]
    return text


def check(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "w.yaml")
        path.write_text(text, encoding="utf-8", newline="")
        found = _problems(path)
    if found is None:
        return
    lines = len(split_lines(text))
    for span in (diagnostic.span for diagnostic in found.diagnostics):
        assert span is None or span.file != "w.yaml" or span.line <= max(lines, 1)
    assert render_all(found.diagnostics, sources=found.sources, color=True, width=60)


def _problems(path: Path) -> WorkflowError | None:
    try:
        load_workflow(path, env={}, cwd=path.parent, sets={"target": "x"})
    except WorkflowError as error:
        return error
    return None


@settings(max_examples=60, deadline=None)
@given(mutated())
@example("a: &a\n  <<: *a\n")
@example("stages: {a: {uses: [compare]}}\n")
@example("stages: {a: {uses: dump.torch, matrix: {m: [[1]]}}}\n")
@example("params: {1: {}, a: {type: list, default: [[1]]}}\nstages: [1]\n")
@example("extends: [a]\nparams: 5\nstages: {a: 1, b: {uses: compare, pairs: {a: 1}, only: []}}\n")
@example("version: 1\nname: ''\nextends: .\n")
@example("version: !!int x\nstages: !!python/x {}\n")
def test_mutated_workflows_load_or_fail_with_diagnostics(text: str) -> None:
    check(text)


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=80))
def test_random_text_loads_or_fails_with_diagnostics(text: str) -> None:
    check(text)
