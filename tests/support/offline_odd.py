"""A device dump of odd tensors and odd rules: zeros, NaN, infinities, empty tensors, groups without files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from om_writer import GoldenFolder, OmFolder, tensor

_PLAIN = [[0.375, -1.25, 0.5], [1.5, 0.8125, -0.25]]


def _with(first: float) -> np.ndarray:
    values = np.array(_PLAIN, np.float32)
    values[0, 0] = first
    return values


def _tensors() -> dict[str, tuple[Any, str, Any]]:
    """Return the values of the target, their dtype, and those of the golden, by operator."""
    plain, zero = np.array(_PLAIN, np.float32), np.zeros((2, 3), np.float32)
    nan, inf, minus = _with(np.nan), _with(np.inf), _with(-np.inf)
    nine = np.arange(1, 145, dtype=np.float32).reshape(1, 9, 4, 4)
    return {
        "plain": (plain, "float32", plain * np.float32(1.001)),
        "shape": (plain, "float32", np.arange(7, dtype=np.float32)),
        "shape4": (nine[:, :8], "float16", nine),
        "zero_golden": (plain, "float32", zero),
        "zero_target": (zero, "float32", plain),
        "zero_both": (zero, "float32", zero),
        "nan_same": (nan, "float32", nan),
        "nan_target": (nan, "float32", plain),
        "nan_golden": (plain, "float32", nan),
        "inf_target": (inf, "float32", plain),
        "inf_golden": (plain, "float32", inf),
        "inf_same": (inf, "float32", inf),
        "minus_inf": (minus, "float32", plain),
        "truth": ([[1, 0, 1], [0, 0, 1]], "bool", np.array([[1, 0, 1], [1, 0, 1]], bool)),
        "brain": (plain * np.float32(1.3), "bfloat16", plain * np.float32(1.3)),
        "byte": ([[1, 2, 3], [4, 5, 6]], "int8", np.array([[1, 2, 3], [4, 5, 7]], np.int8)),
        "half_limit": (_with(65504.0), "float16", plain),
        "half_inf": (inf, "float16", plain),
        "empty": (np.zeros((0, 3)), "float32", np.zeros((0, 3), np.float32)),
        "scalar": (3.0, "float32", np.array(4.0, np.float32)),
        "single": ([[3.0]], "float32", np.array([[-4.0]], np.float32)),
        "far": (plain * np.float32(1e20), "float32", plain * np.float32(1e20)),
    }


class _Rules:
    def __init__(self) -> None:
        self.ops: list[dict[str, Any]] = []

    def op(
        self,
        name: str,
        originals: Sequence[str],
        *,
        output: str = "",
        inputs: Sequence[str] = (),
        op_type: str = "Mul",
        is_multiop: bool = False,
        l1: str = "",
        layout: str = "ND",
        origin_layout: str = "ND",
        shape: Sequence[int] = (2, 3),
    ) -> None:
        attrs: list[tuple[str, dict[str, Any]]] = [
            ("_datadump_original_op_names", {"list": {"val_type": 1, "s": list(originals)}})
        ]
        attrs += [("_datadump_is_multiop", {"b": True})] * is_multiop
        attrs += [("_L1_fusion_sub_graph_no", {"s": l1})] * bool(l1)
        facts: list[tuple[str, dict[str, Any]]] = [
            ("_datadump_origin_format", {"s": origin_layout}),
            ("origin_shape", {"list": {"val_type": 2, "i": list(shape)}}),
        ]
        if output:
            facts += [("_datadump_origin_name", {"s": output}), ("_datadump_origin_output_index", {"i": 0})]
        described = {"dtype": "DT_FLOAT", "layout": layout, "shape": {"dim": list(shape)}, "attr": _attrs(facts)}
        self.ops.append(
            {
                "name": name,
                "type": op_type,
                "id": len(self.ops) + 1,
                "input": list(inputs),
                "attr": _attrs(attrs),
                "output_desc": [described],
            }
        )


def _attrs(pairs: Sequence[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in pairs]


def write_odd(root: Path) -> None:
    """Write ``target``, ``golden`` and ``fusion_rule.json``."""
    target, golden, rules = OmFolder(root / "target"), GoldenFolder(root / "golden"), _Rules()
    plain = np.array(_PLAIN, np.float32)
    for number, (name, (values, dtype, other)) in enumerate(_tensors().items(), start=1):
        is_image = np.ndim(values) == 4
        layout = "NC1HWC0" if is_image else "ND"
        target.op("Mul", name, at=number, outputs=[tensor(values, dtype, layout, address=4096 * number)])
        golden.output(name, 0, other)
        rules.op(
            name, [name], output=name, layout=layout, origin_layout="NCHW" if is_image else "ND", shape=np.shape(values)
        )
    _inputs(target, golden, rules, plain)
    _groups(target, golden, rules, plain)
    rules.op("end", ["end"], op_type="NetOutput", inputs=["plain:0"])
    target.op("NetOutput", "end", at=70, inputs=[plain])
    text = json.dumps({"name": "odd", "graph": [{"name": "odd", "op": rules.ops}]})
    (root / "fusion_rule.json").write_text(text)


def _inputs(target: OmFolder, golden: GoldenFolder, rules: _Rules, plain: np.ndarray) -> None:
    """Inputs that the rules do not explain: of an unknown producer, beyond the list, malformed."""
    given = {"in_unknown": ("nobody:0", 1), "in_range": ("plain:0", 2), "in_bad": ("plain", 1)}
    for number, (name, (producer, count)) in enumerate(given.items(), start=50):
        rules.op(name, [name], op_type="Add", inputs=[producer], output=name)
        target.op("Add", name, at=number, inputs=[plain] * count, outputs=[plain])
        golden.output(name, 0, plain)


def _groups(target: OmFolder, golden: GoldenFolder, rules: _Rules, plain: np.ndarray) -> None:
    """Groups without the tensor that counts: only the inner operator dumped, none dumped; and L1 groups."""
    for first, originals in (("mm", ["p", "q"]), ("mn", ["r", "s"]), ("om", ["t"])):
        rules.op(f"{first}_a", originals, op_type="A", is_multiop=True)
        rules.op(f"{first}_b", originals, op_type="B", is_multiop=first != "om", output=originals[-1])
        golden.output(originals[-1], 0, plain)
    target.op("A", "mm_a", at=53, outputs=[plain])
    target.op("A", "om_a", at=54, outputs=[plain])
    for group in ("7", "8"):
        for place, word in enumerate("ab"):
            original = f"{'uv'[place]}{group}"
            rules.op(f"l{group}_{word}", [original], op_type=word.upper(), l1=group, output=original)
            golden.output(original, 0, plain)
    target.op("A", "l8_a", at=60, outputs=[plain])
    target.op("B", "l8_b", at=61, outputs=[plain])
