"""Every page of docs/ is followed command by command in an empty folder, and the program prints what it shows."""

from __future__ import annotations

import shutil
from pathlib import Path

import page_commands
import pytest
from page_commands import ROOT, Command, File, WrongError, follow, is_as_shown, pages_with_commands, steps

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")

PAGES = pages_with_commands()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT / "docs").as_posix())
def test_a_page_can_be_followed(page: Path, tmp_path: Path) -> None:
    ran, left = follow(page, tmp_path)
    assert ran + left == sum(isinstance(step, Command) for step in steps(page.read_text(encoding="utf-8"))) > 0


def needing() -> list[tuple[Path, str]]:
    """Pages with commands that run a framework, and each framework that they name."""
    found = {
        page: {step.needs for step in steps(page.read_text(encoding="utf-8")) if isinstance(step, Command)}
        for page in PAGES
    }
    return [(page, name) for page, names in found.items() for name in sorted(names - {"", "jq"})]


@pytest.mark.frameworks
@pytest.mark.parametrize(
    ("page", "framework"), needing(), ids=lambda each: each if isinstance(each, str) else each.stem
)
def test_a_page_can_be_followed_with_its_framework(page: Path, framework: str, tmp_path: Path) -> None:
    pytest.importorskip(framework, reason=f"{framework} is not installed")
    ran, _ = follow(page, tmp_path)
    assert ran > 0


def test_no_page_is_long_but_references() -> None:
    pages = [page.relative_to(ROOT / "docs") for page in ROOT.glob("docs/**/*.md")]
    for_readers = [page for page in pages if page.parts[0] != "reference" and page.name != "architecture.md"]
    lengths = {page: len((ROOT / "docs" / page).read_text(encoding="utf-8").splitlines()) for page in for_readers}
    assert {page: length for page, length in lengths.items() if length > 300} == {}


def console(text: str) -> str:
    return f"# A page\n\n```console\n{text}```\n"


def followed(tmp_path: Path, text: str) -> tuple[int, int]:
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    folder = tmp_path / "folder"
    folder.mkdir()
    return follow(page, folder)


def test_commands_have_their_line_their_text_and_their_exit_code() -> None:
    text = console("$ one \\\n> two\nshown\n$ three\n$ echo $?\n1\n")
    assert list(steps(text)) == [Command(4, "one \\\ntwo", "shown", 0, ""), Command(7, "three", None, 1, "")]


def test_files_are_written_and_used(tmp_path: Path) -> None:
    text = '```yaml\n# a.yaml\nx: 1\n```\n```python\n# in/b.py\nprint("hi")\n```\n'
    assert list(steps(text)) == [File("a.yaml", "# a.yaml\nx: 1\n"), File("in/b.py", '# in/b.py\nprint("hi")\n')]
    assert followed(tmp_path, text + console("$ tail -1 a.yaml\nx: 1\n$ python in/b.py\nhi\n")) == (2, 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("$ echo a\nb\n", "page.md:4: $ echo a\nthe page shows\nb\nit prints\na"),
        ("$ echo a b\na\n", "it prints\na b"),
        ("$ false\n", "exit code 1, not 0"),
        ("$ true\n$ echo $?\n1\n", "exit code 0, not 1"),
        ("$ probe-flow validate none.yaml\n$ echo $?\n0\n", "exit code 2, not 0"),
        ("echo a\n", "line 4: a console block begins with a command"),
    ],
)
def test_what_a_page_says_wrong_is_said(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(WrongError) as caught:
        followed(tmp_path, console(text))
    assert said in str(caught.value)


def test_a_command_runs_where_it_can(tmp_path: Path) -> None:
    needs = "<!-- needs: {} -->\n```console\n$ false\n$ echo $?\n1\n```\n"
    assert followed(tmp_path, needs.format("no_such_module") + needs.format("numpy")) == (1, 1)


@pytest.mark.parametrize(
    ("printed", "shown", "expected"),
    [
        ("a  b\nc", "a b c", True),
        ("a b c", "a ... c", True),
        ("a b c", "...", True),
        ("a b c", "a b ...", True),
        ("x a b", "a ...", False),
        ("a b x", "a ... b", False),
        ("a.b", "a+b", False),
        ("", "a", False),
    ],
)
def test_dots_are_any_text_and_white_space_is_one_blank(*, printed: str, shown: str, expected: bool) -> None:
    assert is_as_shown(printed, shown) is expected


def test_progress_is_no_output(tmp_path: Path) -> None:
    text = "$ printf 'pairs: match.name ...\\npairs: done in 0.05 s\\nleft: 3\\n'\nleft: 3\n"
    assert followed(tmp_path, console(text)) == (1, 0)


def test_following_pages_says_which_one_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in (("right", "$ echo a\na\n"), ("wrong", "$ echo a\nb\n")):
        (tmp_path / f"{name}.md").write_text(console(text), encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["page_commands", str(tmp_path / "right.md"), str(tmp_path / "wrong.md")])
    assert page_commands.main() == 1
    printed = capsys.readouterr().out
    assert "right.md: 1 commands" in printed
    assert "WRONG wrong.md:4: $ echo a" in printed
