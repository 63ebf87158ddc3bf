"""Pairs of dumps with awkward values, to compare tables cell by cell: ``python -m generate.dump_json_awkward FOLDER``.

Needs torch. Writes, by the specification of the format, ``statistics``, ``tensor`` and ``md5`` (PyTorch on both sides)
and ``mixed`` (tensors, MindSpore against PyTorch), each with ``target`` and ``golden``. Every entry is one question:
what does the table say of this value against that one?
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

NAN, INF = float("nan"), float("inf")
FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)
MINDSPORE = {
    torch.float16: "Float16", torch.float32: "Float32", torch.float64: "Float64", torch.bfloat16: "BFloat16",
    torch.int8: "Int8", torch.int32: "Int32", torch.int64: "Int64", torch.uint8: "UInt8", torch.bool: "Bool",
    torch.complex64: "Complex64",
}  # fmt: skip


def statistics(value: torch.Tensor) -> tuple[Any, Any, Any, Any]:
    """Return maximum, minimum, mean and norm as the collector records them."""
    if value.numel() == 0 or value.dtype in FLOAT8:
        return None, None, None, None
    if value.dtype == torch.bool:
        return bool(value.any()), bool(value.all()), None, None
    if value.is_complex():
        size = value.abs()
        return size.max().item(), size.min().item(), size.mean().item(), None
    if value.dim() == 0:
        return (value.item(),) * 4
    if not value.dtype.is_floating_point or value.dtype == torch.float64:
        return value.max().item(), value.min().item(), None, None
    wide = value.float()
    return value.max().item(), value.min().item(), wide.mean().item(), wide.norm().item()


def checksum(value: torch.Tensor) -> str:
    """Return CRC-32 of the bytes, as 8 hex digits."""
    raw = value.view(torch.int16) if value.dtype == torch.bfloat16 else value
    return f"{zlib.crc32(raw.contiguous().numpy().tobytes()):08x}"


class Dump:
    """One dump.json with its tensor files."""

    def __init__(self, folder: Path, task: str, framework: str) -> None:
        self.folder = folder
        self.task = "tensor" if task == "mixed" else "statistics" if task == "md5" else task
        self.has_checksums = task == "md5"
        self.is_torch = framework == "pytorch"
        self.framework = framework
        self.data: dict[str, dict[str, Any]] = {}
        folder.mkdir(parents=True)

    def tensor(self, name: str, value: torch.Tensor, *, file: bool = True, grad: bool = False) -> dict[str, Any]:
        """Return a tensor object, and write its file where the task says so."""
        dtype = str(value.dtype) if self.is_torch else MINDSPORE[value.dtype]
        made: dict[str, Any] = {"type": "torch.Tensor" if self.is_torch else "mindspore.Tensor", "dtype": dtype}
        made["shape"] = list(value.shape)
        made.update(zip(("Max", "Min", "Mean", "Norm"), statistics(value), strict=True))
        if self.is_torch:
            made["requires_grad"] = grad
        if self.has_checksums:
            made["md5"] = checksum(value)
        if self.task == "tensor" and file:
            made["data_name"] = f"{name}.{'pt' if self.is_torch else 'npy'}"
            path = self.folder / "dump_tensor_data" / made["data_name"]
            path.parent.mkdir(exist_ok=True)
            if self.is_torch:
                torch.save(value.contiguous(), path)
            else:
                np.save(path, (value.float() if value.dtype == torch.bfloat16 else value).numpy())
        return made

    def value(self, name: str, value: Any) -> Any:
        """Return a value as the dump holds it: tensors written, functions asked, lists and objects gone through."""
        if isinstance(value, torch.Tensor):
            return self.tensor(name, value)
        if callable(value):
            return value(self, name)
        if isinstance(value, list):
            return [self.value(f"{name}.{index}", each) for index, each in enumerate(value)]
        if isinstance(value, dict) and "type" not in value:
            return {key: self.value(f"{name}.{key}", each) for key, each in value.items()}
        return value

    def call(self, name: str, given: Sequence[Any], made: Sequence[Any], **keywords: Any) -> None:
        """Add a forward entry."""
        self.data[name] = {
            "input_args": self.value(f"{name}.input", list(given)),
            "input_kwargs": {key: self.value(f"{name}.input.{key}", each) for key, each in keywords.items()},
            "output": self.value(f"{name}.output", list(made)),
        }

    def write(self) -> None:
        """Write dump.json."""
        head = {"task": self.task, "level": "L1", "framework": self.framework, "dump_data_dir": None}
        (self.folder / "dump.json").write_text(json.dumps({**head, "data": self.data}, indent=1))


Pair = tuple[Any, Any]


def floats(*values: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


def whole(*values: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


def single(value: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
    return torch.tensor(value, dtype=dtype)


def scalar(value: Any, kind: str = "") -> dict[str, Any]:
    return {"type": kind or type(value).__name__, "value": value}


def tensor_pairs(x: torch.Tensor) -> Mapping[str, Pair]:
    """Return what is compared as the output of one call each."""
    half, brain, double = torch.float16, torch.bfloat16, torch.float64
    two = torch.complex
    return {
        "noise": (x * (1 + 1e-3 * torch.randn(4, 5)), x),
        "same": (x, x.clone()),
        "zeros": (torch.zeros(3, 3), torch.zeros(3, 3)),
        "zero_target": (torch.zeros(6), x.flatten()[:6]),
        "zero_golden": (x.flatten()[:6], torch.zeros(6)),
        "zero_element": (floats(1, 2, 3), floats(1, 0, 3)),
        "minus_zero": (floats(-0.0, 1), floats(0.0, 1)),
        "single": (single(1.5), single(1.25)),
        "single_int": (single(3), single(4)),
        "single_uint": (single(1, torch.uint8), single(3, torch.uint8)),
        "single_bool": (single(True), single(False)),
        "single_nan": (single(NAN), single(NAN)),
        "single_nan_target": (single(NAN), single(1.0)),
        "single_inf": (single(INF), single(INF)),
        "single_inf_target": (single(INF), single(2.0)),
        "single_inf_golden": (single(2.0), single(INF)),
        "single_inf_zero": (single(INF), single(0.0)),
        "single_inf_sign": (single(-INF), single(INF)),
        "single_zero": (single(1.0), single(0.0)),
        "single_double": (single(1.5, double), single(1.25, double)),
        "single_complex": (single(1 + 2j), single(1 + 3j)),
        "one": (floats(2), floats(3)),
        "one_nested": (floats(2).reshape(1, 1), floats(3).reshape(1, 1)),
        "nan_same": (floats(1, NAN, 3), floats(1, NAN, 3.1)),
        "nan_elsewhere": (floats(1, NAN, 3), floats(1, 2, NAN)),
        "nan_target": (floats(1, NAN, 3), floats(1, 2, 3)),
        "nan_golden": (floats(1, 2, 3), floats(1, NAN, 3)),
        "nan_all": (floats(NAN, NAN, NAN), floats(NAN, NAN, NAN)),
        "nan_all_target": (floats(NAN, NAN, NAN), floats(1, 2, 3)),
        "nan_all_golden": (floats(1, 2, 3), floats(NAN, NAN, NAN)),
        "inf_same": (floats(1, INF, 3), floats(1, INF, 3)),
        "inf_sign": (floats(1, INF, 3), floats(1, -INF, 3)),
        "inf_target": (floats(1, INF, 3), floats(1, 2, 3)),
        "inf_all": (floats(INF, INF), floats(INF, INF)),
        "inf_or_nan": (floats(INF, NAN, 1), floats(NAN, INF, 1)),
        "inf_and_nan": (floats(INF, NAN), floats(INF, NAN)),
        "inf_and_nan_off": (floats(INF, NAN, 2), floats(INF, NAN, 2.5)),
        "minus_inf": (floats(1, -INF, 3, 4), floats(1.0005, -INF, 3, 4)),
        "minus_inf_all": (floats(-INF, -INF, -INF), floats(-INF, -INF, -INF)),
        "minus_inf_most": (floats(-INF, -INF, -INF, 1, 2), floats(-INF, -INF, -INF, 1.5, 2)),
        "minus_inf_half": (floats(-INF, -INF, 1, 2, dtype=half), floats(-INF, -INF, 1, 2.1, dtype=half)),
        "minus_inf_brain": (floats(-INF, -INF, 1, 2, dtype=brain), floats(-INF, -INF, 1, 2.1, dtype=brain)),
        "int_beyond_float": (whole(2**60, 5), whole(2**60 + 1, 5)),
        "int_at_limit": (whole(2**53 + 1, 1), whole(2**53, 1)),
        "int_large": (whole(2**40, -7, 0), whole(2**40 + 3, -7, 1)),
        "int_extremes": (whole(-(2**63), 1), whole(2**63 - 1, 1)),
        "int_zero": (whole(0, 0, 3), whole(0, 1, 3)),
        "int32": (whole(1, 2, 3, dtype=torch.int32), whole(1, 2, 4, dtype=torch.int32)),
        "uint8": (whole(1, 250, 3, dtype=torch.uint8), whole(1, 2, 4, dtype=torch.uint8)),
        "int8": (whole(-128, 127, dtype=torch.int8), whole(127, -128, dtype=torch.int8)),
        "truth": (torch.tensor([True, False, True]), torch.tensor([True, True, True])),
        "half": (x.half(), (x * 1.001).half()),
        "half_extremes": (floats(65504, 1, dtype=half), floats(-65504, 1, dtype=half)),
        "brain": (x.bfloat16(), (x * 1.01).bfloat16()),
        "double": (x.double(), x.double() * (1 + 1e-9)),
        "half_to_float": (x.half(), x),
        "brain_to_float": (x.bfloat16(), x),
        "double_to_float": (x.double(), x),
        "complex": (two(x, x), two(x, x * 1.1)),
        "complex_real": (two(x, x), two(x * 1.1, x)),
        "complex_same": (two(x, x), two(x, x)),
        "complex_nan": (two(floats(1, NAN), floats(1, 1)), two(floats(1, NAN), floats(1, 1))),
        "complex_wide": (two(x.double(), x.double()), two(x.double(), -x.double())),
        "float8": (x.to(FLOAT8[0]), (x * 1.1).to(FLOAT8[0])),
        "float8_wide": (x.to(FLOAT8[1]), (x * 1.1).to(FLOAT8[1])),
        "empty": (torch.zeros(0), torch.zeros(0)),
        "empty_shapes": (torch.zeros(0, 3), torch.zeros(2, 0)),
        "empty_target": (torch.zeros(0), floats(1, 2)),
        "empty_golden": (floats(1, 2), torch.zeros(0)),
        "huge": (floats(3e38, 1), floats(-3e38, 1)),
        "huge_double": (floats(1.5e308, 1, dtype=double), floats(-1.5e308, 1, dtype=double)),
        "tiny": (floats(1e-40, 2e-40), floats(1e-40, 1e-40)),
        "tiny_double": (floats(1e-320, 1, dtype=double), floats(2e-320, 1, dtype=double)),
        "tiny_norms": (floats(1e-17, 1e-17), floats(1e-18, 1e-18)),
        "tiny_norm_target": (floats(1e-17, 0), floats(1, 0)),
        "opposite": (-x, x),
        "shape": (x, x.reshape(5, 4)),
        "shape_ones": (x.reshape(1, 20), x.reshape(20)),
        "shape_one_moved": (x.reshape(4, 1, 5), x.reshape(4, 5, 1)),
        "shape_count": (x.flatten(), x.flatten()[:7]),
        "single_to_one": (single(1.5), floats(1.5)),
        "single_to_two": (single(1.5), floats(1.5, 2)),
        "int_widths": (whole(1, 2, dtype=torch.int32), whole(1, 2)),
        "int_to_float": (whole(1, 2), floats(1, 2)),
        "truth_to_int": (torch.tensor([True]), whole(1)),
        "share": (torch.cat([torch.ones(99), floats(1.002)]), torch.ones(100)),
        "share_at_limit": (floats(1.001, 1.005, 1.0009999, 1.0049999), floats(1, 1, 1, 1)),
        "cosine_near_one": (floats(1, 2, 3), floats(1.02, 2, 3)),
    }


def argument_pairs(x: torch.Tensor) -> Mapping[str, Pair]:
    """Return what is compared as a second argument, as a keyword and as an output."""
    group = {"type": "torch.ProcessGroup", "group_ranks": [0, 1], "group_id": "a"}
    layout = {"type": "torch.memory_format", "format": "channels_last"}
    array = {"type": "numpy.ndarray", "dtype": "int64", "shape": [3], "Max": 3, "Min": 1, "Mean": 2.0, "Norm": 3.7}
    return {
        "int": (scalar(3), scalar(4)),
        "int_same": (scalar(3), scalar(3)),
        "int_zero": (scalar(5), scalar(0)),
        "int_wide": (scalar(2**70), scalar(2**70 + 1)),
        "int_extremes": (scalar(2**63), scalar(-(2**63))),
        "int_to_float": (scalar(1), scalar(1.0)),
        "int_to_truth": (scalar(1), scalar(True)),
        "float": (scalar(1.5), scalar(1.25)),
        "float_nan": (scalar(NAN), scalar(NAN)),
        "float_nan_target": (scalar(NAN), scalar(1.0)),
        "float_inf_sign": (scalar(INF), scalar(-INF)),
        "float_inf_target": (scalar(INF), scalar(2.0)),
        "float_zero_sign": (scalar(0.0), scalar(-0.0)),
        "float_range": (scalar(1e-300), scalar(1e300)),
        "truth": (scalar(True), scalar(False)),
        "text": (scalar("mean"), scalar("sum")),
        "text_number": (scalar("5"), scalar("7")),
        "text_nan": (scalar("nan"), scalar("NaN")),
        "text_inf": (scalar("inf"), scalar("3")),
        "text_absent": (scalar("N/A"), scalar("x")),
        "text_empty": (scalar(""), scalar("x")),
        "text_truth": (scalar("True"), scalar("False")),
        "text_devices": (scalar("cuda:0"), scalar("npu:0")),
        "text_device": (scalar("cuda:0"), scalar("x")),
        "none": (None, None),
        "none_target": (None, scalar(1)),
        "none_golden": (scalar(1), None),
        "none_to_tensor": (None, x),
        "tensor_to_none": (x, None),
        "no_value": (scalar(None, "int"), scalar(None, "int")),
        "slice": (scalar([0, None, 2], "slice"), scalar([0, 4, 2], "slice")),
        "size": (scalar([1, 2], "torch.Size"), scalar([1, 3], "torch.Size")),
        "ellipsis": (scalar("...", "ellipsis"), scalar("...", "ellipsis")),
        "dtype": (scalar("torch.float16", "torch.dtype"), scalar("torch.float32", "torch.dtype")),
        "device": (scalar("npu:0", "torch.device"), scalar("cuda:0", "torch.device")),
        "memory_format": (layout, {**layout, "format": "contiguous"}),
        "unknown": ({"type": "other.Thing"}, {"type": "other.Thing"}),
        "group": (group, {**group, "group_ranks": [0, 2]}),
        "list": ([scalar(1), scalar(2)], [scalar(1), scalar(3)]),
        "nested": ({"a": [x, {"b": scalar(1)}]}, {"a": [x, {"b": scalar(2)}]}),
        "empty_object": ({}, {}),
        "empty_list": ([], []),
        "numpy_scalar": (scalar(2.5, "float32"), scalar(2.5, "float32")),
        "numpy_array": (array, {**array, "Max": 4}),
    }


APIS_OF_THEIR_OWN = (
    "empty", "empty_like", "to", "numpy", "__setitem__", "new_empty", "empty_strided", "_reduce_scatter_base",
    "_all_gather_base", "all_to_all_single", "batch_isend_irecv", "ordinary",
)  # fmt: skip


def add_calls(target: Dump, golden: Dump, x: torch.Tensor) -> None:
    """Add what the rules of a whole entry are asked about: several rows, names, missing sides."""

    def cross(name: str, given: Sequence[Pair], made: Sequence[Pair], **keywords: Pair) -> None:
        _both(target, golden, name, given, made, keywords)

    wide, narrow = (x, x), (x.half(), x)
    for name in ("layers.0.qkv_proj", "layers.0.gate_up_proj", "layers.0.other_proj", "layers.output.dense"):
        cross(f"Module.{name}.Linear.forward.0", [narrow], [narrow])
    cross("Functional.fused_qkv_linear.0.forward", [narrow], [narrow])
    for name, grads in {"gained": (True, False), "lost": (False, True), "kept": (True, True)}.items():
        sides = tuple(_with_grad(x, grad) for grad in grads)
        cross(f"Functional.grad_{name}.0.forward", [sides], [sides])
    sides = _without_grad(x), _with_grad(x, True)
    cross("Functional.grad_unknown.0.forward", [sides], [sides])
    for word in ("src", "dst", "group_src", "group_dst"):
        cross(f"Distributed.send_{word}.0.forward", [wide], [wide], **{word: (scalar(1), scalar(2))})
    bad, worse = (floats(1, NAN, 3), floats(1, 2, 3)), (floats(9, INF, 3), floats(1, 2, 3))
    for api in APIS_OF_THEIR_OWN:
        cross(f"Torch.{api}.0.forward", [bad], [worse])
        cross(f"Torch.{api}.1.forward", [], [worse])
        cross(f"Torch.{api}.2.forward", [bad], [])
        cross(f"Torch.{api}.3.forward", [], [worse], k=(scalar(1), scalar(2)))
    cross("Functional.jump.0.forward", [wide], [(x * 2, x), (x * 1.2, x), wide])
    cross("Functional.jump_from_zero.0.forward", [wide], [(x, x * 0)])
    cross("Functional.jump_to_inf.0.forward", [wide], [(floats(-INF, 1), floats(1, 1))])
    cross("Functional.growth.0.forward", [(x * 1.001, x)], [(x * 1.02, x)])
    cross("Functional.growth_from_zero.0.forward", [wide], [(x * 1.2, x)])
    cross("Functional.no_input.0.forward", [], [(x * 3, x)])
    cross("Functional.cosine_drop.0.forward", [wide], [(torch.randn(4, 5), x)])
    cross("Functional.bad_input.0.forward", [(x * 2, x)], [(x * 4, x)])
    odd = lambda dump, name: {**dump.tensor(name, x), "Max": "3.5", "Min": INF, "Mean": None, "Norm": -INF}  # noqa: E731
    cross("Functional.odd_statistics.0.forward", [wide], [(odd, x)])
    target.call("Functional.target_alone.0.forward", [x], [x, floats(NAN, 1)])
    golden.call("Functional.golden_alone.0.forward", [x], [x])
    target.call("Functional.more_in_target.0.forward", [x, x], [x, x])
    golden.call("Functional.more_in_target.0.forward", [x], [x])
    target.call("Functional.more_in_golden.0.forward", [x], [x])
    golden.call("Functional.more_in_golden.0.forward", [x, x], [x, x])
    for dump, factor in ((target, 1.001), (golden, 1.0)):
        _add_module(dump, "Module.head.Linear", x, factor)
        _add_module(dump, "Module.qkv.Linear", x, factor)


def add_files(target: Dump, golden: Dump, x: torch.Tensor) -> None:
    """Add tensors without a file, with one that is gone, with an empty name."""
    lost = lambda dump, name: dump.tensor(name, x, file=False)  # noqa: E731
    gone = lambda dump, name: {**dump.tensor(name, x, file=False), "data_name": f"{name}.pt"}  # noqa: E731
    blank = lambda dump, name: {**dump.tensor(name, x, file=False), "data_name": ""}  # noqa: E731
    for word, sides in {
        "no_file_target": (lost, x), "no_file_golden": (x, lost), "no_files": (lost, lost),
        "gone_target": (gone, x), "gone_golden": (x, gone), "blank_target": (blank, x),
    }.items():  # fmt: skip
        _both(target, golden, f"Functional.{word}.0.forward", [(x, x)], [sides], {})


def _both(
    target: Dump, golden: Dump, name: str, given: Sequence[Pair], made: Sequence[Pair], keywords: Mapping[str, Pair]
) -> None:
    for side, dump in enumerate((target, golden)):
        words = {key: pair[side] for key, pair in keywords.items()}
        dump.call(name, [pair[side] for pair in given], [pair[side] for pair in made], **words)


def _with_grad(x: torch.Tensor, grad: bool) -> Callable[[Dump, str], Any]:
    return lambda dump, name: dump.tensor(name, x, grad=grad)


def _without_grad(x: torch.Tensor) -> Callable[[Dump, str], Any]:
    return lambda dump, name: {key: each for key, each in dump.tensor(name, x).items() if key != "requires_grad"}


def _add_module(dump: Dump, name: str, x: torch.Tensor, factor: float) -> None:
    forward, backward, gradients = f"{name}.forward.0", f"{name}.backward.0", f"{name}.parameters_grad.0"
    dump.call(forward, [x], [x * factor])
    parameters = {"weight": x * factor, "bias": floats(1, 2) * factor}
    dump.data[forward]["parameters"] = {
        word: dump.tensor(f"{forward}.parameters.{word}", value) for word, value in parameters.items()
    }
    dump.data[backward] = {
        "input": [dump.tensor(f"{backward}.input.0", x * factor)],
        "output": [dump.tensor(f"{backward}.output.0", x), None],
    }
    dump.data[gradients] = {"weight": [dump.tensor(f"{gradients}.weight", x * factor)], "bias": [None]}


def write_pair(folder: Path, task: str) -> None:
    """Write one pair of dumps."""
    torch.manual_seed(0)
    x = torch.randn(4, 5)
    frameworks = ("mindspore", "pytorch") if task == "mixed" else ("pytorch", "pytorch")
    target, golden = (
        Dump(folder / task / side, task, framework)
        for side, framework in zip(("target", "golden"), frameworks, strict=True)
    )
    for name, pair in tensor_pairs(x).items():
        if task == "mixed" and any(value.dtype not in MINDSPORE for value in pair):
            continue
        if task == "md5" and pair[0].dtype in FLOAT8:
            continue
        _both(target, golden, f"Functional.{name}.0.forward", [(x, x)], [pair], {})
    if task != "mixed":
        for name, pair in argument_pairs(x).items():
            _both(target, golden, f"Functional.given_{name}.0.forward", [(x, x), pair], [(x, x)], {"key": pair})
            _both(target, golden, f"Functional.made_{name}.0.forward", [(x, x)], [pair], {})
        add_calls(target, golden, x)
    if task == "tensor":
        add_files(target, golden, x)
    target.write()
    golden.write()


def main() -> None:
    """Write all pairs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    for task in ("statistics", "tensor", "md5", "mixed"):
        write_pair(folder, task)


if __name__ == "__main__":
    main()
