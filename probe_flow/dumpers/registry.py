"""The frameworks that models are run by: each runner once, with what is known of it without importing it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from probe_flow.dumpers.base.runner import RunnerSpec
from probe_flow.dumpers.om.machine import cann_problems
from probe_flow.dumpers.tensorflow.notes import training_notes
from probe_flow.dumpers.torch.diagnostics import (
    NO_DETERMINISTIC_FORM,
    NOT_DETERMINISTIC,
    device_problems,
    torch_notes,
)
from probe_flow.dumpers.torchair.ge import FUSION_FILE
from probe_flow.errors import Diagnostic, Severity

_MAX_LISTED = 5


def _onnx_notes(record: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Yield PF6333 for operators that draw random numbers without a seed of their own, PF6347 for sums in 16 bits."""
    exact = record.get("exact_sums") or []
    if exact and record.get("cuts_sums"):
        shown = ", ".join(f"`{name}`" for name in exact[:_MAX_LISTED])
        yield Diagnostic(
            "PF6347",
            f"operators were computed exactly that onnxruntime alone cuts off on this processor: {shown}",
            severity=Severity.NOTE,
            help="they multiply uint8 by int8, which needs VNNI; where the model shall run on processors without it, "
            "quantise the weights with `reduce_range`, or to uint8",
        )
    unseeded = record.get("unseeded") or []
    if unseeded:
        shown = ", ".join(f"`{name}`" for name in unseeded[:_MAX_LISTED])
        yield Diagnostic(
            "PF6333",
            f"operators draw random numbers without a `seed` of their own: {shown}",
            severity=Severity.WARNING,
            help="they repeat here, by the seed of the run, and not elsewhere: set their attribute `seed` in the model",
        )


_OURS = (
    RunnerSpec(
        "torch",
        "probe_flow.dumpers.torch.eager_runner:EagerRunner",
        framework="torch",
        modules=("torch",),
        extra="torch",
        folder="torch_dump",
        said={NOT_DETERMINISTIC: NO_DETERMINISTIC_FORM},
        notes=torch_notes,
    ),
    RunnerSpec(
        "mindspore",
        "probe_flow.dumpers.mindspore.runner:MindSporeRunner",
        framework="MindSpore",
        modules=("mindspore",),
        extra="mindspore",
        folder="mindspore_dump",
    ),
    RunnerSpec(
        "mindspore_graph",
        "probe_flow.dumpers.mindspore.graph_runner:MindSporeGraphRunner",
        framework="MindSpore",
        modules=("mindspore",),
        extra="mindspore",
        folder="kernel_dump",
        leaves=frozenset({"mindspore_dump.json"}),
    ),
    RunnerSpec(
        "torchair_fx",
        "probe_flow.dumpers.torchair.runners:FxRunner",
        framework="torch",
        modules=("torch",),
        extra="torch",
        folder="msprobe_fx_dump",
        said={NOT_DETERMINISTIC: NO_DETERMINISTIC_FORM},
        notes=torch_notes,
    ),
    RunnerSpec(
        "onnx",
        "probe_flow.dumpers.onnx.runner:OnnxRunner",
        framework="onnxruntime",
        modules=("onnx", "onnxruntime"),
        extra="onnx",
        folder="onnx_dump",
        tested={"onnxruntime": "1.32", "onnx": "1.23"},
        notes=_onnx_notes,
    ),
    RunnerSpec(
        "caffe",
        "probe_flow.dumpers.caffe.runner:CaffeRunner",
        framework="opencv-python-headless",
        modules=("cv2",),
        extra="caffe",
        folder="caffe_dump",
        tested={"opencv-python-headless": "4.14", "opencv-python": "4.14"},
    ),
    RunnerSpec(
        "tensorflow",
        "probe_flow.dumpers.tensorflow.runner:TensorFlowRunner",
        framework="tensorflow",
        modules=("tensorflow",),
        extra="tensorflow",
        folder="tensorflow_dump",
        tested={"tensorflow-cpu": "2.21", "tensorflow": "2.21"},
    ),
    RunnerSpec(
        "tensorflow_training",
        "probe_flow.dumpers.tensorflow.training.runner:TrainingRunner",
        framework="tensorflow",
        modules=("tensorflow",),
        extra="tensorflow",
        folder="tf",
        tested={"tensorflow-cpu": "2.21", "tensorflow": "2.21"},
        notes=training_notes,
    ),
    RunnerSpec(
        "torchair_ge",
        "probe_flow.dumpers.torchair.runners:GeRunner",
        framework="torch",
        modules=("torch",),
        extra="torch",
        folder="msprobe_ge_dump",
        leaves=frozenset({FUSION_FILE}),
        said={NOT_DETERMINISTIC: NO_DETERMINISTIC_FORM},
        device_problems=device_problems,
        notes=torch_notes,
    ),
    RunnerSpec(
        "om",
        "probe_flow.dumpers.om.runner:OmRunner",
        framework="CANN",
        modules=(),
        extra="",
        folder="om_dump",
        device_problems=cann_problems,
    ),
)

RUNNERS: Mapping[str, RunnerSpec] = MappingProxyType({spec.name: spec for spec in _OURS})
"""Every runner by its name."""
