"""The steps of a script that reproduces a suspect: compute one call of a dump again from its own inputs, and compare.

What the target dumped is held against what this processor makes of the target's inputs, and the same for the golden. In
float64 the call is computed once more: how far the processor's own result is from that is the rounding of the call.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path as FilePath
from typing import Any, TypeAlias

from probe_flow.apis.calls import (
    Plain,
    TensorSpec,
    Tree,
    UnusableError,
    argument_leaves,
    read_call,
    read_gradients,
    shown_path,
)
from probe_flow.apis.figures import FORMATS
from probe_flow.apis.scripts.repro_call import check_is_defined, computed, recorded_results, widened
from probe_flow.apis.scripts.repro_pairs import (
    LAST_STEP,
    as_dumped,
    gradient_pairs,
    relative_error,
    result_pairs,
    worst_element,
)
from probe_flow.apis.side import Held, Side
from probe_flow.apis.values import Source, of_files, one_line

REPRODUCED, NOT_REPRODUCED, UNDECIDED = "reproduced", "not_reproduced", "undecided"
EXIT_CODES = {NOT_REPRODUCED: 0, REPRODUCED: 1, UNDECIDED: 3}
MISTAKE = 2

ROUNDINGS = 10.0
"""How many times its own rounding a result may be off, for another processor or version adds in another order."""


@dataclass(frozen=True)
class Output:
    """One result of the call on one side.

    Args:
        side, name: of the side, and of the result.
        relative_error: L2 norm of dumped minus recomputed, over that of recomputed.
        roundings: the same as a multiple of the rounding of the call.
        from_truth: relative error of what was dumped, from float64.
        place: index of the element that is furthest off; empty where none is.
        strays: elements that are NaN or infinite on one side alone.
    """

    side: str
    name: str
    relative_error: float
    roundings: float
    from_truth: float
    place: str = ""
    strays: int = 0


Decide: TypeAlias = "Callable[[list[Output]], tuple[str, str]]"
"""Returns the status and why it is that; fills in what was measured."""

Sides: TypeAlias = "Callable[[str], tuple[Side, Side]]"
"""Returns what computes one side of the comparison, and what does so in float64."""


def reproduce(
    frozen: Mapping[str, Any], arguments: Sequence[str] | None, decide: Decide, libraries: Sequence[str]
) -> int:
    """Compute the call again and print what comes of it.

    Args:
        frozen: ``entry``, ``kind``, ``api``, ``direction``, ``sides`` (side -> direction -> entry of the dump) and
            ``folder``, which lies beside the script and has the tensors of each side; ``note`` is said of what is
            reproduced.
        arguments: of the command line.
        decide: computes it.
        libraries: whose versions the result tells.

    Returns:
        0 where the dumped result is what this processor gives too, 1 where it is not, 3 where that cannot be told; 2
        for a mistake in the command line.
    """
    parser = argparse.ArgumentParser(
        description="Compute one call of a dump again from its own inputs.",
        epilog="Exit code: 0 the same result; 1 another one; 2 a mistake in the command; 3 it cannot be told.",
    )
    parser.add_argument("--json", metavar="FILE", help="write the result there too")
    asked = parser.parse_args(arguments)
    outputs: list[Output] = []
    differs = ""
    try:
        status, why = decide(outputs)
        if status == NOT_REPRODUCED:
            differs = _difference(frozen)
    except UnusableError as error:
        status, why = UNDECIDED, error.reason
    except ModuleNotFoundError as error:
        status, why = UNDECIDED, f"this Python has no module `{error.name}`: run the script with one that has it"
    except Exception as error:  # whatever a framework raises
        status, why = UNDECIDED, f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
    why, differs, entry = one_line(why), one_line(differs), one_line(frozen["entry"])
    worst = max((each.relative_error for each in outputs if each.side == "target"), default=None)
    given = "random values in the recorded ranges" if frozen.get("statistics") else "the inputs of the dump"
    print(f"{entry}: computed again on this processor from {given}")  # noqa: T201
    if outputs:
        print(_table(outputs))  # noqa: T201
    print(f"{status.replace('_', ' ')}: {why}")  # noqa: T201
    if differs:
        print(f"before it: {differs}")  # noqa: T201
    if asked.json:
        said = {
            "entry": frozen["entry"],
            "row": frozen.get("row"),
            "status": status,
            "relative_error": _number(worst),
            "why": why,
            "differs": differs or None,
            "outputs": [{name: _number(value) for name, value in asdict(each).items()} for each in outputs],
            "versions": dict(_versions(libraries)),
        }
        try:
            FilePath(asked.json).write_text(json.dumps(said, indent=2), encoding="utf-8")
        except OSError as error:
            print(f"`{asked.json}` cannot be written: {error.strerror or error}", file=sys.stderr)  # noqa: T201
            return MISTAKE
    return EXIT_CODES[status]


def _versions(libraries: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in libraries:
        with suppress(ImportError):
            yield name, str(import_module(name).__version__)


def _number(value: Any) -> Any:
    """Return a number that JSON can hold: NaN and infinities as words."""
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


def decided(frozen: Mapping[str, Any], outputs: list[Output], sides: Sides) -> tuple[str, str]:
    """Return the status and why it is that; fill in what was measured.

    Raises:
        UnusableError: it cannot be told, and why.
    """
    found: dict[str, Output] = {}
    for name, entries in _settled(frozen, sides).items():
        mine = list(_of_side(frozen, sides, name, entries))
        if not mine:
            continue
        outputs += mine
        found[name] = max(mine, key=lambda each: _badness(each.roundings))
    target, golden = found["target"], found.get("golden")
    if not _badness(target.roundings) > ROUNDINGS:
        why = "this processor gives what was dumped, so the cause lies before the call"
        is_last = all(each.name.endswith(LAST_STEP) for each in outputs)
        return NOT_REPRODUCED, f"{why}; of its backward pass the dump has what the last step gives" if is_last else why
    if golden is not None and _badness(golden.roundings) > ROUNDINGS:
        raise UnusableError(
            f"this processor gives another result than the golden too ({golden.relative_error:.2g}): it may have a "
            "state that was not dumped, or the golden is of another version"
        )
    where = f"output {target.name}" if frozen["direction"] == "forward" else f"gradient {target.name}"
    note = f"; {frozen['note']}" if frozen.get("note") else ""
    return REPRODUCED, f"for the same inputs this processor gives another result: {where} {_off(target)}{note}"


def _off(output: Output) -> str:
    """Return how far off a result is and where, in words."""
    if output.strays:
        several = "elements, the first" if output.strays > 1 else "element"
        at = f" at {output.place}" if output.place else ""
        return f"is NaN or infinite on one side alone in {output.strays:,} {several}{at}"
    at = f", most at {output.place}" if output.place else ""
    if math.isinf(output.relative_error):
        return f"is not zero, as this processor's is{at}"
    return f"is off by {output.relative_error:.2g}, {output.roundings:.3g} times its rounding{at}"


def _settled(frozen: Mapping[str, Any], sides: Sides) -> Mapping[str, Any]:
    """Return the entries of both sides with the arguments that no dump has: the first that give the golden's result.

    Raises:
        UnusableError: none does.
    """
    if not frozen.get("guesses"):
        found: Mapping[str, Any] = frozen["sides"]
        return found
    why = ""
    for guess in frozen["guesses"]:
        guessed = {
            name: {**entries, "forward": _with_guess(entries["forward"], guess)}
            for name, entries in frozen["sides"].items()
        }
        try:
            outputs = list(_of_side(frozen, sides, "golden", guessed["golden"]))
        except Exception as error:  # what such arguments make a framework raise
            why = why or f" ({type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]})"
            continue
        if all(_badness(each.roundings) <= ROUNDINGS for each in outputs):
            return guessed
    raise UnusableError(f"no usual argument that the dumps lack gives the golden's result{why}")


def _with_guess(entry: Mapping[str, Any], guess: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry with further arguments by name."""
    return {**entry, "input_kwargs": {**entry["input_kwargs"], **guess}}


def _badness(roundings: float) -> float:
    return math.inf if math.isnan(roundings) else roundings


def _of_side(frozen: Mapping[str, Any], sides: Sides, name: str, entries: Mapping[str, Any]) -> Iterator[Output]:
    """Yield the results of one side; none where only its inputs are known, which differences are told by."""
    if not entries["forward"].get("output") and name == "golden" and frozen["direction"] == "forward":
        return
    side, precise = sides(name)
    call = read_call(frozen["kind"], frozen["api"], entries["forward"])
    check_is_defined(call)
    gradients = read_gradients(entries["backward"]) if frozen["direction"] == "backward" else None
    source = of_files(str(FilePath(__file__).resolve().parent / frozen["folder"] / name))
    dumped = [
        (place, Held(source(leaf, f"output.{shown_path(place)}"), leaf.dtype))
        for place, leaf in recorded_results(call, gradients)
    ]
    found = computed(side, call, gradients, source, str)
    try:
        wide = computed(precise, call, gradients, source, widened)
    except UnusableError:  # nothing has it in float64
        wide = computed(side, call, gradients, source, widened)
    pairs: Iterator[tuple[str, Held, int | None]] = (
        iter(result_pairs(dumped, found))
        if gradients is None
        else gradient_pairs(dumped, found, tuple(_incoming(gradients.incoming, source)))
    )
    for label, values, number in pairs:
        if number is None:
            yield Output(name, label, 0.0, 0.0, 0.0)
            continue
        mine, truth = found[number][1], wide[number][1]
        assert mine is not None
        assert truth is not None
        shaped = values.values.reshape(-1) if values.values.size == mine.values.size else values.values
        other, right = (as_dumped(each, values) for each in (mine, truth))
        error, own = relative_error(shaped, other), relative_error(other, right)
        bits = FORMATS.get(values.dtype, (0, 0))[1]
        rounding = max(own if math.isfinite(own) else 0.0, 2.0 ** -(bits + 1) if bits else 0.0)
        times = 0.0 if error == 0 else error / rounding if rounding else math.inf
        place, strays = worst_element(shaped, other, values.values.shape)
        yield Output(name, label, error, times, relative_error(shaped, right), place, strays)


def _incoming(gradients: Sequence[Tree], source: Source) -> Iterator[Held]:
    for number, leaf in enumerate(gradients):
        if isinstance(leaf, TensorSpec):
            yield Held(source(leaf, f"gradient {number}"), leaf.dtype)


def _difference(frozen: Mapping[str, Any]) -> str:
    """Return which argument, or incoming gradient, differs most between the sides; empty where that is not known."""
    sides = frozen["sides"]
    if "golden" not in sides:
        return ""
    calls = {name: read_call(frozen["kind"], frozen["api"], entries["forward"]) for name, entries in sides.items()}
    golden = dict(argument_leaves(calls["golden"]))
    found: list[tuple[float, str]] = []
    root = FilePath(__file__).resolve().parent / frozen["folder"]
    for place, leaf in argument_leaves(calls["target"]):
        other, name = golden.get(place), shown_path(place)
        if isinstance(leaf, TensorSpec) and isinstance(other, TensorSpec):
            a, b = of_files(str(root / "target"))(leaf, name), of_files(str(root / "golden"))(other, name)
            error = relative_error(a, b)
            found.append((error, f"input {name} differs from the golden's by {error:.2g}"))
        elif isinstance(leaf, Plain) and isinstance(other, Plain) and leaf.value != other.value:
            found.append((math.inf, f"argument {name} is {leaf.value!r}, in the golden {other.value!r}"))
    if frozen["direction"] == "backward":
        mine, theirs = (read_gradients(sides[name]["backward"]).incoming for name in ("target", "golden"))
        for number, (leaf, other) in enumerate(zip(mine, theirs, strict=False)):
            if isinstance(leaf, TensorSpec) and isinstance(other, TensorSpec):
                name = f"gradient {number}"
                a, b = of_files(str(root / "target"))(leaf, name), of_files(str(root / "golden"))(other, name)
                error = relative_error(a, b)
                found.append((error, f"incoming {name} differs from the golden's by {error:.2g}"))
    worst = max(found, default=(0.0, ""))
    return worst[1] if worst[0] > 0 else ""


def _table(outputs: Sequence[Output]) -> str:
    rows = [("side", "result", "dumped from computed", "times rounding", "dumped from float64")]
    rows += [
        (each.side, each.name, f"{each.relative_error:.3g}", f"{each.roundings:.3g}", f"{each.from_truth:.3g}")
        for each in outputs
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
