"""The generator's own truth, checked against the arrays in memory and the files it wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from generate.torchair import (
    EXTRA_FAULTS,
    EXTRA_HEALTHY,
    HEALTHY,
    MODELS,
    PLACED_FAULTS,
    PLACED_HEALTHY,
    SINGLE_FAULTS,
    Case,
    Fault,
    Spec,
    generate,
)

FAULTS = [*SINGLE_FAULTS, *EXTRA_FAULTS, *PLACED_FAULTS]
SOUND = [*HEALTHY, *EXTRA_HEALTHY, *PLACED_HEALTHY]

ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Largest relative error of one store."""

VISIBLE = 4.0
"""How many times the healthy error a fault must exceed at the tensor where it first shows."""


def _named(spec: Spec) -> str:
    return spec.name


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    finite = np.isfinite(a) & np.isfinite(b)
    return float(np.linalg.norm(a[finite].astype(np.float64) - b[finite].astype(np.float64)))


def _comparable(case: Case) -> set[str]:
    """Return edges with a golden side: named outputs, and placeholders or scalars read by operators with a name."""
    if case.golden_kind == "ge":
        return {f"{op.name}:{index}" for op in case.lowered.ops for index in range(len(op.fx_names))}
    edges = set()
    given = {f"{op.name}:0" for op in case.lowered.ops if op.type in ("Data", "Const")}
    for op in case.lowered.ops:
        edges |= {f"{op.name}:{index}" for index, name in enumerate(op.fx_names) if name}
        if op.fx_names[0] is not None:
            edges |= given.intersection(op.inputs)
    return edges


def _changed_tensors(case: Case) -> Iterator[tuple[int, int, str, str, int, str]]:
    """Yield (token, rank, task, role, index, edge) of dumped tensors that the fault changed, in execution order."""
    comparable = _comparable(case)
    for run in case.runs:
        for faulty, clean in zip(run.device.tasks, run.clean.tasks, strict=True):
            for role in ("input", "output"):
                pairs = zip(getattr(faulty, f"{role}s"), getattr(clean, f"{role}s"), strict=True)
                for index, (wrong, right) in enumerate(pairs):
                    is_changed = not np.array_equal(wrong.array, right.array, equal_nan=wrong.array.dtype.kind == "f")
                    if is_changed and wrong.edge in comparable:
                        yield run.token, run.rank, faulty.name, role, index, wrong.edge


@pytest.mark.parametrize("spec", FAULTS, ids=_named)
def test_declared_truth_is_the_first_tensor_that_the_fault_changed(spec: Spec, tmp_path: Path) -> None:
    case = spec.generate(tmp_path)
    truth = case.truth
    assert truth is not None
    token, rank, task, role, index, _ = next(_changed_tensors(case))
    assert (truth.token, truth.rank, truth.node, truth.role, truth.index) == (token, rank, task, role, index)


@pytest.mark.parametrize("spec", FAULTS, ids=_named)
def test_each_fault_stands_clear_of_rounding_where_it_first_shows(spec: Spec, tmp_path: Path) -> None:
    case = spec.generate(tmp_path)
    token, rank, *_, edge = next(_changed_tensors(case))
    (run,) = (run for run in case.runs if (run.token, run.rank) == (token, rank))
    wrong, right, golden = (side.tensors[edge] for side in (run.device, run.clean, run.golden))
    if not np.array_equal(np.isfinite(wrong), np.isfinite(golden)) or wrong.dtype.kind != "f":
        return
    finite = np.isfinite(golden)
    wrong, right, golden = wrong[finite], right[finite], golden[finite]
    is_peak_clear = np.max(abs(wrong - right)) > VISIBLE * np.max(abs(right - golden))
    assert is_peak_clear or _distance(wrong, right) > VISIBLE * _distance(right, golden)


@pytest.mark.parametrize("spec", SOUND, ids=_named)
def test_healthy_device_differs_from_golden_by_rounding_only(spec: Spec, tmp_path: Path) -> None:
    case = spec.generate(tmp_path)
    assert case.truth is None
    limit = 12 * ROUNDING[spec.dtype]
    errors = []
    for run in case.runs:
        for op in case.lowered.ops:
            tensors = [(run.device.tensors[f"{op.name}:{k}"], run.golden.tensors[f"{op.name}:{k}"])
                       for k in range(len(op.fx_names))]  # fmt: skip
            scale = max((_rms(run.golden.tensors[edge]) for edge in op.inputs), default=0.0)
            for device, golden in tensors:
                assert np.array_equal(np.isfinite(device), np.isfinite(golden))
                floor = max(_rms(golden), scale) * golden.size**0.5
                errors.append(_distance(device, golden) / floor if floor else 0.0)
    assert max(errors) < limit
    # The same device without fusion differs behind fused operators alone.
    noise = np.median(errors) if case.golden_kind == "fx" else max(errors)
    assert noise > ROUNDING[spec.dtype] / 16, "a device without rounding noise proves nothing"


def _rms(x: np.ndarray) -> float:
    finite = x[np.isfinite(x)].astype(np.float64)
    return float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0


@pytest.mark.parametrize("spec", [SINGLE_FAULTS[3], SINGLE_FAULTS[4], SINGLE_FAULTS[13]], ids=_named)
def test_files_carry_every_name_of_the_graph_in_the_layout_of_the_release(spec: Spec, tmp_path: Path) -> None:
    case = spec.generate(tmp_path)
    golden_files = {path.name for path in case.golden.rglob("*.npy")}
    assert golden_files
    keys = {re.sub(r"\.\d{20}\.npy$", "", name) for name in golden_files}
    for text in case.target.glob("dynamo_original_graph_*.txt"):
        names = re.findall(r'key: "_fx_tensor_name"\s+value \{\s+s: "([^"]+)"', text.read_text())
        assert names
        assert set(names) <= keys
    folders = {path.parent.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.npy")}
    expected = {
        "old": r"data_dump/1/gm_\d{20}_dump",
        "7.1.0": r"msprobe_fx_dump/data_dump/1/gm_\d{20}_dump",
        "later": r"msprobe_fx_dump/worldsize2_global_rank[01]/graph_1/0",
    }[spec.layout]
    assert all(re.fullmatch(expected, folder) for folder in folders)


def test_suites_cover_many_kinds_models_layouts_and_both_types() -> None:
    assert len(SINGLE_FAULTS) == 20
    assert len(EXTRA_FAULTS) >= 12
    assert len(HEALTHY) >= 5
    assert len(EXTRA_HEALTHY) == 5
    assert len({spec.name for spec in (*FAULTS, *SOUND)}) == len(FAULTS) + len(SOUND)
    assert len({spec.fault.kind for spec in SINGLE_FAULTS if spec.fault}) >= 14
    assert {spec.model for spec in (*FAULTS, *SOUND)} == set(MODELS)
    for suite in (SINGLE_FAULTS, EXTRA_FAULTS, HEALTHY, EXTRA_HEALTHY):
        assert {spec.layout for spec in suite} == {"old", "7.1.0", "later"}
        assert {spec.dtype for spec in suite} == {"float16", "bfloat16"}


def test_same_arguments_write_the_same_bytes(tmp_path: Path) -> None:
    fault = Fault("scale", "Gelu", 0.05)
    for name in ("first", "second"):
        generate(
            tmp_path / name,
            model="transformer",
            dtype="float16",
            seed=3,
            fault=fault,
            fused=True,
            layout="later",
            private=True,
        )
    first, second = (
        {
            path.relative_to(tmp_path / name): path.read_bytes()
            for path in (tmp_path / name).rglob("*")
            if path.is_file()
        }
        for name in ("first", "second")
    )
    assert first == second


def test_fault_inside_a_fused_operator_shows_at_the_fused_output(tmp_path: Path) -> None:
    (spec,) = (spec for spec in SINGLE_FAULTS if spec.name == "inside_fused")
    truth = spec.generate(tmp_path).truth
    assert truth is not None
    assert (truth.node, truth.role, truth.golden_node) == ("Mul_3Add_4", "output", "add_4")


def test_fault_of_an_undumped_operator_shows_at_its_readers_input(tmp_path: Path) -> None:
    (spec,) = (spec for spec in SINGLE_FAULTS if spec.name == "undumped_producer")
    truth = spec.generate(tmp_path).truth
    assert truth is not None
    assert (truth.node, truth.role, truth.index, truth.golden_node) == ("Mul_8", "input", 1, "tanh_2")
    assert not list(tmp_path.rglob("Tanh.Tanh_2.*"))


def test_wrong_weight_shows_where_it_is_read_first(tmp_path: Path) -> None:
    (spec,) = (spec for spec in SINGLE_FAULTS if spec.name == "wrong_parameter")
    truth = spec.generate(tmp_path).truth
    assert truth is not None
    assert (truth.node, truth.role, truth.index, truth.golden_node) == ("Conv2D_3", "input", 1, "convolution_3")


def test_expansion_shows_a_fault_of_its_product_only_at_its_end(tmp_path: Path) -> None:
    spec = Spec("inner_product", "transformer", "float16", fault=Fault("scale", "MatMulV2_3", 0.05))
    truth = spec.generate(tmp_path).truth
    assert truth is not None
    assert (truth.node, truth.role, truth.index, truth.golden_node) == ("Add_4", "output", 0, "addmm_3")
    assert truth.accept == {"Add_4", "MatMulV2_3"}
