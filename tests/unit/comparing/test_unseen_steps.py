"""What a dump of a program does not show: what lay in memory before, casts of autocast, where near ties fell."""

from __future__ import annotations

import json

import numpy as np
import pytest
from array_programs import Program, X, told


class Written(Program):
    """A dump of some calls, by `fill`; ``number`` tells the sides apart."""

    def __init__(self, folder, dtype, spoiled=None, *, task="tensor", **given) -> None:
        self.folder, self.dtype, self.spoiled, self.task = folder, dtype, spoiled or {}, task
        self.data: dict[str, object] = {}
        (folder / "dump_tensor_data").mkdir(parents=True)
        self.fill(**given)
        top = {"task": task, "level": "L1", "framework": "pytorch", "dump_data_dir": None, "data": self.data}
        self.path = folder / "dump.json"
        self.path.write_text(json.dumps(top))

    def stored_as(self, dtype: str) -> Written:
        self.dtype = dtype
        return self

    def norm(self, number: int, inputs: list, result: np.ndarray) -> None:
        """Write a batch norm, whose second and third input are state that needs no gradient."""
        entry = f"Functional.batch_norm.{number}.forward"
        self.forward(entry, inputs, result)
        for place in (1, 2):
            self.data[entry]["input_args"][place]["requires_grad"] = False

    def fill(self, **given) -> None:
        raise NotImplementedError


class OverMemory(Written):
    """Memory as it was handed out, written over by `copy_` and `scatter_`; a product reads what that gives."""

    def fill(self, *, number: int) -> None:
        cells = X[0].astype("f4")
        memory = 1e6 * np.random.default_rng(number).standard_normal((2, 24)).astype("f4")
        copied = self.forward("Tensor.copy_.0.forward", [memory[0], cells], self.wide(cells))
        placed = self.forward("Tensor.scatter_.0.forward", [memory[1], 0, cells], self.wide(cells)[::-1])
        self.forward("Tensor.mul.0.forward", [placed, copied], self.wide(placed) * self.wide(copied))


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_what_lay_in_memory_that_is_written_over_says_nothing(tmp_path, task):
    sides = {"target": {"number": 1}, "golden": {"number": 2}}
    assert told(tmp_path / "healthy", task, {}, **sides, of=OverMemory) == []
    wrong = {"Tensor.scatter_.0.forward": lambda values: values * 1.5}
    found = told(tmp_path / "faulty", task, wrong, **sides, of=OverMemory)
    assert found[0][0] == "Tensor.scatter_.0.forward"


class Recurrent(Written):
    """A product and a recurrence over 16 steps, of wide tensors; what `inside` names is computed in that type.

    Under autocast the product's result is stored in 16 bits, and that of the module, whose state is wide, is not.
    """

    def fill(self, *, inside: str, product: str) -> None:
        x, weight = X.astype("f4"), 0.3 * X[:24].astype("f4")
        state = np.zeros((64, 24))
        narrow = weight.astype(inside).astype("f8")
        for _ in range(16):
            drive = (x.astype(inside).astype("f8") @ narrow + state @ narrow).astype(inside).astype("f8")
            state = 0.5 * state + 0.5 * np.tanh(drive).astype(inside).astype("f8")
        last = self.stored_as("float32").forward("Module.cell.GRU.forward.0", [x, weight], state)
        self.stored_as(product).forward("Functional.linear.0.forward", [last, weight], self.wide(last) @ weight.T)


GOLDEN = {"inside": "float64", "product": "float32"}


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_under_autocast_a_recurrent_module_computes_in_16_bits(tmp_path, task):
    cast = {"inside": "float16", "product": "float16"}
    assert told(tmp_path / "healthy", task, {}, cast, GOLDEN, of=Recurrent) == []
    wrong = {"Module.cell.GRU.forward.0": lambda values: values * 1.05}
    found = told(tmp_path / "faulty", task, wrong, cast, GOLDEN, of=Recurrent)
    assert [entry for entry, _ in found] == ["Module.cell.GRU.forward.0"]


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_without_it_a_module_that_loses_bits_is_named(tmp_path, task):
    lossy = {"inside": "float16", "product": "float32"}
    found = told(tmp_path, task, {}, lossy, GOLDEN, of=Recurrent)
    assert [entry for entry, _ in found] == ["Module.cell.GRU.forward.0"]


class Largest(Written):
    """`max` along an axis of scores in 16 bits, which gives values and indices; some rows are near ties."""

    def fill(self, *, scores_in: str, is_wrong: bool = False) -> None:
        scores = X.copy()
        scores[::2, 3] = scores[::2, 17] = scores[::2].max(axis=1) + 1.0
        scores[::2, 17] += 1e-5  # which 16 bits do not tell apart
        scores = scores.astype(scores_in)
        places = scores.argmax(axis=1)
        if is_wrong:
            places[1] = scores[1].argsort()[-2]
        entry = "Tensor.max.0.forward"
        self.data[entry] = {
            "input_args": [self.leaf(f"{entry}.input.0", scores), {"type": "int", "value": 1}],
            "input_kwargs": {},
            "output": [
                self.leaf(f"{entry}.output.0", scores.max(axis=1)), self.leaf(f"{entry}.output.1", places),
            ],
        }  # fmt: skip


@pytest.mark.parametrize("how", ["auto", "never"])
def test_an_index_beside_a_maximum_is_held_against_the_scores(tmp_path, how):
    golden = {"scores_in": "float32"}
    assert told(tmp_path / "healthy", "tensor", {}, {"scores_in": "float16"}, golden, how, Largest) == []
    wrong = {"scores_in": "float16", "is_wrong": True}
    found = told(tmp_path / "faulty", "tensor", {}, wrong, golden, how, Largest)
    assert [entry for entry, _ in found] == ["Tensor.max.0.forward"]


class Twice(Written):
    """A batch norm that is called twice: the first call moves its running statistics, which the dump does not show."""

    def fill(self, *, rounded_to: str, factor: float = 1.0) -> None:
        mean, variance = np.zeros(24, "f4"), np.ones(24, "f4")
        for number, batch in enumerate((X[:32], X[32:] + 0.5)):
            first = self.forward(
                f"Functional.relu.{number}.forward", [batch.astype(rounded_to)], np.maximum(batch, 0.0)
            )
            last = self.forward(f"Tensor.neg.{number}.forward", [first], -self.wide(first))
            seen = self.wide(last)
            given = (seen - seen.mean(axis=0)) / np.sqrt(seen.var(axis=0) + 1e-5)
            self.norm(number, [last, mean, variance], given)
            mean = (0.9 * mean + 0.1 * factor * seen.mean(axis=0)).astype("f4")
            variance = (0.9 * variance + 0.1 * seen.var(axis=0, ddof=1)).astype("f4")


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_running_statistics_are_what_the_call_before_made_of_its_batch(tmp_path, task):
    golden = {"rounded_to": "float32"}
    assert told(tmp_path / "healthy", task, {}, {"rounded_to": "float16"}, golden, of=Twice) == []
    found = told(tmp_path / "faulty", task, {}, {"rounded_to": "float16", "factor": 3.0}, golden, of=Twice)
    assert found[0][0] == "Functional.batch_norm.1.forward"


class Window(Written):
    """A product with a buffer between 0 and 1, which a model in 16 bits rounds before it is cast back."""

    def fill(self, *, rounded_to: str, factor: float = 1.0) -> None:
        window = (factor * np.sin(np.linspace(0.0, np.pi / 2, 24)) ** 2).astype(rounded_to)
        window[-1] = 1.0
        x, wide = X.astype("f4"), window.astype("f4")
        product = self.stored_as("float32").forward(
            "Tensor.__mul__.0.forward", [x, wide], self.wide(x) * self.wide(wide)
        )
        narrow = self.stored_as(rounded_to).forward("Tensor.half.0.forward", [product], self.wide(product))
        self.forward("Functional.relu.0.forward", [narrow], np.maximum(narrow, 0.0))


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_extremes_of_0_and_1_do_not_say_that_nothing_was_rounded_in_between(tmp_path, task):
    golden = {"rounded_to": "float32"}
    assert told(tmp_path / "healthy", task, {}, {"rounded_to": "float16"}, golden, of=Window) == []
    found = told(tmp_path / "faulty", task, {}, {"rounded_to": "float16", "factor": 0.98}, golden, of=Window)
    assert found[0][0] == "Tensor.__mul__.0.forward"


class Warped(Written):
    """Noise, read at turned places by `grid_sample`, which 16 bits round; ``factor`` spoils what is read."""

    def fill(self, *, rounded_to: str, factor: float = 1.0) -> None:
        side = 32
        picture = np.random.default_rng(5).standard_normal((1, 1, side, side)).astype(rounded_to)
        across = np.linspace(-0.9, 0.9, side)
        x, y = (each.astype(rounded_to) for each in np.meshgrid(across, across))
        self.forward("Functional.relu.0.forward", [picture], np.maximum(picture, 0.0))
        turned = [self.wide(0.9 * x - 0.2 * y), self.wide(0.2 * x + 0.9 * y)]
        places = self.forward("Functional.affine_grid.0.forward", [x], np.stack(turned, axis=-1)[None])
        right, down = ((self.wide(places[0, ..., axis]) + 1.0) * side / 2 - 0.5 for axis in (0, 1))
        edge = np.pad(self.wide(picture[0, 0]), 1)
        left, top = np.floor(right).astype(int), np.floor(down).astype(int)
        u, v = right - left, down - top
        read = [
            edge[np.clip(top + i + 1, 0, side + 1), np.clip(left + j + 1, 0, side + 1)] for i in (0, 1) for j in (0, 1)
        ]
        above, below = (1 - u) * read[0] + u * read[1], (1 - u) * read[2] + u * read[3]
        self.forward(
            "Functional.grid_sample.0.forward", [picture, places], factor * ((1 - v) * above + v * below)[None, None]
        )


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_an_error_of_a_place_meets_the_slope_of_the_picture_there(tmp_path, task):
    golden = {"rounded_to": "float32"}
    assert told(tmp_path / "healthy", task, {}, {"rounded_to": "float16"}, golden, of=Warped) == []
    found = told(tmp_path / "faulty", task, {}, {"rounded_to": "float16", "factor": 1.1}, golden, of=Warped)
    assert found[0][0] == "Functional.grid_sample.0.forward"


class Masked(Written):
    """Attention over scores that a large negative number masks: 16 bits round what is masked by several units."""

    def fill(self, *, stored: str, hidden: float = -12_345.0) -> None:
        scores, mask = X.astype(stored), np.where(np.arange(24) < 14, 0.0, hidden).astype(stored)
        masked = self.forward("Tensor.__add__.0.forward", [scores, mask], self.wide(scores) + self.wide(mask))
        powers = np.exp(self.wide(masked) - self.wide(masked).max(axis=-1, keepdims=True))
        self.forward("Functional.softmax.0.forward", [masked, -1], powers / powers.sum(axis=-1, keepdims=True))


def test_what_no_error_of_its_inputs_judges_is_computed_again(tmp_path):
    sides = {"target": {"stored": "float16"}, "golden": {"stored": "float32"}}
    assert told(tmp_path / "healthy", "tensor", {}, **sides, of=Masked) == []
    wrong = {"Functional.softmax.0.forward": lambda values: values * 1.04}
    found = told(tmp_path / "faulty", "tensor", wrong, **sides, of=Masked)
    assert [entry for entry, _ in found] == ["Functional.softmax.0.forward"]
    assert told(tmp_path / "never", "tensor", wrong, **sides, how="never", of=Masked) == []


def test_of_a_number_that_masks_the_scores_beside_it_judge(tmp_path):
    sides = {"target": {"stored": "float16", "hidden": -1e4}, "golden": {"stored": "float32", "hidden": -1e4}}
    wrong = {"Functional.softmax.0.forward": lambda values: values * 1.04}
    assert told(tmp_path / "healthy", "tensor", {}, **sides, how="never", of=Masked) == []
    found = told(tmp_path / "faulty", "tensor", wrong, **sides, how="never", of=Masked)
    assert [entry for entry, _ in found] == ["Functional.softmax.0.forward"]


class Centred(Written):
    """Two calls of a batch norm of batches whose mean is zero by mathematics: its running mean is their rounding."""

    def fill(self, *, number: int) -> None:
        chance = np.random.default_rng(number)
        mean = np.zeros(24, "f4")
        for call in (0, 1):
            first = self.forward(f"Functional.relu.{call}.forward", [X.astype("f4")], np.maximum(X, 0.0))
            noise = 1e-8 * chance.standard_normal(X.shape)
            centred = self.wide(first) - self.wide(first).mean(axis=0)
            last = self.forward(f"Tensor.__sub__.{call}.forward", [first], centred + noise)
            given = centred / np.sqrt(centred.var(axis=0) + 1e-5)
            self.norm(call, [last, mean, np.ones(24, "f4")], given)
            mean = (0.9 * mean + 0.1 * noise.mean(axis=0)).astype("f4")


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_a_running_mean_of_zero_is_off_by_what_the_norm_read(tmp_path, task):
    sides = {"target": {"number": 1}, "golden": {"number": 2}}
    assert told(tmp_path, task, {}, **sides, of=Centred) == []
