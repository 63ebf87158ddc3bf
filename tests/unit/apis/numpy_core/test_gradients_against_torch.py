"""Every gradient that the numpy core computes, held against torch's own in float64."""

from __future__ import annotations

import numpy as np
import pytest
from api_calls import Form, arrays_in, call_of
from api_forms import GROUPS

from probe_flow.apis.calls import DtypeName, UnusableError
from probe_flow.apis.numpy_core import elementwise, names
from probe_flow.apis.numpy_core.compute import as_taken, wide
from probe_flow.apis.numpy_core.gradients.rules import _RULES, rule_of

pytestmark = pytest.mark.frameworks
torch = pytest.importorskip("torch")

LOSSES = {"cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits"}
"""Whose weights have no gradient."""

COARSE = {"hardsigmoid", "binary_cross_entropy"}
"""Torch holds the slope of the one in float32; the other divides by what cancels where a probability is nearly 1."""


def has_rule(form: Form) -> bool:
    try:
        rule_of(names.find(form.kind, form.api))
    except UnusableError:
        return False
    is_float = any(each.dtype.kind == "f" for each in arrays_in(tuple(form.args)).values())
    return is_float and form.api != "detach"  # which has no gradient


FORMS = [form for make in GROUPS.values() for form in make() if has_rule(form)]


def of_torch(form: Form, incoming, fixed: set[int]) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """Return an incoming gradient of the shape of the result, and torch's gradients by `id` of the arrays."""
    function = {"Torch": torch, "Functional": torch.nn.functional, "Tensor": torch.Tensor}[form.kind]
    for part in form.api.split("."):
        function = getattr(function, part)
    leaves = []

    def given(value):
        if isinstance(value, np.ndarray):
            tensor = torch.from_numpy(np.array(value))
            if tensor.is_floating_point() and id(value) not in fixed:
                leaves.append((value, tensor.requires_grad_()))
            return tensor
        if isinstance(value, DtypeName):
            return getattr(torch, value.dtype)
        return type(value)(map(given, value)) if isinstance(value, (tuple, list)) else value

    result = function(*map(given, form.args), **{name: given(value) for name, value in form.kwargs.items()})
    result = result[0] if isinstance(result, tuple) else result  # the values, not their places
    gradient = incoming.standard_normal(tuple(result.shape))
    found = torch.autograd.grad(result, [leaf for _, leaf in leaves], torch.from_numpy(gradient), allow_unused=True)
    pairs = zip(leaves, found, strict=True)
    return gradient, {id(array): each.numpy() for (array, _), each in pairs if each is not None}


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("form", FORMS, ids=[form.label for form in FORMS])
def test_it_computes_the_gradients_of_torch(form):
    function = names.find(form.kind, form.api)
    given = {**arrays_in(tuple(form.args)), **arrays_in(form.kwargs)}
    arrays = {place: wide(each) for place, each in given.items()}
    taken = as_taken(function, call_of(form, []), arrays)
    taken.apply_defaults()
    owners = {id(arrays[place]): id(given[place]) for place in given}
    without = ["running_mean", "running_var"]
    if form.api in LOSSES:
        without += ["weight", "pos_weight"]
    fixed = {owners[id(each)] for name in without if (each := taken.arguments.get(name)) is not None}
    gradient, due = of_torch(form, np.random.default_rng(7), fixed)
    try:
        found = rule_of(function)(taken.arguments, gradient)
    except UnusableError:
        pytest.skip("a form whose gradient is left alone")
    for name, mine in found.items():
        if len({id(each) for each in given.values()}) < len(given):
            continue  # one array in two places has one gradient in torch: the sum
        argument, _, place = name.partition(".")
        value = taken.arguments[argument]
        theirs = due[owners[id(value[int(place)] if place else value)]]
        assert mine.shape == theirs.shape, name
        coarse = 1e-7 if form.api in COARSE else 1e-10
        np.testing.assert_allclose(mine, theirs, rtol=coarse, atol=1e-12, err_msg=name)


def test_every_rule_is_held_against_torch():
    shown = {names.find(form.kind, form.api) for form in FORMS}
    assert set(_RULES) - shown == {elementwise.swiglu}  # of devices that are not here: held against finite differences


def test_the_gradient_of_swiglu_is_that_of_finite_differences():
    x, gradient = (np.random.default_rng(seed).standard_normal(shape) for seed, shape in ((1, (3, 8)), (2, (3, 4))))
    found = rule_of(elementwise.swiglu)({"input": x, "dim": -1}, gradient)["input"]
    for place in np.ndindex(*x.shape):
        step = np.zeros(x.shape)
        step[place] = 1e-6
        slope = (gradient * (elementwise.swiglu(x + step) - elementwise.swiglu(x - step))).sum() / 2e-6
        assert found[place] == pytest.approx(slope, abs=1e-8)
