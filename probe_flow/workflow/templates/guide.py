"""What a workflow that was copied says in comments: what to fill in, what its sample shows, where its schema is."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from types import MappingProxyType

EDITOR_LINE = "# yaml-language-server: $schema=workflow.schema.json"
"""Editors with the YAML language server complete and check by it; `init` writes the file that it names."""

_WIDTH = 110

SAMPLES: Mapping[str, str] = MappingProxyType(
    {
        "arrays_compare": "two folders of arrays, of which `block/mlp/weight` and `token_ids` differ: FAIL",
        "build_graph": "one dump of a small network, shown as a graph: nothing is judged",
        "compare_then_precheck": "a network in which `Mint.mul` is wrong on the device and right alone: FAIL",
        "find_nonfinite": "a dump in which NaN begins at `Torch.matmul.6.forward`: FAIL",
        "mindspore_code_mapping": "a graph-mode dump in which `Expand__Muls_Mul` is wrong, with its source line: FAIL",
        "mindspore_compare": "a transformer block in which `Tensor.__mul__` scales by a wrong factor: FAIL",
        "mindspore_graph": "a transformer block in which `Tensor.__mul__` scales by a wrong factor: FAIL",
        "mindspore_precheck": "the API calls of a healthy network, each run again alone: PASS",
        "mindspore_vs_pytorch_api_mapping": "one model in two frameworks, both right: PASS",
        "mindspore_vs_pytorch_graph": "one model in two frameworks, both right: PASS",
        "mindspore_vs_pytorch_layer_mapping": "one model in two frameworks, both right: PASS",
        "multi_rank_merge": "two ranks of a network in which `Tensor.__add__` is wrong: FAIL",
        "offline_om_vs_caffe": "an offline model whose `pool1` is wrong: FAIL",
        "offline_om_vs_om": "an offline model built with fusion, whose `fc` is wrong, and without: FAIL",
        "offline_om_vs_onnx": "an offline model whose `fc` is wrong: FAIL",
        "offline_om_vs_tensorflow": "an offline model whose `block/conv2relu2` is wrong: FAIL",
        "offline_quantized": "a quantised model that computes what it should: PASS",
        "offline_training_batch": "one step of a training on two devices, `block/shortcut` wrong on one of them: FAIL",
        "overflow_check": "a dump in which infinity begins at `Torch.matmul.6.forward`: FAIL",
        "pytorch_compare": "a transformer block in which `Tensor.__mul__` scales by a wrong factor: FAIL",
        "pytorch_graph": "a transformer block in which `Tensor.__mul__` scales by a wrong factor: FAIL",
        "pytorch_precheck": "the API calls of a network, each run again alone",
        "suspect_repro": "a network whose `Functional.linear` is wrong, and a script that computes it again: FAIL",
        "torchair_fusion_on_vs_off": "a graph compiled with fusion, whose `Mul_3Add_8` is wrong, and without: FAIL",
        "torchair_ge_vs_fx": "a transformer layer whose `Gelu_1` is 2 % too large: FAIL",
        "torchair_minmax": "a transformer layer whose `Gelu_1` is 2 % too large, reduced to minimum and maximum: FAIL",
        "torchair_with_reference": "a transformer layer whose `Gelu_1` is 2 % too large, judged by a reference: FAIL",
    }
)
"""What the sample of each packaged workflow shows, and how its run ends."""


def guided(text: str, *, template: str, file: str, unset: Mapping[str, str], samples: Sequence[str]) -> str:
    """Return the text of a copied workflow with comments above its parameters.

    Args:
        text: of the workflow, with or without a line for editors at its top.
        template: name of the packaged workflow.
        file: name of the copy.
        unset: parameters that have to get a value -> what they are.
        samples: paths of the sample data that the copy names.
    """
    lines = text.split("\n")
    if lines and lines[0].startswith("# yaml-language-server:"):
        del lines[0]
    place = next((number for number, line in enumerate(lines) if line.startswith("params:")), None)
    if place is not None:
        lines[place:place] = _comments(template, file, unset, samples)
    return "\n".join((EDITOR_LINE, *lines))


def _comments(template: str, file: str, unset: Mapping[str, str], samples: Sequence[str]) -> list[str]:
    if unset:
        sets = " ".join(f"--set {name}=..." for name in unset)
        width = max(map(len, unset))
        return [
            "# Fill in: give each of these a `default: PATH` below, or name it when you run:",
            f"#   probe-flow run {file} {sets}",
            *(f"#   {name:<{width}}  {' '.join(what.split())}".rstrip() for name, what in unset.items()),
            "# A path in this file starts from its folder, one behind `--set` from where you are.",
        ]
    if samples:
        shows = f"The sample: {SAMPLES[template]}." if template in SAMPLES else "The sample of the packaged workflow."
        told = f"{shows} Put your own dumps in its place, here or with `--set NAME=PATH`."
        return [f"# {line}" for line in textwrap.wrap(told, _WIDTH, break_on_hyphens=False)]
    return []
