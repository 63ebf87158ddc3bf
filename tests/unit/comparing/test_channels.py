"""One wrong channel of a product that nothing computes again, since a device fused or quantised it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from offline_builders import Case
from om_writer import tensor
from raw_pairs import raw
from rule_builders import desc, op

from probe_flow.analysis.limits import LIMITS
from probe_flow.comparing import channels
from probe_flow.comparing.asked import Asked, Recompute
from probe_flow.comparing.steps import compare_pairs
from probe_flow.errors import Diagnostic
from probe_flow.records import FindingKind, Pairs
from probe_flow.testing.run_records import run_record
from probe_flow.work import Context, Settings

SHAPE = (2, 24, 12, 12)
NOISE = 0.02
"""What the values between the two products are off by: even errors, and so are those of each channel of the second."""


def in_order(function, batches, **_):
    return iter([(number, function(batch)) for number, batch in enumerate(batches)])


def pairs_of(path: Path, *, channel: float = 1.0, corner: float = 0.0) -> Pairs:
    """Two quantised convolutions, fused with what makes fractions of their results.

    Args:
        path: for the dumps.
        channel: what the fifth channel of the second is off by.
        corner: error of a few places of it, in all channels, as of values that were cut off.
    """
    random = np.random.default_rng(7)
    case, ops = Case(path), [op("x", "Data", number=1, originals=["x"], outputs=[desc("x", 0)])]
    read, source = random.standard_normal((2, 8, 12, 12)), "x"
    case.golden.output("x", 0, read.astype(np.float32))
    for number, name in enumerate(("a", "b")):
        made = np.maximum(random.standard_normal(SHAPE), 0)
        device = made + NOISE * random.standard_normal(SHAPE) * (made > 0)
        if name == "b":
            device[:, 5] *= channel
            device[:, :, :1, :2] += corner
        whole = tensor(np.rint(read * 127 / 4.5), "int8")
        case.device("AscendQuant", f"quant_{name}", inputs=[tensor(read, "float16", "NCHW")], outputs=[whole])
        case.device("Conv2D", f"conv_{name}", inputs=[whole], outputs=[tensor(device, "float16", "NCHW")])
        case.golden.output(f"relu_{name}", 0, made.astype(np.float32))
        ops += [
            op(f"quant_{name}", "AscendQuant", number=2 * number + 2, inputs=[f"{source}:0"],
               originals=[f"quant_{name}"], outputs=[desc(f"quant_{name}", 0)]),
            op(f"conv_{name}", "Conv2D", number=2 * number + 3, inputs=[f"quant_{name}:0"],
               originals=[f"{name}", f"{name}_dequant_layer", f"relu_{name}"], outputs=[desc(f"relu_{name}", 0)]),
        ]  # fmt: skip
        read, source = device, f"conv_{name}"
    return case.match(rule=case.rule(*ops))


def named(path: Path, **faults: float) -> list[str]:
    context = Context(
        stage="compare", output=path, map=in_order, emit=lambda *_, **__: None, report=lambda _: None,
        settings=Settings(), facts=run_record(), isolate=lambda *_: in_order,
    )  # fmt: skip
    asked = Asked(policy="offline", recompute=Recompute("auto"))
    found = compare_pairs(pairs_of(path, **faults), asked, context, None).findings
    return [f"{each.node.name}: {each.evidence}" for each in found if each.kind is FindingKind.ORIGIN and each.fails]


def test_a_channel_that_its_scale_makes_too_large_is_named(tmp_path: Path) -> None:
    (finding,) = named(tmp_path, channel=1.4)
    assert finding.startswith("conv_b: ")
    assert "one channel is off by 4.0e-01 where rounding and the inputs explain" in finding


@pytest.mark.parametrize("healthy", [{}, {"channel": 1.02}, {"corner": 0.15}])
def test_even_errors_and_those_of_a_place_accuse_no_channel(tmp_path: Path, healthy: dict[str, float]) -> None:
    assert named(tmp_path, **healthy) == []


def test_channels_are_measured_block_by_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that end within a channel, and the figures of the whole."""
    monkeypatch.setattr(channels, "AT_ONCE", 1000)
    golden, error = np.ones((2, 3, 20, 20), np.float32), np.zeros((2, 3, 20, 20), np.float32)
    error[:, 0], error[:, 1], error[0, 2] = 0.01, 0.5, 0.02  # of the last one, half of its elements
    found = channels.worst_channel(job_of(tmp_path, golden + error, golden))
    assert found.found == pytest.approx(0.5, rel=1e-6)
    assert found.explained == pytest.approx(0.03)
    assert found.score == pytest.approx(min(0.5 / 0.03 / LIMITS.rms, 0.5 / (0.02 / np.sqrt(2)) / LIMITS.rms), rel=1e-6)


def test_a_dump_that_changes_meanwhile_is_told(tmp_path: Path) -> None:
    job = job_of(tmp_path, np.ones((2, 3, 20, 20), np.float32), np.ones((2, 3, 20, 20), np.float32))
    Path(job.target.extents[0].file).write_bytes(b"")
    found = channels.worst_channel(job)
    assert found.score == 0.0
    assert found.reason.startswith("its channels could not be read: ")


def test_a_worker_that_ends_is_told() -> None:
    reason = Diagnostic("PF1901", "its worker was killed", help="run it again")
    assert channels.lost(None, reason).reason == "its channels could not be read: its worker was killed"  # type: ignore[arg-type]


def job_of(path: Path, target: np.ndarray, golden: np.ndarray) -> channels.Channels:
    """Results of which 3 % is explained."""
    sides = (raw(path, name, "relu", values) for name, values in (("target", target), ("golden", golden)))
    return channels.Channels(0, *sides, explained=0.03)
