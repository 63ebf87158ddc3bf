"""Operators of ONNX held against the library's own reference, in float64, and against its runtime where that can."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_forms import FORMS, OnnxForm, results

pytestmark = pytest.mark.frameworks
onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
from onnx import helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

RUN_ONLY = {"AveragePool", "ConvTranspose"}
"""Of which the reference has no, or another opinion than the runtime, which devices and converters are held to."""

IN_SINGLE = {"LeakyRelu", "HardSwish", "Gelu", "InstanceNormalization", "GroupNormalization"}
"""Whose attributes, or constants in the definition, are numbers of single precision."""


def is_of_runtime(form: OnnxForm) -> bool:
    """Return whether the reference has another opinion than the runtime: it knows softmax of later versions only."""
    return form.op_type in RUN_ONLY or ("Softmax" in form.op_type and form.opset < 13)


def model_of(form: OnnxForm):
    inputs = [None if each is None else np.asarray(each) for each in form.inputs]
    names = ["" if each is None else f"i{place}" for place, each in enumerate(inputs)]
    given = {name: each for name, each in zip(names, inputs, strict=True) if name}
    counted = results(form)
    outputs = [f"o{place}" for place in range(len(counted))]
    node = helper.make_node(form.op_type, names, outputs, **form.attributes)
    declared = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
        for name, each in given.items()
    ]
    graph = helper.make_graph([node], "g", declared, [onnx.ValueInfoProto(name=name) for name in outputs])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", form.opset)], ir_version=10)
    return made, given, counted


def held(mine, theirs, tolerance):
    for one, other in zip(mine, theirs, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one.astype(float), other.astype(float), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "form", [each for each in FORMS if not (each.is_unknown or is_of_runtime(each))], ids=lambda form: form.label
)
def test_it_computes_what_the_reference_computes(form):
    made, given, mine = model_of(form)
    held(mine, ReferenceEvaluator(made).run(None, given), 1e-6 if form.op_type in IN_SINGLE else 1e-9)


def single(form: OnnxForm) -> OnnxForm:
    """Return a form with float32 in place of float64, for which the runtime has more kernels."""
    inputs = [
        each if each is None or np.asarray(each).dtype != np.float64 else np.asarray(each).astype(np.float32)
        for each in form.inputs
    ]
    return OnnxForm(form.op_type, inputs, form.attributes, None, form.opset, form.result_dtype)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.label)
def test_it_computes_what_the_runtime_computes(form):
    made, given, mine = model_of(single(form))
    try:
        session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception:
        if is_of_runtime(form):
            raise
        pytest.skip("the runtime has no kernel for it")
    held(mine, session.run(None, given), 2e-5)
