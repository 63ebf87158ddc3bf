"""The recorded IR texts and the dumps that go with them, as files."""

from __future__ import annotations

import tarfile
from pathlib import Path

ARCHIVE = Path(__file__).parents[1] / "data" / "mindspore_ir" / "networks.tar.xz"


def unpack_networks(folder: Path) -> Path:
    """Unpack the texts, and make a dump with empty files of each network: ``folder/{tinynet|ctrl}/rank_0``."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder / "texts", filter="data")
    for name in ("tinynet", "ctrl"):
        for line in (folder / "texts" / f"{name}_dump_files.txt").read_text().split():
            file = folder / name / "rank_0" / line
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
    return folder


def dumped_operators(folder: Path, name: str) -> set[tuple[int, str, str]]:
    """Return graph, type and name of every dumped operator, cut out of the file names by hand."""
    found = set()
    for line in (folder / "texts" / f"{name}_dump_files.txt").read_text().split():
        _, graph, _, file = line.split("/")
        kind, rest = file.split(".", 1)
        found.add((int(graph), kind, rest.split(".0.0.")[0]))
    return found
