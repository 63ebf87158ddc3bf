"""Optimizers of devices: one step of a variable, and of the states beside it.

Source: as `device`, and for what they compute the descriptions of TensorFlow's operators that they are named after.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import UnusableError
from probe_flow.apis.numpy_core.optimizers import Optimizer

Array = NDArray[Any]


def _mixed(before: Array, value: Array, share: Array) -> Array:
    """Return what is left of the value before and a share of another one."""
    return np.asarray(before + (value - before) * (1 - share))


def _unmixed(after: Array, value: Array, share: Array) -> Array:
    return np.asarray((after - value * (1 - share)) / share)


_MOMENTUM = Optimizer(
    "var accum lr grad momentum",
    lambda o: o.var - o.lr * (o.grad + o.accum * o.momentum if o.use_nesterov else o.accum),
    lambda o: (o.accum * o.momentum + o.grad,),
    lambda o: ((o.accum - o.grad) / o.momentum,),
    count=1,
    use_nesterov=False,
)
_KERAS_MOMENTUM = Optimizer(
    "var accum lr grad momentum",
    lambda o: o.var + (o.accum * o.momentum - o.grad * o.lr if o.use_nesterov else o.accum),
    lambda o: (o.accum * o.momentum - o.grad * o.lr,),
    lambda o: ((o.accum + o.grad * o.lr) / o.momentum,),
    count=1,
    use_nesterov=False,
)


def _adam_step(o: SimpleNamespace) -> Array:
    moment = o.m * o.beta1 + (1 - o.beta1) * o.grad if o.use_nesterov else o.m
    rate = o.lr * np.sqrt(1 - o.beta2_power) / (1 - o.beta1_power)
    return np.asarray(o.var - rate * moment / (np.sqrt(o.v) + o.epsilon))


_ADAM = Optimizer(
    "var m v beta1_power beta2_power lr beta1 beta2 epsilon grad",
    _adam_step,
    lambda o: (_mixed(o.m, o.grad, o.beta1), _mixed(o.v, o.grad**2, o.beta2)),
    lambda o: (_unmixed(o.m, o.grad, o.beta1), _unmixed(o.v, o.grad**2, o.beta2)),
    count=2,
    use_nesterov=False,
)
_ADA_MAX = Optimizer(
    "var m v beta1_power lr beta1 beta2 epsilon grad",
    lambda o: o.var - o.lr / (1 - o.beta1_power) * o.m / (o.v + o.epsilon),
    lambda o: (_mixed(o.m, o.grad, o.beta1), np.maximum(o.beta2 * o.v, np.abs(o.grad))),
    count=2,
)
_ADAGRAD = Optimizer(
    "var accum lr grad",
    lambda o: o.var - o.lr * o.grad / np.sqrt(o.accum),
    lambda o: (o.accum + o.grad**2 if o.update_slots else o.accum,),
    lambda o: (o.accum - o.grad**2 if o.update_slots else o.accum,),
    count=1,
    update_slots=True,
)


def _rms_new(o: SimpleNamespace) -> tuple[Array, ...]:
    squares = _mixed(o.ms, o.grad**2, o.rho)
    return squares, o.mom * o.momentum + o.lr * o.grad / np.sqrt(squares + o.epsilon)


def _rms_prop(inputs: str, **attributes: Any) -> Optimizer:
    return Optimizer(
        inputs,
        lambda o: o.var - o.mom,
        _rms_new,
        lambda o: (_unmixed(o.ms, o.grad**2, o.rho),),  # what there is without momentum
        count=2,
        **attributes,
    )


def _centred_new(o: SimpleNamespace) -> tuple[Array, ...]:
    mean, squares = _mixed(o.mg, o.grad, o.rho), _mixed(o.ms, o.grad**2, o.rho)
    return mean, squares, o.mom * o.momentum + o.lr * o.grad / np.sqrt(squares - mean * mean + o.epsilon)


def _of_rows(values: Array, combine: np.ufunc | None, indices: Array, updates: Array) -> Array:
    """Return a tensor with updates in the rows that indices name; without a function in place of what was there."""
    rows, found = np.asarray(indices).astype(np.int64), values.copy()
    if rows.size and not (rows.min() >= 0 and rows.max() < len(values)):
        raise UnusableError(f"it names rows beyond {len(values)}")
    given = np.broadcast_to(updates, (*rows.shape, *values.shape[1:]))
    if combine is None:
        found[rows] = given
    else:
        combine.at(found, rows, given)
    return found


def _sparse_step(o: SimpleNamespace) -> Array:
    places = np.asarray(o.indices).astype(np.int64)
    if np.unique(places).size < places.size:
        raise UnusableError("it names a row twice, and in which order kernels take these is up to them")
    return _of_rows(o.var, np.subtract, places, o.lr * o.grad / np.sqrt(o.accum[places]))


def _sparse_adagrad(inputs: str, **attributes: Any) -> Optimizer:
    return Optimizer(
        inputs,
        _sparse_step,
        lambda o: (_of_rows(o.accum, np.add, o.indices, o.grad**2) if o.update_slots else o.accum,),
        lambda o: (_of_rows(o.accum, np.subtract, o.indices, o.grad**2) if o.update_slots else o.accum,),
        count=1,
        update_slots=True,
        **attributes,
    )


_GIVEN = Parameter.empty

UPDATES: Mapping[str, Optimizer] = MappingProxyType(
    {
        "ApplyMomentum": _MOMENTUM, "ApplyMomentumD": _MOMENTUM, "ApplyKerasMomentum": _KERAS_MOMENTUM,
        "ApplyKerasMomentumD": _KERAS_MOMENTUM, "ApplyAdam": _ADAM, "ApplyAdamD": _ADAM, "ApplyAdaMax": _ADA_MAX,
        "ApplyAdaMaxD": _ADA_MAX, "ApplyAdagrad": _ADAGRAD, "ApplyAdagradD": _ADAGRAD,
        "ApplyRMSProp": _rms_prop("var ms mom lr rho momentum epsilon grad"),
        "ApplyRMSPropD": _rms_prop("var ms mom lr grad", rho=_GIVEN, momentum=_GIVEN, epsilon=_GIVEN),
        "ApplyCenteredRMSProp": Optimizer(
            "var mg ms mom lr rho momentum epsilon grad", lambda o: o.var - o.mom, _centred_new, count=3
        ),
        "ApplyGradientDescent": Optimizer("var alpha delta", lambda o: o.var - o.alpha * o.delta),
        "SparseApplyAdagrad": _sparse_adagrad("var accum lr grad indices"),
        "SparseApplyAdagradD": _sparse_adagrad("var accum grad indices", lr=_GIVEN),
        "ScatterAdd": Optimizer("var indices updates", lambda o: _of_rows(o.var, np.add, o.indices, o.updates)),
        "ScatterSub": Optimizer("var indices updates", lambda o: _of_rows(o.var, np.subtract, o.indices, o.updates)),
        "ScatterUpdate": Optimizer("var indices updates", lambda o: _of_rows(o.var, None, o.indices, o.updates)),
        "AssignAdd": Optimizer("var value", lambda o: o.var + o.value),
        "AssignSub": Optimizer("var value", lambda o: o.var - o.value),
    }
)  # fmt: skip
"""By type."""
