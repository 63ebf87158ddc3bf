"""Every public name is documented, and every example of them runs and gives what it says."""

from __future__ import annotations

import ast
import doctest
import json
import re
from pathlib import Path

import pytest

import probe_flow as pf

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "how-to" / "python.md"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
REGISTER = {"register_layout", "register_metric", "register_policy", "register_reader", "register_stage"}
WITH_EXAMPLES = {*REGISTER, "Origin", "Rows", "Run", "Tensors", "compare", "match", "open_run", "read_dump", "run"}
"""Names whose docstrings have examples; what the others are made of is documented field by field."""


@pytest.fixture
def beside_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples name the samples from the folder of a checkout, and write next to them."""
    for name in ("examples", "workflows"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)


def run_examples(text: str, name: str) -> int:
    """Return how many examples there are; each must give what it says."""
    told: list[str] = []
    found = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    results = doctest.DocTestRunner(optionflags=FLAGS).run(found, out=told.append)
    assert results.failed == 0, "".join(told)
    return results.attempted


@pytest.mark.usefixtures("beside_samples")
@pytest.mark.parametrize("name", sorted(WITH_EXAMPLES))
def test_the_examples_of_a_name_give_what_they_say(name: str) -> None:
    assert run_examples(getattr(pf, name).__doc__, name)


@pytest.mark.usefixtures("beside_samples")
def test_the_page_gives_what_it_says() -> None:
    text = re.sub(r"^```.*$", "", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert run_examples(text, PAGE.name) > 10


@pytest.mark.usefixtures("beside_samples")
def test_the_notebook_goes_from_two_folders_to_the_arrays_of_the_origin(capsys: pytest.CaptureFixture[str]) -> None:
    notebook = json.loads((ROOT / "examples" / "notebooks" / "origin.ipynb").read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    held: dict[str, object] = {}
    shown = ""
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        assert cell["outputs"] == [], "what a notebook shows is made when it runs"
        body = ast.parse("".join(cell["source"])).body
        last = body.pop() if isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), "cell", "exec"), held)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), held)
            shown += value._repr_html_() if isinstance(value, pf.Run) else ""

    assert "<b>FAIL</b> The target first goes wrong at Gelu_1 (Gelu)." in shown
    said = capsys.readouterr()
    assert "Gelu_1 (Gelu) output 0, rank 0, graph 1, step 0" in said.out
    assert "float16 (8, 32), golden float32" in said.out
    assert "result: done" in said.err, "progress goes to stderr"


def test_the_page_names_every_public_name() -> None:
    text = PAGE.read_text(encoding="utf-8")
    missing = [name for name in pf.__all__ if not re.search(rf"(?<![\w]){name}(?![\w])", text)]
    assert not missing


def test_every_public_name_says_what_it_is() -> None:
    silent = [name for name in pf.__all__ if name != "__version__" and not (getattr(pf, name).__doc__ or "").strip()]
    assert not silent
    examples = {name for name in pf.__all__ if ">>> " in (getattr(pf, name).__doc__ or "")}
    assert examples == WITH_EXAMPLES
