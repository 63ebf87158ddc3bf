"""Dumps of small made-up programs, for matching by structure: modules, calls, backward calls, statistics from seeds."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HIDDEN = 8
Value = dict[str, Any]


def tensor(shape: tuple[int, ...], seed: object, *, noise: float = 0.0) -> Value:
    """A tensor with statistics drawn from a seed; noise changes them by that share."""
    drawn = random.Random(str(seed))
    factor = 1.0 + noise * drawn.uniform(0.2, 1.0)
    high, low = drawn.uniform(0.5, 3.0), drawn.uniform(-3.0, -0.5)
    size = 1
    for dim in shape:
        size *= dim
    statistics = {
        "Max": high,
        "Min": low,
        "Mean": drawn.uniform(-0.2, 0.2),
        "Norm": drawn.uniform(0.8, 1.2) * size**0.5,
    }
    return {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": list(shape),
        **{name: value * factor for name, value in statistics.items()},
        "requires_grad": True,
    }


class Program:
    """Writes down what a program does: forward calls as they complete, then the backward pass in reverse.

    Args:
        noise: share by which all values differ from those of the same program without noise.
    """

    def __init__(self, *, noise: float = 0.0) -> None:
        self.noise = noise
        self.data: dict[str, Value] = {}
        self.construct: dict[str, str | None] = {}
        self._stack: list[str] = []
        self._calls: dict[str, int] = {}
        self._backward: list[tuple[str, str | None, Value]] = []
        self.place = 0

    def tensor(self, shape: tuple[int, ...], seed: object) -> Value:
        """A tensor of this program."""
        return tensor(shape, seed, noise=self.noise)

    def hidden(self) -> Value:
        """The next activation."""
        self.place += 1
        return self.tensor((4, HIDDEN), f"hidden {self.place}")

    def call(self, api: str, *inputs: Value, output: Value | None = None) -> None:
        """One call of an API."""
        number = self._number(api)
        made = output or self.hidden()
        entry = {"input_args": list(inputs), "input_kwargs": {}, "output": [made]}
        self._add(f"{api}.{number}.forward", entry)
        gradient = {"input": [made], "output": [given for given in inputs if given["type"] == "torch.Tensor"]}
        self._backward.append((f"{api}.{number}.backward", self._outer("backward"), gradient))

    @contextmanager
    def module(
        self, path: str, kind: str, parameters: Mapping[str, Value] | None = None, *, given: Value | None = None
    ) -> Iterator[None]:
        """A module around what is called inside; it reads the next activation, or what is given."""
        name = f"Module.{path}.{kind}"
        number = self._number(name)
        first = given or self.hidden()
        self._stack.append(f"{name}.DIRECTION.{number}")
        at = len(self._backward)
        yield
        self._stack.pop()
        entry = {
            "input_args": [first],
            "input_kwargs": {},
            "parameters": dict(parameters or {}),
            "output": [self.hidden()],
        }
        self._add(f"{name}.forward.{number}", entry)
        # In reverse, the module completes behind what it holds.
        self._backward.insert(
            at, (f"{name}.backward.{number}", self._outer("backward"), {"input": [first], "output": [first]})
        )
        if parameters:
            gradients = {word: [value] for word, value in parameters.items()}
            self._backward.insert(at, (f"{name}.parameters_grad.{number}", None, gradients))

    def linear(
        self,
        path: str,
        *,
        kind: str = "Linear",
        seed: object = None,
        shape: tuple[int, int] = (HIDDEN, HIDDEN),
        given: Value | None = None,
    ) -> None:
        """A module `Linear` with its call."""
        weight = self.tensor(shape, f"weight {seed or path}")
        bias = self.tensor(shape[:1], f"bias {seed or path}")
        with self.module(path, "Linear", {"weight": weight, "bias": bias}, given=given):
            self.call("Functional.linear", given or self.hidden(), weight, bias)

    def write(self, folder: Path, *, backward: bool = True) -> Path:
        """Write dump.json and construct.json; return the folder."""
        data, construct = dict(self.data), dict(self.construct)
        for entry, caller, value in reversed(self._backward) if backward else ():
            data[entry] = value
            if ".parameters_grad." not in entry:
                construct[entry] = caller
        return write_dump(
            folder, {"task": "statistics", "level": "mix", "framework": "pytorch", "data": data}, construct
        )

    def _add(self, entry: str, value: Value) -> None:
        self.data[entry] = value
        self.construct[entry] = self._outer("forward")

    def _outer(self, direction: str) -> str | None:
        return self._stack[-1].replace("DIRECTION", direction) if self._stack else None

    def _number(self, name: str) -> int:
        self._calls[name] = self._calls.get(name, -1) + 1
        return self._calls[name]


def write_dump(folder: Path, dump: Mapping[str, Any], construct: Mapping[str, Any] | None) -> Path:
    """Write a dump folder."""
    place = folder / "step0" / "proc1"
    place.mkdir(parents=True, exist_ok=True)
    (place / "dump.json").write_text(json.dumps(dump), encoding="utf-8")
    if construct is not None:
        (place / "construct.json").write_text(json.dumps(construct), encoding="utf-8")
    return folder


def layer(program: Program, path: str, *, seed: object, extra: str | None = None) -> None:
    """A pre-norm layer: norm, three projections, two matrix products, output, residual sum."""
    with program.module(path, "Layer"):
        weight = program.tensor((HIDDEN,), f"norm {seed}")
        with program.module(f"{path}.norm", "LayerNorm", {"weight": weight}):
            program.call("Functional.layer_norm", program.hidden(), weight)
        with program.module(f"{path}.attn", "Attention"):
            for word in ("q", "k", "v"):
                program.linear(f"{path}.attn.{word}", seed=f"{word} {seed}")
            program.call("Tensor.__matmul__", program.hidden(), program.hidden())
            program.call("Torch.softmax", program.hidden())
            program.call("Tensor.__matmul__", program.hidden(), program.hidden())
            program.linear(f"{path}.attn.out", seed=f"out {seed}")
        if extra:
            program.call(extra, program.hidden())
        program.call("Tensor.__add__", program.hidden(), program.hidden())


def layers(seeds: list[int], *, noise: float = 0.0, path: str = "layers", calls: list[str] | None = None) -> Program:
    """A model of layers, each with the weights of its seed; an embedding before, a head behind."""
    program = Program(noise=noise)
    program.linear("embed", seed="embed", shape=(HIDDEN, 32))
    for number, seed in enumerate(seeds):
        layer(program, f"{path}.{number}", seed=seed, extra=(calls or [None] * len(seeds))[number])  # type: ignore[list-item]
    program.linear("head", seed="head", shape=(32, HIDDEN))
    return program
