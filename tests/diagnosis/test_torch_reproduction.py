"""Wrong kernels of torch models are reproduced with their errors, forward and backward, and no others are accused.

Some calls of a step are spoiled while it runs, so that what follows them reads wrong values. Then calls are computed
again from what the target dumped, below one process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.frameworks
torch = pytest.importorskip("torch")

from generate.dump_json_models import make  # noqa: E402
from torch_collector import Collector  # noqa: E402

import probe_flow as pf  # noqa: E402
from probe_flow.records import Phase  # noqa: E402
from probe_flow.scripts.repro import Suspect  # noqa: E402
from probe_flow.scripts.trials.suspects import Trial, reproduce, same_call  # noqa: E402

ERRORS = {torch.float32: 0.01, torch.float16: 0.05, torch.bfloat16: 0.25}
"""An error that is more than ten times what such a call rounds off."""


class Spoiling(Collector):
    """A collector that scales what some calls write, and the gradients that some give."""

    def __init__(self, is_wrong: Callable[[str], bool], error: float) -> None:
        super().__init__(self._forward)
        self.is_wrong, self.factor = is_wrong, 1 + error
        self.spoiled: dict[str, None] = {}
        self._scaled: dict[int, torch.Tensor] = {}

    def _forward(self, entry: str, output: object) -> None:
        if isinstance(output, torch.Tensor) and output.is_floating_point() and self.is_wrong(entry):
            with torch._C.DisableTorchFunction():
                output.data.mul_(self.factor)
            self.spoiled[entry] = None

    def _gradient(self, entry: str, end: str, place: int, grad: torch.Tensor) -> None:
        if end == "output" and self.is_wrong(entry) and id(grad) not in self._scaled:
            grad.mul_(self.factor)
            self.spoiled[entry] = None
            self._scaled[id(grad)] = grad  # a sum gives one tensor to both of its arguments
        super()._gradient(entry, end, place, grad)


def step(
    folder: Path,
    name: str,
    dtype: torch.dtype,
    is_wrong: Callable[[str], bool],
    change: Callable[[torch.nn.Module], None] = lambda _model: None,
) -> tuple[Path, list[str]]:
    """Dump one step of a model; return the dump and the calls that were spoiled."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        model = make(name, seed=2).to(dtype)
        change(model)
        with Spoiling(is_wrong, ERRORS[dtype]) as collector:
            loss = model.loss()
        loss.backward()
    finally:
        torch.set_num_threads(threads)
    collector.write(folder, 0, task="tensor")
    return folder / "step0", list(collector.spoiled)


def computed_again(folder: Path, target: Path, golden: Path, spoiled: list[str]) -> dict[str, dict]:
    """Return what is found of the spoiled calls of the target, and of every sixth of the others."""
    sides = [pf.read_dump(path, side=side) for side, path in (("target", target), ("golden", golden))]
    nodes = [node for node in sides[0].nodes.values() if node.key.phase is not Phase.NONE]
    others = [node for node in nodes if node.entry not in spoiled]
    calls = [*(node for node in nodes if node.entry in spoiled), *others[::6]]
    found, problems = reproduce(
        [Suspect(sides[0], node, sides[1], same_call(sides[1], node)) for node in calls], folder / "scripts", Trial()
    )
    # A gradient without its call: nothing says what it is of.
    assert all("no forward entry" in each.problem.message for each in problems)
    return {each.suspect.name: dict(each.said) for each in found}


def every(number: int, direction: str) -> Callable[[str], bool]:
    """Return what chooses every so many calls of a direction."""
    seen: Counter[str] = Counter()
    chosen: dict[str, bool] = {}

    def is_wrong(entry: str) -> bool:
        if not entry.endswith(direction):
            return False
        if entry not in chosen:
            seen[direction] += 1
            chosen[entry] = seen[direction] % number == 0
        return chosen[entry]

    return is_wrong


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [*(("transformer", dtype) for dtype in ERRORS), ("resnet", torch.float32), ("mixture", torch.float32)],
    ids=str,
)
def test_wrong_kernels_are_reproduced_with_their_error_and_no_others(tmp_path, name, dtype, direction):
    golden, _ = step(tmp_path / "golden", name, dtype, lambda _: False)
    target, spoiled = step(tmp_path / "target", name, dtype, every(9, direction))
    found = computed_again(tmp_path, target, golden, spoiled)
    wrong = {entry for entry, said in found.items() if said["status"] == "reproduced"}
    assert wrong <= set(spoiled), {entry: found[entry]["why"] for entry in wrong - set(spoiled)}
    missed = {entry: found[entry]["why"] for entry in spoiled if entry in found and entry not in wrong}
    assert all("in place" in why or "no result of shape" in why for why in missed.values()), missed
    assert len(wrong) >= 2
    for entry in wrong:
        assert ERRORS[dtype] / 2 < found[entry]["relative_error"] < ERRORS[dtype] * 2, entry
    cleared = [entry for entry, said in found.items() if said["status"] == "not_reproduced"]
    assert len(cleared) >= len(found) // 4


def with_other_weights(model: torch.nn.Module) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.3)


def overflowing(model: torch.nn.Module) -> None:
    with torch.no_grad():
        next(model.parameters()).mul_(1e4)


@pytest.mark.parametrize("change", [with_other_weights, overflowing])
def test_what_was_wrong_before_a_call_is_not_blamed_on_it(tmp_path, change):
    golden, _ = step(tmp_path / "golden", "transformer", torch.float16, lambda _: False)
    target, _ = step(tmp_path / "target", "transformer", torch.float16, lambda _: False, change)
    found = computed_again(tmp_path, target, golden, [])
    assert {said["status"] for said in found.values()} <= {"not_reproduced", "undecided"}, found
    cleared = [said for said in found.values() if said["status"] == "not_reproduced"]
    assert len(cleared) > len(found) // 2
    assert any(said["differs"] for said in cleared)


def test_results_of_another_processor_are_not_blamed(tmp_path):
    """Another processor adds in another order: results that are off by two roundings of the type."""
    golden, _ = step(tmp_path / "golden", "transformer", torch.float32, lambda _: False)
    target, _ = step(tmp_path / "target", "transformer", torch.float32, lambda _: False)
    draw = torch.Generator().manual_seed(3)
    for path in (target / "proc1000" / "dump_tensor_data").glob("*.forward.output.*.pt"):
        tensor = torch.load(path)
        if tensor.is_floating_point():
            noise = (torch.rand(tensor.shape, generator=draw) * 2 - 1) * 2 * 2.0**-24
            torch.save((tensor.double() * (1 + noise.double())).to(tensor.dtype), path)
    found = computed_again(tmp_path, target, golden, [])
    assert "reproduced" not in {said["status"] for said in found.values()}, found
