"""Run a graph in float64, operator by operator: a reference for what float32 kernels and devices compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from probe_flow.apis.calls import UnusableError
from probe_flow.apis.onnx.double import in_double, is_float
from probe_flow.dumpers.onnx.graph import Operator
from probe_flow.errors import Diagnostic, UsageError

Given = Callable[[Operator, Mapping[str, Any]], None]


def run_in_double(
    model: onnx.ModelProto,
    order: Sequence[Operator],
    inputs: Mapping[str, Any],
    given: Given,
    *,
    name: str,
    place: Path,
) -> None:
    """Run all operators, and hand over what each gives: arrays, lists of them for sequences, floats in float64.

    Args:
        model: with the constants.
        order: all operators, each behind those that it reads.
        inputs: of the model, by name.
        given: is handed an operator and the values of its outputs.
        name: of the model, for messages.
        place: folder of the constants that lie in other files.

    Raises:
        UsageError: PF6322 an operator that nothing computes in float64, by name.
    """
    constants = {each.name: each for each in model.graph.initializer}
    last = {read: number for number, operator in enumerate(order) for read in operator.reads}
    values: dict[str, Any] = {key: _wide(np.asarray(value)) for key, value in inputs.items()}
    for number, operator in enumerate(order):
        for read in operator.reads:
            if read not in values and read in constants:
                values[read] = _wide(onnx.numpy_helper.to_array(constants[read], str(place)))
        try:
            made = in_double(operator.proto, {read: values[read] for read in operator.reads}, model)
        except UnusableError as error:
            raise _not_computed(name, operator, error.reason) from error
        except KeyError as error:  # a sparse constant, or a value that no operator gives
            raise _not_computed(name, operator, f"its input {error} is no dense tensor") from error
        given(operator, made)
        values |= {key: each for key, each in made.items() if last.get(key, -1) > number}
        for read in operator.reads:
            if last[read] == number:
                values.pop(read, None)


def _wide(array: Any) -> Any:
    return array.astype(np.float64) if is_float(array) else array


def _not_computed(name: str, operator: Operator, why: str) -> UsageError:
    what = f"`model: {name}` cannot be computed in float64: node `{operator.name}`: {why}"
    cure = "leave `precision` out; the rest of the comparison needs no reference"
    return UsageError(Diagnostic("PF6322", what, help=cure))
