"""What an editor with the YAML language server makes of a workflow and the schema that `init` writes next to it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from language_server import LanguageServer

SERVER = shutil.which("yaml-language-server")

pytestmark = pytest.mark.skipif(SERVER is None, reason="yaml-language-server is not installed (npm)")

HEAD = """# yaml-language-server: $schema=workflow.schema.json
version: 1
name: mine
stages:
  target: {uses: dump.torchair_ge, path: a}
  golden: {uses: dump.torchair_fx, path: b}
  pairs: {uses: match.torchair, target: target, golden: golden}
  result:
    uses: compare
    pairs: pairs
"""


def said(folder: Path, text: str, *places: tuple[int, int]) -> tuple[list[str], list[list[str]]]:
    """Return the messages of a file, and what is offered at places of it."""
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    assert SERVER is not None
    with LanguageServer([SERVER, "--stdio"], folder) as server:
        marked = server.open(path)
        return [each["message"] for each in marked], [server.complete(path, *place) for place in places]


@pytest.fixture
def folder(probe_flow, tmp_path: Path) -> Path:
    assert probe_flow("schema", "--write", tmp_path).code == 0
    return tmp_path


def test_a_right_file_has_no_marks(folder: Path) -> None:
    assert said(folder, HEAD)[0] == []


def test_options_of_the_stage_are_offered(folder: Path) -> None:
    text = HEAD + "    \n"
    (offered,) = said(folder, text, (text.count("\n") - 1, 4))[1]
    assert {"policy", "gate", "metrics", "waivers"} <= set(offered)
    assert "model" not in offered, "an option of stages that dump"


def test_values_are_offered(folder: Path) -> None:
    text = HEAD + "    gate: \n"
    (offered,) = said(folder, text, (text.count("\n") - 1, 10))[1]
    assert {"findings", "all_pass"} <= set(offered)


def test_kinds_of_stages_are_offered(folder: Path) -> None:
    text = HEAD + "  report:\n    uses: \n"
    (offered,) = said(folder, text, (text.count("\n") - 1, 10))[1]
    assert {"report", "match.name", "dump.torch"} <= set(offered)


def test_mistakes_are_marked_in_words(folder: Path) -> None:
    messages = said(folder, HEAD + "    gate: finding\n    polcy: torchair\n")[0]
    assert any("all_pass" in message for message in messages), messages
    assert any("polcy" in message for message in messages), messages
