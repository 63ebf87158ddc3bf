"""Follow the pages of docs/ as a reader would: commands of ``console`` blocks run, and print what the page shows.

A page has an empty folder of its own, and its blocks run in their order, in bash:

- ``console``: lines that begin with ``$ `` are commands, ``> `` continues one. What follows is all that a terminal
  shows (stdout and stderr), with ``...`` for what the page leaves out. White space counts as one blank, since terminals
  wrap lines, and progress lines are left out. A command with no line below it may print anything.
- A command has to end with exit code 0. ``$ echo $?`` below it says which other one is right.
- ``yaml`` and ``python``: a block whose first line is ``# NAME.yaml``, ``# NAME.py`` is written to that file.
- ``<!-- needs: NAME -->`` above a console block: it runs where that module or program is installed. The text says so.
- ``<!-- in: checkout -->``: the folder has the workflows and examples of a checkout; else it is empty.

``python -m page_commands [--program PROBE_FLOW] [PAGE...]`` follows pages, with an installed program if one is named.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 600
"""For one command, on a busy machine; the longest needs some 5 s."""
_BLOCK = re.compile(r"(?:^<!-- needs: ([\w.]+) -->\n)?^```(console|yaml|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"# ([\w/.-]+\.(?:yaml|py))$")
_PROGRESS = re.compile(r"^[\w.]+: (?:[\w.]+ \.\.\.|done in .* s|kept|.*\bleft)$", re.MULTILINE)
_ASKS_CODE = "echo $?"
_CHECKOUT = "<!-- in: checkout -->\n"


class File(NamedTuple):
    """A file that a page shows."""

    name: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command of a page.

    Args:
        line: its line on the page.
        text: what bash gets.
        shown: what the page shows below it, None where nothing.
        code: the exit code that is right.
        needs: module or program without which it cannot run, "" if none.
    """

    line: int
    text: str
    shown: str | None
    code: int
    needs: str


class WrongError(Exception):
    """A page says something else than what happens."""


def steps(page: str) -> Iterator[File | Command]:
    """Yield the files and commands of a page's text, in order."""
    for found in _BLOCK.finditer(page):
        needs, kind, text = found.groups()
        if kind == "console":
            first = page[: found.start(3)].count("\n") + 1
            yield from _commands(text, first, needs or "")
        elif name := _NAME.match(text.partition("\n")[0]):
            yield File(name[1], text)


def _commands(text: str, first: int, needs: str) -> Iterator[Command]:
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    if starts[:1] != [0]:
        raise WrongError(f"line {first}: a console block begins with a command, `$ ...`")
    blocks = [lines[start:end] for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)]
    for number, (start, block) in enumerate(zip(starts, blocks, strict=True)):
        count = 1
        while count < len(block) and block[count].startswith("> "):
            count += 1
        command = "\n".join(line[2:] for line in block[:count])
        if command == _ASKS_CODE:
            continue
        after = blocks[number + 1] if number + 1 < len(blocks) else []
        code = int(after[1]) if after[:1] == [f"$ {_ASKS_CODE}"] else 0
        shown = "\n".join(block[count:]).strip() or None
        yield Command(first + start, command, shown, code, needs)


def is_as_shown(printed: str, shown: str) -> bool:
    """Return True if a text is what a page shows of it: ``...`` is any text, white space one blank."""
    parts = [r"\s+".join(map(re.escape, part.split())) for part in shown.split("...")]
    return re.fullmatch(r"\s*" + r"\s*.*?\s*".join(parts) + r"\s*", printed, re.DOTALL) is not None


def follow(page: Path, folder: Path, program: str | None = None) -> tuple[int, int]:
    """Do what a page says, in an empty folder.

    Args:
        page: a Markdown file.
        folder: where to; it is there and empty.
        program: the installed ``probe-flow`` to use; None = the package of this Python.

    Returns:
        How many commands ran, and how many could not for want of what they need.

    Raises:
        WrongError: a command ended or printed otherwise than the page says.
    """
    work, tools = folder / "work", folder / "bin"
    work.mkdir()
    tools.mkdir()
    environ = _environment(folder, tools, program)
    text = page.read_text(encoding="utf-8")
    if _CHECKOUT in text:
        for name in ("examples", "workflows"):
            (work / name).symlink_to(ROOT / name)
    ran = left = 0
    for step in steps(text):
        if isinstance(step, File):
            path = work / step.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(step.text, encoding="utf-8")
        elif step.needs and not (find_spec(step.needs) or shutil.which(step.needs)):
            left += 1
        else:
            _run(step, page, work, environ)
            ran += 1
    return ran, left


def _environment(folder: Path, tools: Path, program: str | None) -> dict[str, str]:
    probe_flow = program or f"{shlex.quote(sys.executable)} -m probe_flow"
    for name, command in (("probe-flow", probe_flow), ("python", shlex.quote(sys.executable))):
        tool = tools / name
        tool.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        tool.chmod(0o755)
    here = {} if program else {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(":")}
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("PROBE_FLOW")},
        **here,
        "PATH": f"{tools}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "PROBE_FLOW_CACHE": str(folder / "cache"),
        "PROBE_FLOW_WARM_UP": "never",
        "COLUMNS": "100",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }


def _run(command: Command, page: Path, work: Path, environ: dict[str, str]) -> None:
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", command.text], cwd=work, env=environ, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", check=False, timeout=TIMEOUT_S,
    )  # fmt: skip
    printed = _PROGRESS.sub("", done.stdout).strip()
    place = f"{page.name}:{command.line}: $ {command.text}"
    if done.returncode != command.code:
        raise WrongError(f"{place}\nexit code {done.returncode}, not {command.code}; it prints\n{printed}")
    if command.shown is not None and not is_as_shown(printed, command.shown):
        raise WrongError(f"{place}\nthe page shows\n{command.shown}\nit prints\n{printed}")


def pages_with_commands(docs: Path = ROOT / "docs") -> list[Path]:
    """Return the pages that have something to run."""
    return [page for page in sorted(docs.rglob("*.md")) if "```console\n" in page.read_text(encoding="utf-8")]


def follow_all(
    pages: Sequence[Path], program: str | None = None
) -> Iterator[tuple[Path, tuple[int, int] | WrongError]]:
    """Follow pages, a few at a time; yield what came of each, in their order."""

    def one(page: Path) -> tuple[int, int] | WrongError:
        with tempfile.TemporaryDirectory(prefix="page-") as folder:
            try:
                return follow(page, Path(folder), program)
            except WrongError as error:
                return error

    with ThreadPoolExecutor(max_workers=max(1, (os.cpu_count() or 2) // 2)) as pool:
        yield from zip(pages, pool.map(one, pages), strict=True)


def main() -> int:
    """Follow the named pages, or all; return 1 where one says something wrong."""
    parser = argparse.ArgumentParser(description="Run the commands of pages and compare what they print.")
    parser.add_argument("--program", help="installed probe-flow to use")
    parser.add_argument("pages", nargs="*", type=Path)
    given = parser.parse_args()
    program = given.program and (shutil.which(given.program) or parser.error(f"no program `{given.program}`"))
    code = 0
    for page, result in follow_all(given.pages or pages_with_commands(), program):
        if isinstance(result, WrongError):
            code = 1
            print(f"WRONG {result}\n")
        else:
            print(f"{page.name}: {result[0]} commands" + (f", {result[1]} not run" if result[1] else ""))
    return code


if __name__ == "__main__":
    sys.exit(main())
