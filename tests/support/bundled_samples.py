"""The bundled samples as files: tests read them below `examples/`, as a checkout has them after its first run."""

from __future__ import annotations

from pathlib import Path

from probe_flow.workflow.templates.samples import ARCHIVE, at_hand

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FIRST = {
    "arrays": "golden",
    "dump_json": "golden",
    "mindspore_graph": "golden",
    "offline": "onnx",
    "repro": "golden",
    "tf_training": "step",
    "torch": "models",
    "torchair": "healthy",
}
"""A sample of each scenario; the others are unpacked with it."""


def unpack_samples() -> None:
    """Unpack the samples of every scenario."""
    for scenario, name in FIRST.items():
        sample = EXAMPLES / scenario / name
        assert at_hand(sample, EXAMPLES.parent) == sample
    assert {path.parent.name for path in EXAMPLES.glob(f"*/{ARCHIVE}")} == FIRST.keys()
