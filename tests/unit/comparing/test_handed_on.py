"""What one call gives and another gets: tensors that show again, gradients that add up, gates in place."""

from __future__ import annotations

import json

import numpy as np
import pytest
from array_programs import BEHIND_GATE, CHANCE, COPY, SUM, A, B, G, Program, Spoil, W, X, told


class Joined(Program):
    """``linear(cat([linear(x), linear(x)]))``: the gradient of the `cat` is dumped, those of its parts are not."""

    def __init__(self, folder, dtype, spoiled=None, *, task="tensor") -> None:
        self.folder, self.dtype, self.spoiled, self.task = folder, dtype, spoiled or {}, task
        self.data: dict[str, object] = {}
        (folder / "dump_tensor_data").mkdir(parents=True)
        x, w, more, last = (each.astype(dtype) for each in (X, W, W[::-1] / 2, np.hstack((A, B))[:48]))
        one = self.forward("Functional.linear.0.forward", [x, w], self.wide(x) @ self.wide(w).T)
        two = self.forward("Functional.linear.1.forward", [x, more], self.wide(x) @ self.wide(more).T)
        both = self.forward("Torch.cat.0.forward", [[one, two], 1], np.hstack((self.wide(one), self.wide(two))))
        self.forward("Functional.linear.2.forward", [both, last], self.wide(both) @ self.wide(last).T)
        rule = lambda g: [g @ self.wide(last), g.T @ self.wide(both)]  # noqa: E731
        given, _ = self.backward("Functional.linear.2.backward", G, rule)
        self.backward("Torch.cat.0.backward", given, lambda _g: [])
        for number, (part, weight) in enumerate(((given[:, :48], w), (given[:, 48:], more))):
            entry = f"Functional.linear.{number}.backward"
            self.backward(entry, part, lambda g, weight=weight: [g @ self.wide(weight), g.T @ self.wide(x)])
        top = {"task": task, "level": "L1", "framework": "pytorch", "dump_data_dir": None, "data": self.data}
        self.path = folder / "dump.json"
        self.path.write_text(json.dumps(top))


def element(values: np.ndarray) -> np.ndarray:
    wrong = values.copy()
    wrong[3, 5] += 6.0 * np.sqrt(np.mean(values**2))
    return wrong


FAULTS: dict[str, Spoil] = {
    "offset": lambda values: values + 0.05, "factor": lambda values: values * 1.03, "element": element,
    "rows": lambda values: np.concatenate([values[:-16], 0 * values[-16:]]),
}  # fmt: skip
LARGE: dict[str, Spoil] = {"Tensor.mul.0.forward": lambda values: values * 1.4}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("place", [SUM, COPY])
@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_what_a_call_gets_is_what_the_others_gave(tmp_path, task, place, fault):
    (found,) = told(tmp_path, task, {place: FAULTS[fault]})
    assert found[0] == place


@pytest.mark.parametrize("place", [SUM, COPY])
@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_a_second_fault_in_between_is_proven_whatever_the_first_left(tmp_path, task, place):
    found = told(tmp_path, task, {"Functional.linear.0.forward": lambda h: h * 1.4, place: FAULTS["offset"]})
    assert [entry for entry, _ in found][:1] == ["Functional.linear.0.forward"]
    assert any(entry == place and "independent by proof" in evidence for entry, evidence in found)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_what_adds_up_accuses_nobody_however_wrong_it_is(tmp_path, task, in_place):
    both = {"in_place": in_place}
    assert told(tmp_path / "healthy", task, {}, both, both) == []
    found = told(tmp_path / "faulty", task, {"Functional.linear.0.forward": lambda h: h * 1.4}, both, both)
    assert [entry for entry, _ in found] == ["Functional.linear.0.forward"]


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_a_call_in_place_that_one_collector_records_late_contradicts_nothing(tmp_path, task):
    late = {"in_place": True, "reads_late": True}
    found = told(tmp_path, task, {}, late)
    assert not any("gave" in evidence or "sum of" in evidence for _, evidence in found)


@pytest.mark.parametrize("fault", ["element", "rows"])
def test_with_tensors_a_gradient_behind_a_gate_in_place_is_computed_again(tmp_path, fault):
    both = {"in_place": True}
    (found,) = told(tmp_path, "tensor", {BEHIND_GATE: FAULTS[fault]}, both, both)
    assert found[0] == BEHIND_GATE


def test_with_tensors_gradients_are_added_up_again_from_half_of_a_limit_on(tmp_path):
    """Of either sign, so that the mean says nothing; three roundings, which the errors of both addends explain."""
    slightly = {SUM: lambda values: values * (1.0 + 1.6e-3 * np.sign(values[::-1]))}
    assert [entry for entry, _ in told(tmp_path / "auto", "tensor", slightly)] == [SUM]
    assert told(tmp_path / "never", "tensor", slightly, how="never") == []
    assert told(tmp_path / "healthy", "tensor", {}) == []


@pytest.mark.parametrize("place", ["Functional.linear.0.backward", "Functional.linear.1.backward"])
def test_with_tensors_the_gradient_of_a_part_is_that_part_of_what_was_joined(tmp_path, place):
    slightly = {place: lambda values: values * (1.0 + 2.5e-3 * np.sign(values[::-1]))}
    assert told(tmp_path / "never", "tensor", slightly, how="never", of=Joined) == []
    (found,) = told(tmp_path / "auto", "tensor", slightly, of=Joined)
    assert found[0] == place
    assert "is not the part of `Torch.cat.backward.input.0` that it is in the golden" in found[1]
    large = {"Functional.linear.2.forward": lambda values: values * 1.4}
    assert told(tmp_path / "healthy", "tensor", {}, of=Joined, how="all") == []
    assert [entry for entry, _ in told(tmp_path / "large", "tensor", large, of=Joined)] == [*large]


def test_the_evidence_says_what_adds_up_to_what(tmp_path):
    ((_, by_statistics),) = told(tmp_path / "statistics", "statistics", {SUM: FAULTS["offset"]})
    assert "is not the sum of `Tensor.mul.backward.output.0` and `Tensor.mul#1.backward.output.0`" in by_statistics
    assert "as it is in the golden: its mean is" in by_statistics
    ((_, copied),) = told(tmp_path / "copy", "statistics", {COPY: FAULTS["factor"]})
    assert "is not what `Tensor.add.backward.output.1` gave, as it is in the golden" in copied
    ((_, by_tensors),) = told(tmp_path / "tensor", "tensor", {SUM: FAULTS["offset"]})
    assert "element by element it is off by" in by_tensors


def test_gradients_that_are_all_alike_are_rounded_alike(tmp_path, monkeypatch):
    for name, value in (("A", 0.3333), ("B", 0.0004), ("G", 1.0)):
        monkeypatch.setattr(
            f"array_programs.{name}", np.full((64, 48), value) + 1e-5 * CHANCE.standard_normal((64, 48))
        )
    assert told(tmp_path, "statistics", {}) == []


def test_a_norm_in_the_type_of_its_tensor_may_be_recorded_as_the_next_number(tmp_path, monkeypatch):
    exact = Program.leaf

    def rounded(self, name: str, values: np.ndarray) -> object:
        found = exact(self, name, values)
        if values.dtype == np.float16:
            norm = np.float16(found["Norm"])
            found["Norm"] = float(np.nextafter(norm, np.float16(0)) if name == f"{COPY}.input.0" else norm)
        return found

    monkeypatch.setattr(Program, "leaf", rounded)
    assert told(tmp_path / "healthy", "statistics", {}) == []
    (found,) = told(tmp_path / "faulty", "statistics", {COPY: FAULTS["factor"]})
    assert found[0] == COPY
