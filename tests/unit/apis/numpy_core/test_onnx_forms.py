"""Operators of ONNX by hand: what each computes of its inputs and attributes, and what is left alone."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_forms import FORMS, TWO, OnnxForm, a, ints, results

from probe_flow.apis.calls import Call, Plain, TensorSpec, UnusableError
from probe_flow.apis.numpy_core import names
from probe_flow.apis.numpy_core.compute import own_errors
from probe_flow.apis.numpy_core.forms.onnx import ONNX_FORMS


@pytest.mark.parametrize("form", [form for form in FORMS if form.due is not None], ids=lambda form: form.label)
def test_it_is_computed(form):
    found = results(form)
    for mine, right in zip(found[: len(form.due)], form.due, strict=True):
        assert mine.shape == np.shape(right)
        np.testing.assert_allclose(mine.astype(float), np.asarray(right, float), rtol=1e-12, atol=1e-12)


def test_every_operator_has_a_form():
    assert {form.op_type for form in FORMS} == ONNX_FORMS.keys()


@pytest.mark.parametrize(
    ("form", "why"),
    [
        (OnnxForm("com.example.Own", [TWO]), "`com.example.Own` is no operator that is computed"),
        (OnnxForm("Dropout", [TWO, np.array(0.5), np.array(True)]), "its result is random"),
        (OnnxForm("Split", [TWO]), "into how many parts it cuts is told by its results only"),
        (OnnxForm("Resize", [TWO, None, a(1.0, 2.0)], {"mode": "linear"}), "scaling by `linear`"),
        (OnnxForm("Reshape", [TWO], {}, opset=1), "its shape is an attribute"),
        (OnnxForm("QuantizeLinear", [TWO, np.array(0.5)], result_dtype="float8_e4m3fn"), "`float8_e4m3fn`"),
        (OnnxForm("BatchNormalization", [TWO, *[a(1.0, 1.0)] * 4], {"training_mode": 1}), "those of the batch"),
        (OnnxForm("TopK", [TWO, ints(1)], {"sorted": 0}), "its picks come in any order"),
        (OnnxForm("ConvTranspose", [TWO[None, None], TWO[None, None]], {"auto_pad": "SAME_UPPER"}), "is derived from"),
        (OnnxForm("MatMul", [TWO, np.ones((3, 2))]), "its arguments do not fit each other"),
        (OnnxForm("Cast", [TWO], {"to": 8}), "casts to `type 8` are not computed"),
    ],
    ids=lambda each: each.label if isinstance(each, OnnxForm) else "",
)
def test_what_cannot_be_computed_says_why(form, why):
    with pytest.raises(UnusableError) as caught:
        results(form)
    assert why in caught.value.reason


@pytest.mark.parametrize(("picked", "is_right"), [(2, True), (1, True), (0, False)])
def test_a_pick_among_equals_is_right(picked, is_right):
    x, dumped = np.array([[1.0, 3.0, 3.0]], np.float32), np.array([[picked]])
    call = Call(
        names.ONNX, "ArgMax", (TensorSpec("float32", x.shape),), {"axis": Plain(1)}, (TensorSpec("int64", (1, 1)),)
    )
    function = names.find(names.ONNX, "ArgMax")
    (found,) = own_errors(function, call, lambda *_: x, lambda *_: dumped, {"float32": 2.0**-20}, limit_bytes=2**20)
    assert (found.worst[3] <= 1.0) == is_right
