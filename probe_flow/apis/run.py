"""Run one call: the tested side in the recorded element types, the benchmark in higher precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from probe_flow.apis.acc_check import ByRounding, Judgement, judge, rounded
from probe_flow.apis.calls import (
    FLOATS,
    Call,
    DeviceArgument,
    DtypeName,
    Gradients,
    Path,
    Plain,
    TensorSpec,
    UnusableError,
    argument_leaves,
    leaves,
    shown_path,
    with_leaves,
)
from probe_flow.apis.pytorch_rules import (
    as_torch_takes,
    autocast_type,
    class_type,
    of_known_classes,
    raised,
    rounded_input,
    with_known_mask,
)
from probe_flow.apis.side import Held, Result, Side, flat_results, of_what_has_gradients, paired, plain
from probe_flow.apis.values import Source

Judge: TypeAlias = "Callable[[Result, Result], Judgement]"
"""Judges a tested result by its benchmark."""

JudgeOfTwo: TypeAlias = "Callable[[Result, Result, Result | None], Judgement]"
"""The same, with what another device makes of the call; None where that cannot run it."""

BENCHMARKS = ("float64_rounded", "float64", "raise_one", "same")
"""Precisions of the benchmark: float64 with results rounded to the tested type, float64, the next wider, the same."""

_RAISED: Mapping[str, str] = MappingProxyType(
    {"float16": "float32", "bfloat16": "float32", "float32": "float64", "complex64": "complex128"}
    | dict.fromkeys(("float8_e4m3fn", "float8_e5m2"), "float32")
)
_COPIES = 6
"""Tensors of float64 that each element of an argument may take: made, held, both sides, gradients."""


@dataclass(frozen=True)
class How:
    """How calls are checked.

    Args:
        benchmark: one of `BENCHMARKS`.
        judge: judges each result.
        memory_bytes: what the tensors of a call may take; None = no limit.
        judge_of_two: judges each result in its place, where there is another device.
        is_pytorch: whether calls are those of PyTorch and run as `pytorch_rules` has it. Results that are None count
            too then, as do arguments without a gradient; tables number results by it.
        counts_zeros: whether the judge knows a result of a dropout by its number of zeros.
        rounding: what judges wrong results once more; None where the tables know no status for them.
    """

    benchmark: str = BENCHMARKS[0]
    judge: Judge = judge
    judge_of_two: JudgeOfTwo | None = None
    memory_bytes: int | None = None
    is_pytorch: bool = False
    counts_zeros: bool = False
    rounding: ByRounding | None = None


@dataclass(frozen=True)
class Checked:
    """One result of a call with its benchmark.

    Args:
        tested, benchmark: the two.
        judgement: what became of it.
    """

    tested: Result
    benchmark: Result
    judgement: Judgement


@dataclass(frozen=True)
class Direction:
    """What became of one direction of a call.

    Args:
        checked: its results; none where it was not checked.
        skipped: why it was not checked.
        ran: what ran on the tested side.
        inputs: arguments of the tested side by their places; filled for a direction that fails.
        incoming: gradients of the results that the tested side got; filled likewise.
        fallback: what ran in place of the API itself, and why; empty where that ran.
    """

    checked: tuple[Checked, ...] = ()
    skipped: UnusableError | None = None
    ran: str = ""
    inputs: Mapping[Path, Held] = field(default_factory=dict)
    incoming: Sequence[Held | None] = ()
    fallback: str = ""

    @property
    def is_right(self) -> bool:
        """Whether it was checked and every result passes."""
        return self.skipped is None and all(each.judgement.is_right for each in self.checked)


@dataclass(frozen=True)
class _Values:
    """Tensors of a call, on one side or outside any.

    Args:
        arguments: by their places; None for what is no tensor.
        gradients: of its results; None where there is none.
    """

    arguments: Mapping[Path, Any]
    gradients: Sequence[Any]

    def each(self, change: Callable[[Any], Any]) -> _Values:
        """Return what becomes of each tensor."""
        return _Values(
            {place: change(value) for place, value in self.arguments.items() if value is not None},
            [None if value is None else change(value) for value in self.gradients],
        )


class Runner:
    """Runs a call on both sides.

    Args:
        tested, benchmark: the sides; a dump with tensors needs no tested one.
        source: of the elements of its arguments.
        how: how it is checked.
        other: another device in the recorded types, whose errors those of the tested side are held against.
    """

    def __init__(
        self, tested: Side | None, benchmark: Side, source: Source, how: How, other: Side | None = None
    ) -> None:
        self._tested, self._benchmark, self._source, self._how = tested, benchmark, source, how
        self._other = other

    def run(self, call: Call, gradients: Gradients | None = None) -> Direction:
        """Run the call; with the recorded gradients of its results, differentiate it too and check that.

        What a framework raises is the reason why the call was not checked.
        """
        try:
            return self._run(call, gradients)
        except UnusableError as error:
            return Direction(skipped=error)
        except Exception as error:  # whatever a framework raises
            words = f"{type(error).__name__}: {error}".strip()
            return Direction(skipped=UnusableError(words))

    def _run(self, call: Call, gradients: Gradients | None) -> Direction:
        self._check_size(call, gradients)
        if call.is_random and not (self._how.counts_zeros and "dropout" in call.word):
            raise UnusableError("its result is random", is_expected=True)
        call = as_torch_takes(call) if self._how.is_pytorch else of_known_classes(call)
        function, _ = self._benchmark.find(call.kind, call.api)
        is_gradient = gradients is not None
        values = _Values(
            {place: self._argument(call, leaf, place) for place, leaf in argument_leaves(call)},
            [self._gradient(leaf, number) for number, leaf in enumerate(gradients.known if gradients else ())],
        )
        ran = "values of the dump"
        if self._tested is None:
            tested = self._of_dump(call, gradients)
        else:
            tested_function, name = self._tested.find(call.kind, call.api)
            # What the tested side makes of the values is what both get: it rounds them to the recorded types.
            if self._how.is_pytorch and (cast := autocast_type(call)) is not None:
                tested_function = self._tested.autocast(tested_function, cast)
            tensors = values.each(self._tested.tensor)
            values = tensors.each(self._tested.hold)
            tested = self._outcome(self._tested, tested_function, call, tensors, str, is_gradient=is_gradient)
            ran = f"{name} of {self._tested.name}"

        def wider(dtype: str) -> str:
            return self._benchmark_dtype(call, dtype)

        def benchmark_of(values: _Values) -> list[Result]:
            tensors = values.each(lambda held: self._benchmark.tensor(Held(held.values, wider(held.dtype))))
            return self._outcome(self._benchmark, function, call, tensors, wider, is_gradient=is_gradient)

        benchmark = benchmark_of(values)
        others = self._others(call, values, is_gradient=is_gradient)
        by_place = gradients is not None and (self._tested is not None or _gradient_places(call, gradients) is not None)
        if not self._how.is_pytorch:
            benchmark = _with_zeros(benchmark, tested) if by_place else benchmark
            tested, benchmark = _trimmed(tested, gradients), _trimmed(benchmark, gradients)
        elif is_gradient:
            tested, benchmark = _of_every_tensor(tested, call), _of_every_tensor(benchmark, call)
        if by_place and self._tested is None:
            # A gradient that the dump lacks is one that the model had no need of.
            recorded = {each.place for each in tested}
            benchmark = [each for each in benchmark if each.place in recorded]
        checked = self._judged(tested, benchmark, others, by_place=by_place)
        if self._how.rounding is not None and not call.is_random:
            checked = _judged_by_rounding(self._how.rounding, checked, values, benchmark_of)
        if all(each.judgement.is_right for each in checked):
            return Direction(checked, ran=ran)
        return Direction(checked, ran=ran, inputs=values.arguments, incoming=values.gradients)

    def _others(self, call: Call, values: _Values, *, is_gradient: bool) -> Mapping[Path, Result]:
        """Return what the other device makes of the call, by place; nothing where it cannot."""
        if self._other is None or self._how.judge_of_two is None:
            return {}
        try:
            function, _ = self._other.find(call.kind, call.api)
            tensors = values.each(self._other.tensor)
            found = self._outcome(self._other, function, call, tensors, str, is_gradient=is_gradient)
        except Exception:  # whatever a framework raises: the judge knows what to do without
            return {}
        return {each.place: each for each in found}

    def _check_size(self, call: Call, gradients: Gradients | None) -> None:
        trees = [call.args, dict(call.kwargs), call.results, *((gradients.incoming,) if gradients else ())]
        needed = (
            8 * _COPIES * sum(leaf.numel for tree in trees for _, leaf in leaves(tree) if isinstance(leaf, TensorSpec))
        )
        limit = self._how.memory_bytes
        if limit is not None and needed > limit:
            raise UnusableError(f"its tensors take {needed:,} bytes, and there are {limit:,}")

    def _made(self, leaf: object, place: Path, word: str) -> Held | None:
        if not isinstance(leaf, TensorSpec):
            return None
        return Held(self._source(leaf, f"{word}.{shown_path(place)}"), leaf.dtype)

    def _argument(self, call: Call, leaf: object, place: Path) -> Held | None:
        made = self._made(leaf, place, "input")
        if made is None or not isinstance(leaf, TensorSpec):
            return None
        values = with_known_mask(call, place[0], leaf, made.values)
        return Held(rounded_input(call, leaf, values) if self._how.is_pytorch else values, made.dtype)

    def _gradient(self, leaf: object, number: int) -> Held | None:
        if isinstance(leaf, tuple | dict):
            raise UnusableError("a gradient of several tensors was recorded as one")
        return self._made(leaf, (number,), "gradient")

    def _benchmark_dtype(self, call: Call, dtype: str) -> str:
        if self._how.benchmark == "same" or call.asks_type:
            return class_type(call, dtype)
        known = _RAISED.get(dtype, dtype)
        if self._how.benchmark == "raise_one" or dtype not in FLOATS:
            return raised(call, dtype, known) if self._how.is_pytorch else class_type(call, known)
        return "float64"

    def _outcome(
        self,
        side: Side,
        function: Any,
        call: Call,
        tensors: _Values,
        dtype: Callable[[str], str],
        *,
        is_gradient: bool,
    ) -> list[Result]:
        """Return what a side makes of the call: its results, or the gradients of its arguments.

        ``dtype`` gives the element type that stands for one among the arguments.
        """

        def value(place: Path, leaf: object) -> Any:
            if isinstance(leaf, TensorSpec):
                return tensors.arguments[place]
            if isinstance(leaf, DeviceArgument):
                return side.device
            if isinstance(leaf, DtypeName):
                return side.dtype(dtype(leaf.dtype))
            assert isinstance(leaf, Plain)
            return leaf.value

        args, kwargs = with_leaves(call.args, value), with_leaves(dict(call.kwargs), value)
        if is_gradient:
            unwanted = {place for place, leaf in argument_leaves(call) if not getattr(leaf, "has_gradient", True)}
            parts = function, args, kwargs
            if not call.is_in_place:
                parts = of_what_has_gradients(function, call, args, kwargs)
            found = side.gradients(*parts, tensors.gradients, copies=call.is_in_place)
            found = [(place, each) for place, each in found if place not in unwanted]
        else:
            found = flat_results(side.call(function, args, kwargs))
        return [_result(side, place, each) for place, each in found]

    def _of_dump(self, call: Call, gradients: Gradients | None) -> list[Result]:
        """Return the results that the dump holds, gradients in the places of their arguments where these are known."""
        if gradients is None:
            word, places, trees = "output", None, call.results
        else:
            word, places, trees = "gradient", _gradient_places(call, gradients), gradients.results
        return [
            Result(
                place if places is None else (*places[int(place[0])], *place[1:]),
                self._made(leaf, place, word) if isinstance(leaf, TensorSpec) else _plain_of(leaf),
            )
            for place, leaf in leaves(tuple(trees))
        ]

    def _judged(
        self, tested: list[Result], benchmark: list[Result], others: Mapping[Path, Result], *, by_place: bool
    ) -> tuple[Checked, ...]:
        pairs = paired(tested, benchmark, by_place=by_place)
        if all(one.value is None and other.value is None for one, other in pairs):
            raise UnusableError("it has no result that could be compared", is_expected=True)
        found = []
        for one, other in pairs:
            if self._how.benchmark == "float64_rounded" and isinstance(other.value, Held):
                other = Result(other.place, rounded(other.value, one.dtype))
            if self._how.judge_of_two is not None:
                judgement = self._how.judge_of_two(one, other, others.get(other.place))
            else:
                judgement = self._how.judge(one, other)
            found.append(Checked(one, other, judgement))
        return tuple(found)


def _judged_by_rounding(
    by: ByRounding,
    checked: tuple[Checked, ...],
    values: _Values,
    benchmark_of: Callable[[_Values], list[Result]],
) -> tuple[Checked, ...]:
    """Return the results, those doubtful that are wrong by no more than rounding the inputs makes."""
    wrong = [each.tested for each in checked if not (each.judgement.is_right or each.judgement.is_doubtful)]
    if not wrong:
        return checked
    arguments = by.moved([*values.arguments.values()], wrong)
    moved = _Values(dict(zip(values.arguments, arguments, strict=True)), by.moved(values.gradients, wrong))
    found = {each.place: each for each in benchmark_of(moved)}
    return tuple(
        replace(each, judgement=by.judged(each.judgement, each.tested, each.benchmark, found)) for each in checked
    )


def _result(side: Side, place: Path, value: Any) -> Result:
    held = side.hold(value)
    return Result(place, plain(value) if held is None else held)


def _gradient_places(call: Call, gradients: Gradients) -> list[Path] | None:
    """Return the places of the arguments whose gradients a dump records: its tensors outside of lists.

    None where it has none or another number of them, so that only their order is known.
    """
    places: list[Path] = [(number,) for number, leaf in enumerate(call.args) if isinstance(leaf, TensorSpec)]
    return places if 0 < len(places) == len(gradients.results) else None


def _plain_of(leaf: object) -> object:
    return leaf.value if isinstance(leaf, Plain) else leaf


def _trimmed(results: list[Result], gradients: object) -> list[Result]:
    """Return the results without None, and of gradients only those of floats, as the result tables count them."""
    kept = [each for each in results if each.value is not None]
    return kept if gradients is None else [each for each in kept if each.dtype in FLOATS]


def _with_zeros(benchmark: list[Result], tested: list[Result]) -> list[Result]:
    """Return gradients of torch with zeros where it has none and MindSpore, which always has one, gives a tensor."""
    held = {each.place: each.value for each in tested}

    def zeros(place: Path) -> Held | None:
        value = held.get(place)
        return Held(np.zeros_like(value.values), value.dtype) if isinstance(value, Held) else None

    return [each if each.value is not None else Result(each.place, zeros(each.place)) for each in benchmark]


def _of_every_tensor(results: list[Result], call: Call) -> list[Result]:
    """Return the gradient of each tensor of the arguments, None where there is none."""
    known = {each.place: each for each in results}
    places = [place for place, leaf in argument_leaves(call) if isinstance(leaf, TensorSpec)]
    return [known.get(place, Result(place, None)) for place in places]
