"""Every operator that the numpy core computes, held against torch itself in float64, in several forms of arguments."""

from __future__ import annotations

import numpy as np
import pytest
from api_calls import Form, arrays_in, call_of
from api_forms import GROUPS

from probe_flow.apis.calls import DtypeName
from probe_flow.apis.numpy_core import names
from probe_flow.apis.numpy_core.compute import computed, wide

pytestmark = pytest.mark.frameworks
torch = pytest.importorskip("torch")

FORMS = [form for make in GROUPS.values() for form in make()]
WITHOUT_TORCH = {
    "npu", "cuda", "npu_swiglu", "npu_rms_norm",  # of devices that are not here: held against formulas
    "dropout",  # random
    "equal", "getitem", "slice", "vector_norm",  # names of MindSpore's, of Python's operators and of aten
}  # fmt: skip


def of_torch(form: Form) -> list[np.ndarray]:
    """Return what torch makes of a call, one result behind the other."""
    home = {"Torch": torch, "Functional": torch.nn.functional, "Tensor": torch.Tensor}[form.kind]
    function = home
    for part in form.api.split("."):
        function = getattr(function, part)

    def given(value):
        if isinstance(value, np.ndarray):
            return torch.from_numpy(np.array(value))
        if isinstance(value, DtypeName):
            return getattr(torch, value.dtype)
        return type(value)(map(given, value)) if isinstance(value, (tuple, list)) else value

    found = function(*map(given, form.args), **{name: given(value) for name, value in form.kwargs.items()})
    several = list(found) if isinstance(found, (tuple, list)) else [found]
    return [each.to(torch.float32).numpy() if each.dtype == torch.bfloat16 else each.numpy() for each in several]


@pytest.mark.filterwarnings("ignore:reduction:UserWarning", "ignore:Using torch.cross:UserWarning")
@pytest.mark.parametrize("form", FORMS, ids=[form.label for form in FORMS])
def test_it_computes_what_torch_computes(form):
    due = of_torch(form)
    call = call_of(form, due)
    arrays = {place: wide(each) for place, each in {**arrays_in(tuple(form.args)), **arrays_in(form.kwargs)}.items()}
    found = computed(names.find(form.kind, form.api), call, arrays)
    assert len(found) == len(due)
    for (_, mine), theirs in zip(found, due, strict=True):
        assert mine.shape == theirs.shape
        assert (mine.dtype.kind in "iu") == (theirs.dtype.kind in "iu")
        coarse = {"float16": 1e-3, "float32": 1e-2 if "bfloat16" in form.label else 1e-6}.get(str(theirs.dtype), 1e-12)
        np.testing.assert_allclose(mine.astype(float), theirs.astype(float), rtol=coarse, atol=coarse)


def test_every_supported_name_of_torch_has_a_form():
    shown = {form.api for form in FORMS}
    assert names.TORCH.keys() - shown - WITHOUT_TORCH == set()
