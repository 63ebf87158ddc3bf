"""Generate pairs of an offline model's dump and its golden with one known fault, or none. No framework needed.

A network (`offline_networks`) runs twice: compiled and in reduced precision as a device runs it, in storage layouts,
each operator on what the device computed before; and as golden, in float64 (arrays) or on the same device without
fusion (another dump). So a healthy pair has the noise of a real one, and a fault travels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import rule_builders as rules
from om_writer import GoldenFolder

from generate.offline_compiler import Build, DeviceOp, compile_network, with_constants
from generate.offline_device import (
    NEVER_DUMPED,
    NHWC,
    Tamper,
    quantisation_model,
    rule_model,
    run_device,
    write_device,
)
from generate.offline_faults import (
    LAYER_KINDS,
    OPERATOR_KINDS,
    WEIGHT_KINDS,
    Fault,
    Scene,
    random_for,
    with_wrong_weights,
)
from generate.offline_layers import INPUT, Array, Layer, Network, compute, run_golden
from generate.offline_networks import NETWORKS, calibrated

PLAIN = Build()
CONVERTED = ("TransData", "Cast")


@dataclass(frozen=True)
class Truth:
    """Where a diagnosis has to point.

    Args:
        node: the first device operator of which the comparison shows a wrong tensor.
        clearance: how many times the healthy difference the fault is there, root mean square or single elements.
    """

    node: str
    clearance: float


@dataclass(frozen=True)
class Case:
    """A generated pair: its folders, its rule files, and the truth (None: nothing is wrong)."""

    target: Path
    golden: Path
    rule: Path
    close: Path | None
    quant: Path | None
    truth: Truth | None


@dataclass(frozen=True)
class Spec:
    """One pair of a suite.

    Args:
        name: of the case.
        network: a key of `NETWORKS`.
        fault: what goes wrong, None for a healthy pair.
        build: how the device compiles.
        golden: ``npy``, or ``om`` for the same device without fusion.
        images: order of the axes of the framework's images.
        dumped: share of the operators that leave a file.
        seed: draws weights and inputs.
    """

    name: str
    network: str
    fault: Fault | None = None
    build: Build = PLAIN
    golden: str = "npy"
    images: str = "NCHW"
    dumped: float = 1.0
    seed: int = 0

    def generate(self, root: Path) -> Case:
        """Write the pair below ``root``."""
        return _Generator(self, root).case()


class _Generator:
    def __init__(self, spec: Spec, root: Path) -> None:
        random = np.random.default_rng([spec.seed, *map(ord, spec.network)])
        self.spec = spec
        self.root = root
        self.network = calibrated(NETWORKS[spec.network](random), random)
        self.x = self.network.feed(random)
        self.other = self.network.feed(random)
        self.reference = run_golden(self.network.layers, self.x)

    def case(self) -> Case:
        spec, root = self.spec, self.root
        ops, clean = self._device(self.x, None)
        found = clean if spec.fault is None else self._device(self.x, spec.fault)[1]
        dumped = self._dumped(ops)
        write_device(ops, found, root / "target", images=spec.images, dumped=dumped)
        rule = rules.write(root / "fusion_rule.json", rule_model(ops, clean, images=spec.images))
        golden, close = self._golden()
        quant = None
        if spec.build.int8 and spec.golden == "npy":
            tree = quantisation_model(self.network.layers, spec.build.int8, self.reference)
            quant = rules.write(root / "quant_fusion_rule.json", tree)
        truth = None if spec.fault is None else self._truth(ops, clean, found, golden, dumped)
        return Case(root / "target", root / "golden", rule, close, quant, truth)

    def _device(self, x: Array, fault: Fault | None) -> tuple[list[DeviceOp], dict[str, Array]]:
        network, build = self.network, self.spec.build
        kind = None if fault is None else fault.kind
        if fault is not None and kind in WEIGHT_KINDS:
            network = Network(with_wrong_weights(network.layers, fault), network.feed, is_image=network.is_image)
        ops = with_constants(compile_network(network, build, self.reference), build.storage)
        tamper = None
        if fault is not None and kind in OPERATOR_KINDS:
            assert any(op.name == fault.place for op in ops), [op.name for op in ops]
            stale = self._device(self.other, None)[1][f"{fault.place}:0"].astype(np.float32)
            tamper = _tamper(fault, stale)

        def computed(layer: Layer, inputs: Sequence[Array], weights: Sequence[Array]) -> list[Array]:
            if fault is not None and kind in LAYER_KINDS and layer.name == fault.place:
                return LAYER_KINDS[fault.kind](layer, inputs, weights, fault.strength)
            return compute(layer, inputs, weights)

        return ops, run_device(ops, x, build, tamper=tamper, computed=computed)

    def _dumped(self, ops: Sequence[DeviceOp]) -> frozenset[str]:
        names = [op.name for op in ops if op.op_type not in NEVER_DUMPED]
        random = np.random.default_rng(self.spec.seed)
        return frozenset(name for name in names if random.random() < self.spec.dumped)

    def _golden(self) -> tuple[Mapping[str, Array], Path | None]:
        """Write the golden side and return its original outputs."""
        spec, root = self.spec, self.root
        if spec.golden == "om":
            build = replace(spec.build, is_fused=False)
            ops = with_constants(compile_network(self.network, build, self.reference), build.storage)
            found = run_device(ops, self.x, build)
            write_device(ops, found, root / "golden", images=spec.images, first=500_000)
            close = rules.write(root / "close_fusion_rule.json", rule_model(ops, found, images=spec.images))
            given = {name: f"{op.name}:{n}" for op in ops for n, name in enumerate(op.gives) if name is not None}
            return {name: found[device] for name, device in given.items()}, close
        folder = GoldenFolder(root / "golden")
        for name, values in self.reference.items():
            layer, _, index = name.rpartition(":")
            if layer == INPUT:
                continue
            shown = values.transpose(NHWC) if spec.images == "NHWC" and values.ndim == 4 else values
            folder.output(layer, int(index), shown)
        return self.reference, None

    def _truth(
        self,
        ops: Sequence[DeviceOp],
        clean: Mapping[str, Array],
        found: Mapping[str, Array],
        golden: Mapping[str, Array],
        dumped: frozenset[str],
    ) -> Truth:
        """Return the first dumped operator that shows a wrong tensor which has a golden one."""
        assert self.spec.fault is not None
        original: dict[str, str] = {}
        wrong: set[str] = set()
        for op in ops:
            if op.op_type == "Const":
                continue
            is_place = self.spec.fault.place in (op.name, *(layer.name for layer in op.layers))
            if is_place or not wrong.isdisjoint(op.inputs):
                wrong.update(f"{op.name}:{n}" for n in range(len(op.gives)))
            for n, given in enumerate(op.gives):
                passed = original.get(op.inputs[0]) if op.op_type in CONVERTED else None
                shown = given if given in golden else passed
                if shown is not None:
                    original[f"{op.name}:{n}"] = shown
            if op.name not in dumped:
                continue
            for name in (*op.inputs, *(f"{op.name}:{n}" for n in range(len(op.gives)))):
                if name in wrong and name in original and not np.array_equal(found[name], clean[name], equal_nan=True):
                    return Truth(op.name, _clearance(found[name], clean[name], golden[original[name]]))
        raise AssertionError(f"nothing shows {self.spec.fault}")


def _tamper(fault: Fault, stale: Array) -> Tamper:
    def tamper(op: DeviceOp, inputs: list[Array], outputs: list[Array]) -> list[Array]:
        if op.name != fault.place:
            return outputs
        scene = Scene(inputs, outputs[0], stale, fault.strength, random_for(fault))
        return [OPERATOR_KINDS[fault.kind](scene), *outputs[1:]]

    return tamper


def _clearance(found: Array, clean: Array, golden: Array) -> float:
    wide = [values.astype(np.float64) for values in (found, clean, golden)]
    with np.errstate(invalid="ignore"):
        fault, noise = np.abs(wide[0] - wide[1]), np.abs(wide[1] - wide[2])
    if not np.isfinite(fault).all():
        return float("inf")
    ratios = [float(np.sqrt(np.mean(fault**2) / np.mean(noise**2))), float(fault.max() / noise.max())]
    return max(ratios)
