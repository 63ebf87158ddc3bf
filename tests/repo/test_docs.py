"""The hand-written pages: links lead somewhere, command lines and workflows are right."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest

from probe_flow.cli.main import COMMANDS, group, main
from probe_flow.workflow.loading.loader import load_workflow

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])

SIDES = {"target": "ge", "golden": "fx"}

_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_SPAN = re.compile(r"`(probe-flow [^`\n]+)`")
_CODE = re.compile(r"\bPF[0-9]{4}\b")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    yield from _BLOCK.findall(page.read_text(encoding="utf-8"))


def anchor(heading: str) -> str:
    """The id that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def commands(page: Path) -> Iterator[str]:
    """Command lines of unlabelled blocks and of code spans; blocks of output have a label."""
    for label, text in blocks(page):
        if label == "":
            lines = text.replace("\\\n", " ").splitlines()
            yield from (line for line in lines if line.startswith("probe-flow "))
    yield from _SPAN.findall(_BLOCK.sub("", page.read_text(encoding="utf-8")))


def workflows() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for number, (label, text) in enumerate(blocks(page)):
            if label == "yaml" and text.startswith("version:"):
                yield f"{name(page)}-{number}", text


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for link in _LINK.findall(_BLOCK.sub("", page.read_text(encoding="utf-8"))):
        if "://" in link:
            continue
        file, _, fragment = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), f"{name(page)} links to {link}"
        assert target.is_relative_to(ROOT), f"{name(page)} links to {link}"
        if fragment:
            found = {anchor(heading) for heading in _HEADING.findall(target.read_text(encoding="utf-8"))}
            assert fragment in found, f"{name(page)} links to {link}"


# The page of benchmarks names the subjects of its measurements, which are no command lines.
@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "benchmarks.md"], ids=name)
def test_every_command_line_uses_commands_and_options_that_exist(page: Path) -> None:
    for line in commands(page):
        words = shlex.split(line, comments=True)[1:]
        if words[:1] == ["-f"]:
            words = words[2:]
        if words[0].startswith("-"):
            assert words[0] in ("--help", "--version"), line
            continue
        if words[0] == "COMMAND":
            continue
        assert words[0] in COMMANDS, line
        command = group.get_command(click.Context(group), words[0])
        if isinstance(command, click.Group) and len(words) > 1:
            command = command.get_command(click.Context(command), words[1])
        assert command is not None, line
        known = {option for each in command.params for option in each.opts} | {"--help", "-h"}
        used = {word.partition("=")[0] for word in words[1:] if re.match(r"--?[a-z]", word)}
        assert used <= known, f"{name(page)}: {line}"


def test_command_lines_are_found() -> None:
    lines = list(commands(ROOT / "README.md"))

    assert "probe-flow run torchair_ge_vs_fx.yaml" in lines
    assert len(lines) > 5


@pytest.mark.parametrize("text", [pytest.param(text, id=label) for label, text in workflows()])
def test_every_workflow_is_valid(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "workflow.yaml"
    path.write_text(text, encoding="utf-8")

    assert main(["validate", "--format", "json", str(path)]) == 0
    assert capsys.readouterr().out == "", "no warnings either"


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "diagnostics.md"], ids=name)
def test_every_code_that_is_named_exists(page: Path) -> None:
    from probe_flow.errors import CODES

    assert set(_CODE.findall(page.read_text(encoding="utf-8"))) <= set(CODES)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_pages_do_not_shout(page: Path) -> None:
    prose = re.sub(r"`[^`]*`", "", _BLOCK.sub("", page.read_text(encoding="utf-8")))

    assert not re.search(r"\w!(?!\[)", prose)


@pytest.fixture(scope="module")
def summaries(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the two runs of `make run` print, white space made even."""
    from probe_flow.engine.run.execute import execute
    from probe_flow.engine.run.plan import make_plan
    from probe_flow.engine.schedulers.choice import make_scheduler
    from probe_flow.reports.terminal.console import render_summary
    from probe_flow.reports.terminal.short import render_short

    texts = []
    for kind in ("faulty", "healthy"):
        sets = {side: f"examples/torchair/{kind}/msprobe_{form}_dump" for side, form in SIDES.items()}
        plan = make_plan(load_workflow(ROOT / "workflows" / "torchair_ge_vs_fx.yaml", env={}, cwd=ROOT, sets=sets))
        output = tmp_path_factory.mktemp("docs") / kind
        outcome = execute(plan, scheduler=make_scheduler("sync", 1), cwd=ROOT, output=output)
        comparisons = list(outcome.comparisons.values())
        texts.append(render_short(outcome.record, color=False, width=100, folder=f"out/{kind}"))
        texts.append(render_summary(outcome.record, comparisons, color=False, width=100, folder=f"out/{kind}"))
    return " ".join(" ".join(texts).split())


def test_the_picture_shows_what_the_program_prints(summaries: str) -> None:
    svg = (ROOT / "docs" / "images" / "run.svg").read_text(encoding="utf-8")
    texts = (" ".join(text.split()) for text in ElementTree.fromstring(svg).itertext())
    evidence = [text for text in texts if any(word in text for word in ("inputs agree", "explain", "130 fine"))]

    assert len(evidence) > 2
    for text in evidence:
        assert text.partition(" probe_flow_runs")[0].rstrip("| ") in summaries
