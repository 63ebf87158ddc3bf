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

import numpy as np

from probe_flow.apis.calls import (
    Path,
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
from probe_flow.apis.scripts.repro_call import check_is_defined, computed, fitting, recorded_results, widened
from probe_flow.apis.side import Held, Side
from probe_flow.apis.values import Source, Values, of_files

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
    worst = max((each.relative_error for each in outputs if each.side == "target"), default=None)
    given = "random values in the recorded ranges" if frozen.get("statistics") else "the inputs of the dump"
    print(f"{frozen['entry']}: computed again on this processor from {given}")  # noqa: T201
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
        return NOT_REPRODUCED, "this processor gives what was dumped, so the cause lies before the call"
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
            name: {"forward": _with_guess(entries["forward"], guess)} for name, entries in frozen["sides"].items()
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
    passed = () if gradients is None else tuple(_incoming(gradients.incoming, source))
    for label, values, number in _pairs(dumped, found, passed, is_gradient=gradients is not None):
        if number is None:
            yield Output(name, label, 0.0, 0.0, 0.0)
            continue
        mine, truth = found[number][1], wide[number][1]
        assert mine is not None
        assert truth is not None
        shaped = values.values.reshape(-1) if values.values.size == mine.values.size else values.values
        other, right = (_as_dumped(each, values) for each in (mine, truth))
        error, own = relative_error(shaped, other), relative_error(other, right)
        bits = FORMATS.get(values.dtype, (0, 0))[1]
        rounding = max(own if math.isfinite(own) else 0.0, 2.0 ** -(bits + 1) if bits else 0.0)
        times = 0.0 if error == 0 else error / rounding if rounding else math.inf
        place, strays = _worst(shaped, other, values.values.shape)
        yield Output(name, label, error, times, relative_error(shaped, right), place, strays)


def _incoming(gradients: Sequence[Tree], source: Source) -> Iterator[Held]:
    for number, leaf in enumerate(gradients):
        if isinstance(leaf, TensorSpec):
            yield Held(source(leaf, f"gradient {number}"), leaf.dtype)


def _as_dumped(held: Held, dumped: Held) -> Values:
    """Return elements in the order of the dumped ones: a transposed gradient of a matrix is turned."""
    values = held.values
    if values.shape != dumped.values.shape and values.ndim == 2 and values.T.shape == dumped.values.shape:
        values = values.T
    return values.reshape(-1)


def _pairs(
    dumped: Sequence[tuple[Path, Held]],
    found: Sequence[tuple[Path, Held | None]],
    passed: Sequence[Held],
    *,
    is_gradient: bool,
) -> Iterator[tuple[str, Held, int | None]]:
    """Yield the name of a dumped result, itself, and the number of the computed one that it is.

    Gradients stand in the order of the framework's own node, some transposed or flattened: they are found by shape, of
    several of one shape the nearest. A node that changes only the shape, as the last one of a linear of three axes
    does, gives the gradient that came in, in another shape: None in place of the number.

    Raises:
        UnusableError: none fits.
    """
    known = {place: number for number, (place, held) in enumerate(found) if held is not None}
    taken: set[int] = set()
    for place, held in dumped:
        if is_gradient:
            fits = [each for each in fitting(held.values.shape, found) if each not in taken]
            same = [each for each in fits if found[each][1].values.shape == held.values.shape]  # type: ignore[union-attr]
            fits = same or fits
            fits.sort(key=lambda each: _gap(held, found[each][1]))
        else:
            fits = [known[place]] if place in known else [known[(0,)]] if len(known) == len(dumped) == 1 else []
        if not fits and any(_is_reshaped(held, each) for each in passed):
            yield shown_path(place), held, None
            continue
        if not fits:
            raise UnusableError(
                f"the call gives no result of shape {list(held.values.shape)}, as {shown_path(place)} has in the dump"
            )
        taken.add(fits[0])
        yield shown_path(place), held, fits[0]


def _is_reshaped(one: Held, other: Held) -> bool:
    a, b = one.values.reshape(-1), other.values.reshape(-1)
    return a.dtype == b.dtype and bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"))


def _gap(dumped: Held, other: Held | None) -> float:
    assert other is not None
    return relative_error(dumped.values.reshape(-1), _as_dumped(other, dumped))


def relative_error(one: Values, other: Values) -> float:
    """Return the L2 norm of a difference over that of the second; infinite where NaN or infinities disagree.

    Elements that are the same infinity, or NaN, on both sides do not count. Integers and booleans count as numbers.
    """
    with np.errstate(all="ignore"):
        a, b = (
            np.asarray(each).reshape(-1).astype(np.complex128 if np.iscomplexobj(each) else np.float64)
            for each in (one, other)
        )
        if a.shape != b.shape:
            return math.inf
        alike = (a == b) | (np.isnan(a) & np.isnan(b))
        finite = np.isfinite(a) & np.isfinite(b)
        if not (finite | alike).all():
            return math.inf
        size = float(np.linalg.norm(b[finite]))
        gap = float(np.linalg.norm(a[finite] - b[finite]))
    return 0.0 if gap == 0 else gap / size if size else math.inf


def _worst(one: Values, other: Values, shape: Sequence[int]) -> tuple[str, int]:
    """Return the index of the element that is furthest off, and how many are not finite on one side alone.

    Args:
        one, other: elements in one order.
        shape: of the first.
    """
    a, b = (each.reshape(-1).astype(np.complex128 if np.iscomplexobj(each) else np.float64) for each in (one, other))
    if a.size != b.size or not a.size:
        return "", 0
    with np.errstate(all="ignore"):
        alike = (a == b) | (np.isnan(a) & np.isnan(b))
        stray = ~(alike | (np.isfinite(a) & np.isfinite(b)))
        gap = np.where(alike, 0.0, np.where(stray, np.inf, np.abs(a - b)))
    if alike.all():
        return "", 0
    place = [int(each) for each in np.unravel_index(int(np.argmax(gap)), tuple(shape))]
    return str(place) if place else "", int(stray.sum())


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
