"""The manifest beside a dump: written, read again, and what readers say of a dump that does not fit it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from probe_flow.dumps.manifest import (
    DUMP_MANIFEST,
    JOB_FILE,
    DumpManifest,
    ManifestError,
    ManifestNode,
    ManifestTensor,
    Skipped,
    manifest_problems,
    read_manifest,
)
from probe_flow.errors import Severity

WHOLE = DumpManifest(
    is_complete=True,
    expected=2,
    written=1,
    skipped=(Skipped("loop/body", "inside the body of `loop`"),),
    nodes=(ManifestNode("/conv", "Conv", ("x", "", "w"), ("y",)),),
    tensors=(ManifestTensor("_conv.0.1700000000000000.npy", "/conv", "output", 0, "bfloat16", (1, 2), "Conv", "y"),),
    facts={"seed": 3, "versions": {"toy": "1.0"}},
)


def written(folder: Path, manifest: DumpManifest) -> DumpManifest | None:
    (folder / DUMP_MANIFEST).write_bytes(manifest.encoded())
    return read_manifest(folder)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert written(tmp_path, WHOLE) == replace(WHOLE, facts={})


def test_it_is_json_for_people(tmp_path: Path) -> None:
    written(tmp_path, WHOLE)

    content = json.loads((tmp_path / DUMP_MANIFEST).read_text("utf-8"))

    assert content["schema"] == "probe_flow/dump/1"
    assert (content["seed"], content["versions"]) == (3, {"toy": "1.0"})
    assert (content["expected"], content["written"], len(content["skipped"])) == (2, 1, 1)
    assert content["tensors"][0]["dtype"] == "bfloat16"


def test_an_empty_dump_is_json_too(tmp_path: Path) -> None:
    assert written(tmp_path, DumpManifest()) == DumpManifest()


def test_manifest_of_another_program_is_none_of_ours(tmp_path: Path) -> None:
    (tmp_path / DUMP_MANIFEST).write_text('{"schema": "probe_flow/fx_dump/1"}', encoding="utf-8")

    assert read_manifest(tmp_path) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"schema": "probe_flow/dump/1", "tensors": 3}', b"\xff"])
def test_damaged_manifest_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / DUMP_MANIFEST).write_bytes(content)

    with pytest.raises(ManifestError, match="cannot be read"):
        read_manifest(tmp_path)


def found(folder: Path, manifest: DumpManifest | None, *names: str) -> list[tuple[str, str, Severity]]:
    return [(each.code, each.message, each.severity) for each in manifest_problems(folder, manifest, names)]


FILE = WHOLE.tensors[0].file


def test_whole_dump_has_only_a_note_of_what_it_leaves_out(tmp_path: Path) -> None:
    assert found(tmp_path, WHOLE, FILE) == [("PF6341", "of the model, 1 tensor is not dumped", Severity.NOTE)]


@pytest.mark.parametrize(
    ("changed", "names", "words"),
    [
        (replace(WHOLE, is_complete=False), [FILE], "did not end"),
        (WHOLE, [], "lacks 1 of the 1 files"),
        (replace(WHOLE, expected=3), [FILE], "does not add up: 3 tensors were expected, 1 written and 1 left out"),
        (replace(WHOLE, written=2, expected=3), [FILE], "does not add up"),
    ],
)
def test_dump_that_does_not_fit_is_a_warning(
    tmp_path: Path, changed: DumpManifest, names: list[str], words: str
) -> None:
    code, message, severity = found(tmp_path, changed, *names)[0]

    assert (code, severity) == ("PF6340", Severity.WARNING)
    assert words in message


def test_dump_of_ours_without_manifest_is_a_warning(tmp_path: Path) -> None:
    folder = tmp_path / "dump"
    assert found(folder, None) == []

    (tmp_path / JOB_FILE).write_text("{}", encoding="utf-8")

    assert [each[0] for each in found(folder, None)] == ["PF6340"]
