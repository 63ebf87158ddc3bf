"""What a script of `op_generate` does: make the inputs of one API, run it on a device and in higher precision, compare.

The rows of its tables, their names and formulas are those of the scripts that `op_generate` of msprobe 1.2.1 wrote; the
rules of the verdicts are those of its manual.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from pathlib import Path as FilePath
from typing import Any

from probe_flow.apis.acc_check import Figures, Judgement, is_one_type
from probe_flow.apis.calls import FLOATS, Call, Gradients, TensorSpec, UnusableError, leaves, read_call, read_gradients
from probe_flow.apis.mindspore_side import MindSporeSide
from probe_flow.apis.op_figures import ERROR, OP_GENERATE, PASS, ROWS, STANDARD_NAMES, verdicts
from probe_flow.apis.run import Checked, Direction, How, Runner
from probe_flow.apis.scripts.op_tables import write_tables
from probe_flow.apis.side import Held, Result, Side
from probe_flow.apis.standards import Standard, is_eight_bits, standard_figures, standard_of
from probe_flow.apis.torch_side import TorchSide
from probe_flow.apis.values import Values, of_files, one_line, per_slot

OK, WRONG, MISTAKE, INCOMPLETE = 0, 1, 2, 3
STATUSES = {OK: "no_error", WRONG: "error", INCOMPLETE: "undecided"}


@dataclass(frozen=True)
class Settings:
    """What is frozen in a script.

    Args:
        framework: ``pytorch`` or ``mindspore``.
        kind, api: of the API: ``Functional``, ``softmax``.
        entries: ``forward`` and maybe ``backward`` -> its entry in the dump.
        propagation: which direction runs.
        is_random: whether inputs are random, else they are the tensors of the dump.
        seed: of random inputs.
        iterations: how often it runs, with other random inputs each time.
        folder: that the tensor files are in.
        name: of the call, ``Functional.softmax.3``.
    """

    framework: str
    kind: str
    api: str
    entries: Mapping[str, Any]
    propagation: str = "forward"
    is_random: bool = True
    seed: int = 1234
    iterations: int = 1
    folder: str = "."
    name: str = ""


def main(frozen: Mapping[str, Any], arguments: Sequence[str] | None = None) -> int:
    """Run the API and print what comes of it.

    Args:
        frozen: the settings, by their names in `Settings`.
        arguments: of the command line.

    Returns:
        0; 1 where a verdict is ``error``; 3 where the API could not be run.
    """
    settings = Settings(**frozen)
    asked = _parser(settings).parse_args(arguments)
    try:
        reference = _outputs_of(asked.reference) if asked.reference else {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"{asked.reference} is no result of such a script: {error}", file=sys.stderr)  # noqa: T201
        return MISTAKE
    try:
        runs = list(_run(settings, asked.device))
    except (UnusableError, ImportError) as error:
        print(f"ERROR: {one_line(str(error))}")  # noqa: T201
        return _written(asked.json, INCOMPLETE, str(error), [])
    said: list[dict[str, Any]] = []
    for number, direction in enumerate(runs):
        print(f"iter: {number}:")  # noqa: T201
        print("Compare result:")  # noqa: T201
        if direction.skipped is not None:
            print(f"ERROR: {one_line(str(direction.skipped))}")  # noqa: T201
        is_list = settings.propagation == "backward" or len(direction.checked) > 1
        for index, checked in enumerate(direction.checked):
            if is_list:
                print(f"index {index}:")  # noqa: T201
            found = _output(settings, checked, reference.get((number, index)))
            said.append({"iteration": number, "index": index, **found})
            print(_shown(found))  # noqa: T201
    print("Compare finished.")  # noqa: T201
    if settings.framework == "mindspore":
        try:
            for path in write_tables(settings.name or settings.api, settings.propagation, runs):
                print(f"written: {path}")  # noqa: T201
        except OSError as error:
            print(f"the tables are not written: {error}", file=sys.stderr)  # noqa: T201
    wrong = [name for each in said for name, verdict in each["verdicts"].items() if verdict == ERROR]
    skipped = next((direction.skipped for direction in runs if direction.skipped is not None), None)
    code = INCOMPLETE if skipped is not None else WRONG if wrong else OK
    why = (
        str(skipped)
        if skipped is not None
        else (f"{len(wrong)} verdicts are `error`" if wrong else "no verdict is `error`")
    )
    return _written(asked.json, code, why, said)


def _written(file: str | None, code: int, why: str, outputs: Sequence[Mapping[str, Any]]) -> int:
    """Write what was found as JSON, where that is asked for; return the exit code."""
    if file:
        content = {"status": STATUSES[code], "why": why, "outputs": outputs}
        try:
            FilePath(file).write_text(json.dumps(content, indent=2, ensure_ascii=False), encoding="utf-8")
        except OSError as error:
            print(f"`{file}` cannot be written: {error.strerror or error}", file=sys.stderr)  # noqa: T201
            return MISTAKE
    return code


def _parser(settings: Settings) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=f"Run {settings.api} ({settings.propagation}) alone and compare it with higher precision.",
        epilog="Exit code: 0; 1 a verdict is `error`; 2 a mistake in the command; 3 it could not be run.",
    )
    parser.add_argument("--device", help="cpu, npu:0, cuda:0; default: NPU, else GPU, else the processor")
    parser.add_argument("--json", metavar="FILE", help="write the figures and verdicts there")
    parser.add_argument(
        "--reference", metavar="FILE", help="such a file of another device, whose errors these are held against"
    )
    return parser


# -- running


def _run(settings: Settings, device: str | None) -> Iterator[Direction]:
    tested, benchmark = _tested_side(settings.framework, device), TorchSide()
    call = read_call(settings.kind, settings.api, settings.entries["forward"])
    gradients = None
    if settings.propagation == "backward":
        entry = settings.entries["backward"]
        incoming = entry.get("grad_input")  # as older collectors call it
        gradients = read_gradients(entry if incoming is None else {**entry, "input": incoming})
    draw = _seeded(settings)
    for number in range(settings.iterations if settings.is_random else 1):
        how = How("raise_one", judge=partial(_judge, settings.api, _input_dtype(call, gradients)))
        yield Runner(tested, benchmark, draw(number), how).run(call, gradients)


def _tested_side(framework: str, device: str | None) -> Side:
    if framework == "mindspore":
        if device is not None and not device.partition(":")[2].isdecimal() and device != "cpu":
            raise UnusableError(f"MindSpore runs on the device that it is built for, not on `{device}`")
        return MindSporeSide(int(device.partition(":")[2] or 0) if device is not None else 0)
    torch: Any = import_module("torch")
    if device is None:
        device = "cpu"
        if torch.cuda.is_available():
            device = "cuda:0"
        try:
            if import_module("torch_npu").npu.is_available():
                device = "npu:0"
        except ImportError:
            pass
    elif device.startswith("npu"):
        import_module("torch_npu")
    return TorchSide(device, is_benchmark=device == "cpu")


def _input_dtype(call: Call, gradients: Gradients | None) -> str:
    """Return an element type of eight bits where an input has one, for it decides the standard."""
    trees = (call.args, dict(call.kwargs), gradients.incoming if gradients else ())
    found = (leaf.dtype for tree in trees for _, leaf in leaves(tree) if isinstance(leaf, TensorSpec))
    return next(filter(is_eight_bits, found), "float32")


def _seeded(settings: Settings) -> Any:
    """Return what gives the source of values of an iteration; torch draws in one sequence over all of them."""
    if not settings.is_random:
        return lambda _number: of_files(settings.folder)
    if settings.framework == "mindspore":
        return lambda number: per_slot(f"{settings.api}\0{settings.seed + number}")
    torch: Any = import_module("torch")
    torch.manual_seed(settings.seed)
    return lambda number: partial(_drawn, torch, settings, number)


def _drawn(torch: Any, settings: Settings, number: int, spec: TensorSpec, place: str) -> Values:
    """Return values as msprobe's scripts draw them, so that the same seed gives the same inputs.

    Ranges that are not finite, or of types that torch does not draw, are filled as pre-checks do.
    """
    low, high, dtype = spec.low, spec.high, getattr(torch, spec.dtype, None)
    is_float = spec.dtype in FLOATS and not is_eight_bits(spec.dtype)
    is_drawn = dtype is not None and (is_float or spec.dtype.startswith(("bool", "int", "uint8")))
    if not (is_drawn and _is_finite(low) and _is_finite(high)):
        return per_slot(f"{settings.api}\0{settings.seed + number}")(spec, place)
    assert isinstance(low, bool | int | float)
    assert isinstance(high, bool | int | float)
    if spec.dtype == "bool":
        drawn = torch.gt(torch.randint(int(low), int(high) + 1, spec.shape), 0)
    else:
        if is_float:
            drawn = torch.rand(spec.shape, dtype=dtype) * (high - low) + low
        else:
            low, high = int(low), int(high)
            drawn = torch.randint(low, high + 1, spec.shape, dtype=dtype)
        if drawn.numel():
            flat = drawn.reshape(-1)
            flat[0], flat[-1] = low, high
            drawn = flat.reshape(spec.shape)
    held = TorchSide().hold(drawn)
    assert held is not None
    return held.values


def _is_finite(bound: object) -> bool:
    return isinstance(bound, bool | int | float) and math.isfinite(bound)


# -- judging


def _judge(api: str, input_dtype: str, tested: Result, benchmark: Result) -> Judgement:
    """Return the figures of the standard that judges an output; one run alone passes where nothing is to be equal."""
    one, other = tested.value, benchmark.value
    if not isinstance(one, Held) or not isinstance(other, Held):
        is_equal = type(one) is type(other) and (one == other or is_one_type(one, other))
        return Judgement(is_equal, Figures(), "" if is_equal else f"it is {one!r}, the benchmark's is {other!r}")
    if one.values.shape != other.values.shape:
        return Judgement(
            is_right=False,
            figures=Figures(),
            message=f"shape {list(one.values.shape)}, the benchmark's is {list(other.values.shape)}",
        )
    standard = standard_of(api, one.dtype, input_dtype)
    if standard is None or standard is Standard.ACCUMULATIVE:
        return Judgement(is_right=True, figures=Figures(), message=f"no standard judges {one.dtype}")
    figures = asdict(standard_figures(standard, one, other, OP_GENERATE))
    named = {row.figure: figures[row.figure] for row in ROWS[standard] if figures[row.figure] is not None}
    return Judgement(is_right=True, figures=Figures(), message=standard.value, named=named)


def _output(settings: Settings, checked: Checked, reference: Mapping[str, float] | None) -> dict[str, Any]:
    """Return what is said of an output: shape, types, standard, figures by their names, verdicts by theirs."""
    one, other, judgement = checked.tested.value, checked.benchmark.value, checked.judgement
    if not isinstance(one, Held) or not isinstance(other, Held) or not judgement.named:
        verdict = {"": PASS if judgement.is_right else ERROR}
        return {"message": judgement.message, "figures": {}, "verdicts": verdict}
    standard = Standard(judgement.message)
    prefix = "torch." if settings.framework == "pytorch" else ""
    found = judgement.named
    return {
        "shape": list(other.values.shape),
        "dtypes": [f"{prefix}{one.dtype}", f"torch.{other.dtype}"],
        "standard": STANDARD_NAMES[standard],
        "figures": {row.name: found[row.figure] for row in ROWS[standard] if row.figure in found},
        "verdicts": dict(verdicts(standard, one.dtype, found, _by_figure(standard, reference))),
    }


def _by_figure(standard: Standard, reference: Mapping[str, float] | None) -> Mapping[str, float] | None:
    if reference is None:
        return None
    return {row.figure: reference[row.name] for row in ROWS[standard] if row.name in reference}


def _outputs_of(file: str) -> dict[tuple[int, int], Mapping[str, float]]:
    """Return the figures that another run of a script wrote, by iteration and output.

    Raises:
        OSError, ValueError, KeyError, TypeError: it cannot be read, or is none.
    """
    content = json.loads(FilePath(file).read_text(encoding="utf-8"))
    return {
        (int(each["iteration"]), int(each["index"])): {name: float(value) for name, value in each["figures"].items()}
        for each in content["outputs"]
    }


# -- showing


def _shown(found: Mapping[str, Any]) -> str:
    """Return a table with a frame; of what has no figures a line."""
    if not found["figures"]:
        verdict = found["verdicts"][""]
        if verdict == PASS:
            return f"PASS: {found['message'] or 'out_device and out_bench equals.'}"
        return f"ERROR: out_device and out_bench is not equal! {found['message']}"
    rows = [
        ("Shape", f"torch.Size({found['shape']})" if found["dtypes"][0].startswith("torch.") else str(found["shape"])),
        ("Dtype of out_device", found["dtypes"][0]),
        ("Dtype of out_bench", found["dtypes"][1]),
        ("Compare Standard", found["standard"]),
        *((name, repr(value)) for name, value in found["figures"].items()),
        *found["verdicts"].items(),
    ]
    return _grid([("Metric", "Value"), *rows])


def _grid(rows: Sequence[tuple[str, str]]) -> str:
    widths = [max(_width(row[column]) for row in rows) for column in range(2)]
    lines = []
    for number, row in enumerate(rows):
        cells = " | ".join(text + " " * (width - _width(text)) for text, width in zip(row, widths, strict=True))
        lines += [f"| {cells} |", "+" + "+".join(("=" if number == 0 else "-") * (width + 2) for width in widths) + "+"]
    return "\n".join(["+" + "+".join("-" * (width + 2) for width in widths) + "+", *lines])


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes: Chinese characters take two."""
    return sum(2 if ord(char) > 0x2E7F else 1 for char in text)
