"""Conversions of device files against msprobe's own: the same names, types, shapes and bytes.

`parsed.json` holds what `msaccucmp.py convert` of mindstudio-probe 26.2.0 wrote for the cases of `cases.tar.xz`, per
folder and kind of file: name -> first digits of the SHA-256 over type, shape and elements (of plain bytes: over the
file; their names without the shape, which it gives as a number of elements). Where it brings tensors into a layout it
converts fewer than we do; those that it does are the same.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

DATA = Path(__file__).resolve().parents[1] / "data" / "offline"
EXPECTED: dict[str, dict[str, str]] = json.loads((DATA / "parsed.json").read_text())


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("offline")
    with tarfile.open(DATA / "cases.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def digest(path: Path) -> tuple[str, str]:
    """Return the name and the digest of a converted file, as in `parsed.json`."""
    if path.suffix == ".bin":
        head, _, dtype, layout, _ = path.name.rsplit(".", 4)
        return f"{head}..{dtype}.{layout}.bin", hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    array = np.load(path)
    content = f"{array.dtype.str}{array.shape}".encode() + array.tobytes()
    return path.name, hashlib.sha256(content).hexdigest()[:16]


@pytest.mark.parametrize("case", sorted(EXPECTED))
def test_converted_files_are_those_of_the_peer(case: str, root: Path, tmp_path: Path, run: Callable[..., int]) -> None:
    folder, kind = case.split()
    kind, _, layout = kind.partition("_")
    words = ["parse", "-d", str(root / folder), "-t", kind, "-o", str(tmp_path / "out"), "--quiet"]

    assert run([*words, "-f", layout] if layout else words) == 0

    found = dict(digest(path) for path in (tmp_path / "out").iterdir())
    if layout:
        found = {name: value for name, value in found.items() if name in EXPECTED[case]}
    assert found == EXPECTED[case]


@pytest.fixture
def run() -> Callable[..., int]:
    from probe_flow.cli.main import main

    return main
