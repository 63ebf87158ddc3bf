"""Write the dumps of an offline model: a chain of fused operators on the device, and what its layers gave on the host.

The device stores float16 in the layout NC1HWC0, the golden is float32 in NCHW or NHWC; the rules are those of a graph
compiler that fused a convolution with the activation behind it. As everywhere here the content depends on the arguments
only.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.dumps import START_GE, WRITERS, make_private, values_of

CHANNELS = 64
BLOCK = 16
"""Channels that the device keeps together."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class OfflinePlan:
    """What a chain is made of.

    Args:
        operators: their number.
        width: of an image, and its height.
        inputs: how many of the operators before it each one reads; its device file holds what they gave.
        order: of the golden's axes: NCHW as ONNX and Caffe have them, or NHWC as TensorFlow does.
    """

    operators: int
    width: int
    inputs: int = 0
    order: Literal["NCHW", "NHWC"] = "NCHW"

    @property
    def shape(self) -> Shape:
        return 1, CHANNELS, self.width, self.width

    @property
    def elements(self) -> int:
        return CHANNELS * self.width**2

    @property
    def pairs(self) -> int:
        return self.operators + sum(len(self.read_by(number)) for number in range(self.operators))

    @property
    def dump_bytes(self) -> int:
        return self.elements * (2 * self.pairs + 4 * self.operators)

    def read_by(self, number: int) -> range:
        """Return the operators whose outputs an operator reads."""
        return range(max(0, number - self.inputs), number)


@dataclass(frozen=True)
class OfflinePair:
    """Where the dumps of one chain lie, and its rules."""

    target: Path
    golden: Path
    rule: Path


def write_offline(root: Path, plan: OfflinePlan) -> OfflinePair:
    """Write both sides and the rules below ``root``."""
    sys.path.insert(0, str(WRITERS))
    from ge_writer import DumpTensor, file_name, write_dump  # type: ignore[import-not-found]

    pair = OfflinePair(root / "target", root / "golden", root / "fusion_rule.json")
    for folder in (pair.target, pair.golden):
        folder.mkdir(parents=True)
    given: dict[int, Any] = {}
    for number, value in enumerate(values_of(plan.operators, plan.elements)):
        golden, time = value.reshape(plan.shape), START_GE + 113 * number
        given[number] = DumpTensor(golden.astype(np.float16), "float16", "NC1HWC0", c0=BLOCK)
        name = _fused(number)
        write_dump(
            pair.target / file_name("Conv2D", name, number + 1, 7, time),
            op_name=name,
            inputs=[given[source] for source in plan.read_by(number)],
            outputs=[given[number]],
            dump_time=time,
        )
        given.pop(number - plan.inputs, None)
        stored = golden if plan.order == "NCHW" else np.ascontiguousarray(golden.transpose(0, 2, 3, 1))
        np.save(pair.golden / f"relu_{number}.0.{time}.npy", stored, allow_pickle=False)
    pair.rule.write_text(json.dumps(_rules(plan)), encoding="utf-8")
    make_private(root)
    return pair


def _fused(number: int) -> str:
    return f"conv_{number}relu_{number}"


def _rules(plan: OfflinePlan) -> dict[str, Any]:
    ops = [_rule(number, plan) for number in range(plan.operators)]
    return {"name": "chain", "attr": [], "graph": [{"name": "chain", "op": ops}]}


def _rule(number: int, plan: OfflinePlan) -> dict[str, Any]:
    shape = plan.shape
    given = dict(zip("NCHW", shape, strict=True))
    originals = {"list": {"val_type": 1, "s": [f"conv_{number}", f"relu_{number}"]}}
    described = {
        "_datadump_origin_name": {"s": f"relu_{number}"},
        "_datadump_origin_output_index": {"i": 0},
        "_datadump_origin_format": {"s": plan.order},
        "origin_format": {"s": plan.order},
        "origin_shape": {"list": {"val_type": 2, "i": [given[axis] for axis in plan.order]}},
    }
    stored = [shape[0], shape[1] // BLOCK, *shape[2:], BLOCK]
    return {
        "name": _fused(number),
        "type": "Conv2D",
        "id": number + 1,
        "input": [f"{_fused(source)}:0" for source in plan.read_by(number)],
        "attr": _entries({"_datadump_original_op_names": originals}),
        "output_desc": [
            {"dtype": "DT_FLOAT16", "layout": "NC1HWC0", "shape": {"dim": stored}, "attr": _entries(described)}
        ],
    }


def _entries(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in attributes.items()]
