"""The committed TorchAir sample is what its script writes, and differs from healthy only where its README says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

SAMPLE = Path(__file__).parents[3] / "examples" / "torchair"
VARIANTS = ("healthy", "faulty")

HEADER_BYTES = 8
FLOAT16_STEPS = 4e-3
"""Last-bit differences between torch versions move a float16 result by a few steps."""


def _files(root: Path) -> dict[str, Path]:
    return {str(path.relative_to(root)): path for path in sorted(root.rglob("*")) if path.is_file()}


def _payload(path: Path) -> bytes:
    content = path.read_bytes()
    return content[HEADER_BYTES + int.from_bytes(content[:HEADER_BYTES], "little") :]


def test_each_variant_is_complete_and_small() -> None:
    total = 0
    for variant in VARIANTS:
        files = _files(SAMPLE / variant)
        assert {name.split("/")[0] for name in files} == {"msprobe_ge_dump", "msprobe_fx_dump"}
        total += sum(path.stat().st_size for path in files.values())
    assert total < 900_000


def test_both_variants_share_the_golden_side() -> None:
    healthy, faulty = (_files(SAMPLE / variant / "msprobe_fx_dump") for variant in VARIANTS)
    assert healthy.keys() == faulty.keys()
    assert all(path.read_bytes() == faulty[name].read_bytes() for name, path in healthy.items())


def test_faulty_device_differs_first_at_the_second_gelu() -> None:
    healthy, faulty = (_files(SAMPLE / variant / "msprobe_ge_dump") for variant in VARIANTS)
    assert healthy.keys() == faulty.keys()
    changed = [name for name, path in healthy.items() if path.read_bytes() != faulty[name].read_bytes()]
    first = min(changed, key=lambda name: int(name.rpartition(".")[2]))
    assert Path(first).name.startswith("Gelu.Gelu_1.")
    values = [np.frombuffer(_payload(files[first])[:512], np.float16) for files in (healthy, faulty)]
    assert np.array_equal(*values), "the input of the faulty operator is right"
    results = [np.frombuffer(_payload(files[first])[512 + 32 :][:512], np.float16) for files in (healthy, faulty)]
    distance = np.linalg.norm(np.subtract(*results, dtype=np.float64)) / np.linalg.norm(results[0].astype(np.float64))
    assert distance == pytest.approx(0.075, abs=0.005)


def test_with_fusion_off_the_device_runs_every_part_and_only_the_fused_fault_differs() -> None:
    on, off = (SAMPLE / "fusion" / name for name in ("fusion_on", "fusion_off"))
    assert sum(path.stat().st_size for path in (*_files(on).values(), *_files(off).values())) < 400_000
    names = [{path.name.split(".")[1] for path in _files(root).values() if path.suffix != ".txt"} for root in (on, off)]
    assert {"Mul_1Add_2", "Mul_3Add_8"} <= names[0]
    assert {"Mul_1", "Add_2", "Mul_3", "Add_8"} <= names[1]
    healthy = {path.name: path for path in _files(SAMPLE / "healthy" / "msprobe_ge_dump").values()}
    changed = [path for path in _files(on).values() if path.read_bytes() != healthy[path.name].read_bytes()]
    first = min(changed, key=lambda path: int(path.name.rpartition(".")[2]))
    assert first.name.startswith("AutomaticBufferFusionOp.Mul_3Add_8.")


def test_the_reference_is_the_golden_side_in_float64() -> None:
    golden, exact = (_files(SAMPLE / name / "msprobe_fx_dump") for name in ("healthy", "reference"))
    assert exact.keys() == golden.keys()
    assert sum(path.stat().st_size for path in exact.values()) < 300_000
    for name, path in exact.items():
        mine, other = np.load(path), np.load(golden[name])
        assert mine.shape == other.shape
        if other.dtype == np.float32:
            assert mine.dtype == np.float64
            np.testing.assert_allclose(mine, other, rtol=1e-3, atol=1e-5)


@pytest.mark.frameworks
def test_script_writes_the_committed_sample(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from make_torchair import write_sample

    write_sample(tmp_path)
    for variant in (*VARIANTS, "fusion", "reference"):
        committed, made = _files(SAMPLE / variant), _files(tmp_path / variant)
        assert list(made) == list(committed)
        for name, path in committed.items():
            _assert_close(made[name], path)


def _assert_close(made: Path, committed: Path) -> None:
    if made.read_bytes() == committed.read_bytes():
        return
    if made.suffix == ".npy":
        np.testing.assert_allclose(np.load(made), np.load(committed), rtol=1e-4, atol=1e-5)
        return
    assert made.suffix != ".txt", f"{made.name}: the graph changed"
    left, right = _payload(made), _payload(committed)
    assert len(left) == len(right)
    pairs = [np.frombuffer(payload, np.float16).astype(np.float64) for payload in (left, right)]
    # A Cast's float32 output reads as noise in float16, so only near-equal shares are asked for.
    assert np.mean(np.isclose(*pairs, rtol=FLOAT16_STEPS, atol=FLOAT16_STEPS)) > 0.8
