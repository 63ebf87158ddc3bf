"""Rule files are told by their content; what cannot be one is refused by name."""

from __future__ import annotations

import os

import model_file_writer as writer
import pytest
from rule_builders import model, op, write

from probe_flow.dumps.rules import rule_file
from probe_flow.dumps.rules.rule_file import read_rule_file
from probe_flow.errors import FormatError

NET = model(op("a"))


def problem(path):
    with pytest.raises(FormatError) as caught:
        read_rule_file(path)
    return caught.value.diagnostic


def test_the_ending_of_the_name_does_not_matter(tmp_path):
    assert read_rule_file(write(tmp_path / "rules.om", NET)).path == str(tmp_path / "rules.om")
    assert read_rule_file(writer.write_om(tmp_path / "rules.json", NET)).graphs[0].ops[0].name == "a"


def test_a_missing_file_is_told(tmp_path):
    found = problem(tmp_path / "no.json")
    assert (found.code, found.message) == (
        "PF4301",
        "rule file `no.json` cannot be read: No such file or directory",
    )
    assert found.path == str(tmp_path / "no.json")


def test_folders_and_pipes_are_told(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        assert problem(path).message.endswith("cannot be read: it is no regular file")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "it is empty"),
        (b"\x93NUMPY", "not UTF-8"),
        (b"hello", "Expecting value"),
        (b"version: 1\nname: mine\nstages:\n  pairs: {uses: compare}\n", "Expecting value"),
    ],
)
def test_files_of_another_kind_are_told(tmp_path, raw, message):
    path = tmp_path / "net.json"
    path.write_bytes(raw)
    found = problem(path)
    assert found.code == "PF4303"
    assert message in found.message


def test_a_file_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "net.json"
    with path.open("wb") as file:
        file.write(b"{")
        file.truncate(rule_file.MAX_BYTES + 1)
    found = problem(path)
    assert (found.code, found.message) == ("PF4302", "`net.json` has 513 MiB of definitions; at most 512 MiB are read")


def test_a_definition_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(rule_file, "MAX_BYTES", 16)
    assert problem(writer.write_om(tmp_path / "net.om", NET)).code == "PF4302"
