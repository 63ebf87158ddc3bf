"""Our dump of a network against the one that msprobe 26.2.0 itself wrote of it: names, order, values, callers."""

from __future__ import annotations

import json
import math
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from watched_nets import NETS, loss  # noqa: E402

from probe_flow.dumpers import dump_torch  # noqa: E402

pytestmark = pytest.mark.frameworks

ARCHIVE = Path(__file__).parents[3] / "data/dump_json/collected.tar.xz"
CASES = ["transformer.mix", "transformer.L0", "transformer.L1", "reentrant.mix", "convolutions.L1"]
FILLED = ("Mean", "Norm")
"""Where msprobe leaves null (integers, float64), these are computed."""


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("collected")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder / "collected"


def dumped(case: str, folder: Path, **options: Any) -> Path:
    net, level = case.split(".")
    model, args = NETS[net]()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with dump_torch(model, folder, level=level, **options) as dump:
        for _ in range(2):
            dump.start()
            loss(model(*args)).backward()
            dump.stop()
            dump.step()
            optimizer.step()
            optimizer.zero_grad()
    return folder


def read(folder: Path, step: int, name: str) -> dict[str, Any]:
    (file,) = folder.glob(f"step{step}/*/{name}")
    return json.loads(file.read_text())


def differences(a: Any, b: Any, place: str) -> Iterator[str]:
    if isinstance(a, dict) and isinstance(b, dict):
        if list(a) != list(b):
            yield f"{place}: keys {list(a)} and {list(b)}"
        for key in a.keys() & b.keys():
            is_filled = key in FILLED and a[key] is None and isinstance(b[key], float)
            if not is_filled and key != "md5":
                yield from differences(a[key], b[key], f"{place}.{key}")
    elif isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            yield f"{place}: {len(a)} and {len(b)} values"
        for number, (one, other) in enumerate(zip(a, b, strict=False)):
            yield from differences(one, other, f"{place}.{number}")
    elif isinstance(a, float) and isinstance(b, float):
        if not math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-6):
            yield f"{place}: {a} and {b}"
    elif a != b:
        yield f"{place}: {a!r} and {b!r}"


@pytest.mark.parametrize("case", CASES)
def test_entries_values_and_callers_are_those_of_msprobe(case: str, collected: Path, tmp_path: Path) -> None:
    ours = dumped(case, tmp_path / "dump", data="both")

    for step in (0, 1):
        theirs = read(collected / case, step, "dump.json")
        found = read(ours, step, "dump.json")
        for leaf in _leaves(found["data"]):
            leaf.pop("data_name", None)
        assert list(found["data"]) == list(theirs["data"])
        assert [*differences(theirs["data"], found["data"], "")] == []
        construct = read(ours, step, "construct.json")
        assert list(construct.items()) == list(read(collected / case, step, "construct.json").items())
        assert {key: found[key] for key in ("level", "framework")} == {
            key: theirs[key] for key in ("level", "framework")
        }


def test_checksums_are_of_the_same_bytes(tmp_path: Path) -> None:
    folder = dumped("transformer.mix", tmp_path / "dump", data="both")

    data = read(folder, 0, "dump.json")["data"]
    weight = data["Module.head.Linear.forward.0"]["parameters"]["weight"]
    model, _ = NETS["transformer"]()
    import zlib

    assert weight["md5"] == f"{zlib.crc32(model.head.weight.detach().numpy().tobytes()):08x}"


def test_every_call_has_a_stack_that_ends_in_the_users_code(tmp_path: Path) -> None:
    folder = dumped("transformer.mix", tmp_path / "dump", data="statistics")

    stacks = read(folder, 0, "stack.json")
    named = {name: frames for names, frames in stacks.values() for name in names}
    forward = [name for name in read(folder, 0, "dump.json")["data"] if "forward" in name]
    assert set(named) == set(forward)
    assert "watched_nets.py, line" in named["Functional.gelu.0.forward"][0]
    assert "self.fc2(functional.gelu(self.fc1(x)))" in named["Functional.gelu.0.forward"][0]
    assert not any("probe_flow/dumpers" in frame for frames in named.values() for frame in frames)


def test_what_a_checkpoint_computes_again_is_marked(tmp_path: Path) -> None:
    folder = dumped("reentrant.mix", tmp_path / "dump", data="statistics")

    manifest = read(folder, 0, "dump_manifest.json")
    again = manifest["recomputed"]
    assert "Module.layers.0.Layer.forward.1" in again
    assert "Functional.gelu.2.forward" in again
    assert "Functional.gelu.1.forward" not in again
    assert "Functional.linear.9.forward" in again
    assert "Functional.linear.8.forward" not in again, "the head ran once"


def _leaves(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if "dtype" in value and "shape" in value:
            yield value
        for each in value.values():
            yield from _leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each)
