"""What errors look like once elements are read again: real tensors through the measuring kernel, one fault each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import probe_flow as pf

SHAPE = (2, 8, 16, 16)
Arrays = NDArray[np.float32]


def golden(shape: tuple[int, ...] = SHAPE) -> Arrays:
    return np.random.default_rng(7).normal(size=shape).astype(np.float32)


def channel(x: Arrays) -> Arrays:
    x[:, 3] *= 1.5
    return x


def tail(x: Arrays) -> Arrays:
    x[..., 14:] = np.random.default_rng(1).normal(size=x[..., 14:].shape)
    return x


def last_rows(x: Arrays) -> Arrays:
    x[-3:] += np.random.default_rng(2).normal(size=x[-3:].shape)
    return x


def sample(x: Arrays) -> Arrays:
    x[0] += np.random.default_rng(4).normal(size=x[0].shape)
    return x


def one_element(x: Arrays) -> Arrays:
    x[1, 2, 3, 4] += 9.0
    return x


def noisy(x: Arrays) -> Arrays:
    return x + 0.2 * np.random.default_rng(3).normal(size=x.shape).astype(np.float32)


def half(x: Arrays) -> NDArray[np.float16]:
    """A cast that saturates, as the device's does where it is told not to write infinity."""
    return np.clip(x, -65504, 65504).astype(np.float16)


CASES = {
    "zeros": (SHAPE, np.zeros_like, "PF7432", "left zeros only"),
    "transposed": (SHAPE, lambda x: np.ascontiguousarray(x.swapaxes(2, 3)), "PF7433", "in other places"),
    "permuted": ((4096,), lambda x: x[np.random.default_rng(5).permutation(x.size)], "PF7433", "in other places"),
    "clipped": (SHAPE, lambda x: np.clip(x, None, 1.25), "PF7434", "stops at 1.25,"),
    "saturated": (SHAPE, half, "PF7434", "stops at 65504, the largest of float16,"),
    "channel": (SHAPE, channel, "PF7435", "at index 3 of axis 1 only"),
    "sample": (SHAPE, sample, "PF7435", "at index 0 of axis 0 only"),
    "tail": (SHAPE, tail, "PF7436", "at indices 14 to 15 of axis 3 only"),
    "last rows": ((48, 64), last_rows, "PF7436", "at indices 45 to 47 of axis 0 only"),
    "one element": (SHAPE, one_element, None, ""),
    "noise": (SHAPE, noisy, None, ""),
    "other values": (SHAPE, lambda x: np.random.default_rng(8).normal(size=x.shape).astype(np.float32), None, ""),
    "half of it": (SHAPE, lambda x: np.concatenate([x[:1], -x[1:]]), "PF7435", "at index 1 of axis 0 only"),
}


@pytest.mark.parametrize("name", CASES)
def test_each_fault_leads_to_the_step_for_what_it_looks_like(name: str, tmp_path: Path) -> None:
    shape, spoil, code, text = CASES[name]
    right = golden(shape) * (1e5 if name == "saturated" else 1.0)
    for side, values in (("target", spoil(right.copy())), ("golden", right)):
        (tmp_path / side).mkdir()
        np.save(tmp_path / side / "weight.npy", values)
    run = pf.compare(tmp_path / "target", tmp_path / "golden", kind="arrays")
    (finding,) = run.record.findings
    assert [step.code for step in finding.advice] == ([] if code is None else [code])
    assert all(text in step.text for step in finding.advice)
