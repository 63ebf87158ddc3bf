"""The inputs of a model: from files, from a recorded seed, or from the user's code; kept beside the dump."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.dumpers.base.declared_inputs import by_name, checked, drawn, files_at, in_order, read_array, with_shapes
from probe_flow.dumpers.base.runner import DeclaredInput, NotHeldError, Runner
from probe_flow.dumpers.base.source import load_attribute
from probe_flow.dumpers.dump_files import make_folder, write_array, write_bytes
from probe_flow.errors import Diagnostic, UsageError
from probe_flow.files.opening import open_bytes

Call = tuple[tuple[Any, ...], dict[str, Any]]

_DEFAULT_HIGH = 10
"""Integers are drawn from 0 to 9 unless a range is given."""

_ENDED = object()


def input_files(inputs: Mapping[str, Any]) -> list[Path]:
    """Return the files that inputs come from."""
    one = [*([inputs["path"]] if "path" in inputs else []), *(file for _, file in inputs.get("recorded") or ())]
    return [Path(file) for file in (*one, *(inputs.get("files") or ()), *(inputs.get("named") or {}).values())]


def model_calls(inputs: Mapping[str, Any], calls: int, runner: Runner) -> Iterator[Call]:
    """Yield arguments and keyword arguments of each call; every call gets copies of its own.

    A model that declares its inputs gets them by their names, each as it has to be; drawn where none are given.

    Raises:
        UsageError: PF6323 when a file, a dtype or what the user's code returns cannot be used.
    """
    if (named := runner.declared()) is not None:
        declared = with_shapes(named, runner.job.dump.get("input_shape") or {})
        for args, kwargs in _made_calls(inputs, calls, runner, declared):
            found = {**runner.own_inputs(), **by_name(args, kwargs, declared)}
            wanted = {each.name: each for each in declared}
            yield (), {name: checked(np.asarray(value), wanted[name], "it") for name, value in found.items()}
        return
    yield from _made_calls(inputs, calls, runner, None)


def _made_calls(
    inputs: Mapping[str, Any], calls: int, runner: Runner, declared: Sequence[DeclaredInput] | None
) -> Iterator[Call]:
    if "callable" in inputs:
        name = inputs["callable"]
        found = load_attribute(name, "inputs")
        made = _asked(found, name) if callable(found) else found
        if isinstance(made, Iterator):
            yield from _several(made, name, calls)
            return
    else:
        made = _given(inputs, runner) if declared is None else _declared(inputs, runner, declared)
    for _ in range(calls):
        yield _as_call(runner.copied(made))


def _several(made: Iterator[Any], name: str, calls: int) -> Iterator[Call]:
    for count in range(calls):
        each = _asked(lambda: next(made, _ENDED), name)
        if each is _ENDED:
            raise _unusable(f"`inputs` ends after {count} of {calls} calls", "set `calls` to as many as it yields")
        yield _as_call(each)


def _asked(ask: Callable[[], Any], name: str) -> Any:
    """Return what the user's code gives as inputs."""
    try:
        return ask()
    except Exception as error:  # the user's code may raise anything
        raise _unusable(
            f"`inputs: {name}` failed: {type(error).__name__}: {error}",
            "it is called without arguments; the traceback stands in the log",
        ) from error


def _given(inputs: Mapping[str, Any], runner: Runner) -> Any:
    if "files" in inputs:
        loaded = [_load(Path(file), runner) for file in inputs["files"]]
        return loaded[0] if len(loaded) == 1 else tuple(loaded)
    if "random" in inputs:
        options = inputs["random"]
        generator = np.random.Generator(np.random.PCG64(options["seed"]))
        return tuple(_drawn(tensor, generator, runner) for tensor in options["tensors"])
    return ()


def _declared(inputs: Mapping[str, Any], runner: Runner, declared: Sequence[DeclaredInput]) -> dict[str, Any]:
    """Return the inputs of a model that declares them: from files, or drawn in the order in which it has them."""
    given = not inputs.keys().isdisjoint(("path", "files", "named", "recorded"))
    if "path" in inputs:
        found = by_name(*files_at(Path(inputs["path"]), declared), declared)
    elif "recorded" in inputs:
        found = by_name(*in_order(inputs["recorded"], declared), declared)
    else:
        found = by_name(inputs.get("files") or (), inputs.get("named") or {}, declared) if given else {}
    if given:
        widens = "recorded" in inputs  # a device may store a type that is narrower than the model's
        given_ones = [each for each in declared if each.name in found]
        return {each.name: read_array(Path(found[each.name]), each, runner, widens=widens) for each in given_ones}
    options = inputs.get("random") or {}
    generator = np.random.Generator(np.random.PCG64(options.get("seed", runner.job.seed)))
    high = options.get("high")
    return {each.name: drawn(each, generator, runner, high) for each in declared if not each.has_default}


def _load(path: Path, runner: Runner) -> Any:
    try:
        if path.suffix != ".npy":
            return runner.read_inputs(path)
        with open_bytes(path) as file:
            return runner.tensor(np.load(file, allow_pickle=False), None)
    except Exception as error:  # frameworks raise errors of many kinds for a malformed file
        raise _unusable(
            f"`{path.name}` cannot be read as input: {type(error).__name__}: {str(error).splitlines()[0]}",
            runner.input_help,
        ) from error


def _drawn(tensor: Mapping[str, Any], generator: np.random.Generator, runner: Runner) -> Any:
    """Return a tensor of uniform floats in [0, 1), integers from 0 to 9 or bools, unless a range is given."""
    dtype, shape, low, high = tensor["dtype"], tuple(tensor["shape"]), tensor.get("low"), tensor.get("high")
    kind = runner.drawn(dtype)
    if kind is None:
        raise _unusable(f"{runner.framework} has no dtype `{dtype}`", "use a name such as `float32` or `int64`")
    values: Any
    if kind == "bool":
        values = generator.integers(0, 2, shape) == 1
    elif kind == "float":
        values = generator.uniform(0.0 if low is None else low, 1.0 if high is None else high, shape)
    else:
        values = generator.integers(int(low or 0), _DEFAULT_HIGH if high is None else int(high), shape)
    return runner.tensor(np.asarray(values), dtype)


def _as_call(made: Any) -> Call:
    if isinstance(made, Mapping):
        return (), dict(made)
    if isinstance(made, (tuple, list)):
        return tuple(made), {}
    return (made,), {}


def keep_inputs(call: Call, folder: Path, runner: Runner) -> list[dict[str, Any]]:
    """Write the tensors of a call as `.npy` and as raw bytes, and return what the record says of them."""
    make_folder(folder)
    facts: list[dict[str, Any]] = []
    args, kwargs = call
    named = [*((str(index), value) for index, value in enumerate(args)), *kwargs.items()]
    for number, (name, value) in enumerate(named):
        described = runner.described(value)
        if described is None:
            facts.append({"name": name, "value": repr(value)[:200]})
            continue
        dtype, shape = described
        # A name may come from a file, and must not lead out of the folder.
        stem = name if name.isidentifier() else str(number)
        entry: dict[str, Any] = {"name": name, "dtype": dtype, "shape": list(shape)}
        try:
            entry |= _kept(*runner.stored(value), folder, stem)
        except NotHeldError as error:
            entry |= {"not_kept": str(error)}
        facts.append(entry)
    return facts


def _kept(array: NDArray[Any], raw: bytes, folder: Path, stem: str) -> dict[str, str]:
    return {
        "file": write_array(folder, f"{stem}.npy", array),
        "raw": write_bytes(folder, f"{stem}.bin", raw),
        "sha256": hashlib.sha256(raw).hexdigest(),
    }


def _unusable(what: str, cure: str) -> UsageError:
    return UsageError(Diagnostic("PF6323", what, help=cure))
