from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from probe_flow.cli.main import main
from probe_flow.errors import CODES, InternalError, explanations
from probe_flow.errors.explanations import FILES, FOLDER, read_file

RANGES = [*zip(FILES, [*FILES[1:], "PFA"], strict=True)]
"""Each file with the one behind it."""

ENTRY = "PF{}:\n  title: t\n  cause: c\n  example: e\n  cure: u\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installation whose texts lie in an empty folder."""
    monkeypatch.setattr(explanations, "FOLDER", tmp_path)
    read_file.cache_clear()
    yield tmp_path
    read_file.cache_clear()


@pytest.fixture
def only_internal(folder: Path) -> Path:
    """An installation that has the last file, with two codes, and no other."""
    (folder / f"{FILES[-1]}.yaml").write_text(ENTRY.format(9001) + ENTRY.format(9002), encoding="utf-8")
    return folder


def test_the_folder_holds_the_listed_files_and_no_other():
    assert sorted(FOLDER.glob("*.*")) == [FOLDER / f"{name}.yaml" for name in FILES]


@pytest.mark.parametrize(("name", "following"), RANGES, ids=FILES)
def test_a_file_holds_the_codes_of_its_range_in_order_each_once_with_the_known_texts(name: str, following: str):
    tree = yaml.compose((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    codes = [key.value for key, _ in tree.value]
    assert codes == sorted(set(codes))
    assert all(name[:6] <= code < following[:6] for code in codes)
    for _, texts in tree.value:
        assert [key.value for key, _ in texts.value] == ["title", "cause", "example", "cure"]
        assert all(text.value.strip() == text.value != "" for _, text in texts.value)


def test_codes_come_in_order():
    assert list(CODES) == sorted(CODES)
    assert len(CODES) == len(list(CODES))
    assert all(code == each.id for code, each in CODES.items())


@pytest.mark.parametrize("code", ["", "A", "PF0001", "PF1000", "PF1099", "PF9999", "ZZ"])
def test_what_is_no_code_is_not_found(code: str):
    assert code not in CODES


def test_a_look_up_reads_the_file_of_its_code_only(only_internal: Path):
    assert CODES["PF9002"].title == "t"
    with pytest.raises(InternalError, match="PF9001"):
        CODES["PF1203"]


def test_nothing_is_read_before_a_text_is_asked_for():
    script = (
        "import sys; from probe_flow.errors import explanations; "
        "print('yaml' in sys.modules, explanations.read_file.cache_info())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("False CacheInfo(hits=0, misses=0")


def test_a_missing_file_ends_explain_with_its_name_and_what_to_do(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["explain", "PF1203"]) == 3
    said = capsys.readouterr().err
    assert "error[PF9001]: a file of this installation is missing or damaged: " in said
    assert str(folder / "PF1000_workflow_file.yaml") in said
    assert "No such file" in said
    assert "install probe_flow again" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is no mapping of codes"),
        ("- PF9001\n", "it is no mapping of codes"),
        ("PF9001: [a\n", "while parsing a flow sequence"),
        ("PF9001: {title: \xff}".encode("latin-1"), "UTF-8"),
        (ENTRY.format(9001)[:-10], "`PF9001` has other than the texts title, cause, example, cure"),
        (ENTRY.format(9001) + "  more: m\n", "`PF9001` has other than the texts title, cause, example, cure"),
        (ENTRY.format(9001).replace(" e\n", " 7\n"), "`PF9001` has other than the texts title, cause, example, cure"),
        ("PF9001: 2020-99-99\n", "month must be in 1..12"),
        ("PF9001:\n", "`PF9001` has other than the texts title, cause, example, cure"),
    ],
    ids=["empty", "list", "syntax", "encoding", "cut-off", "unknown-text", "number", "date", "no-texts"],
)
def test_a_damaged_file_is_named_with_the_reason(folder: Path, text: str | bytes, reason: str):
    path = folder / f"{FILES[-1]}.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InternalError) as caught:
        CODES["PF9001"]
    assert reason in caught.value.diagnostic.message
    assert caught.value.diagnostic.path == str(path)
