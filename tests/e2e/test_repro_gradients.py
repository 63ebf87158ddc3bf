"""Gradients of real dumps of torch, computed again: what the last node gives, those of modules and of weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.frameworks
torch = pytest.importorskip("torch")

import probe_flow as pf  # noqa: E402
from probe_flow.cli.main import main  # noqa: E402

ERROR = 0.03


class Loss(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., torch.Tensor], *shape: int) -> None:
        super().__init__()
        self.function, self.weight = function, torch.nn.Parameter(torch.randn(*shape))

    def forward(self, *given: torch.Tensor) -> torch.Tensor:
        return self.function(*given, self.weight)


class Net(torch.nn.Module):
    """A network of one module."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *given: torch.Tensor) -> torch.Tensor:
        result = self.inner(*given)
        return result if isinstance(result, torch.Tensor) else result[0]


def cross_entropy(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(x @ weight, torch.arange(5) % 3)


CASES: dict[str, tuple[Callable[[], torch.nn.Module], tuple[tuple[int, ...], ...]]] = {
    "linear": (lambda: torch.nn.Linear(8, 4), ((2, 3, 8),)),
    "bilinear": (lambda: torch.nn.Bilinear(4, 5, 6), ((7, 4), (7, 5))),
    "prelu": (torch.nn.PReLU, ((3, 4),)),
    "cross_entropy": (lambda: Loss(cross_entropy, 8, 3), ((5, 8),)),
    "matmul": (lambda: Loss(lambda x, w: torch.matmul(x, w), 8, 4), ((2, 3, 8),)),
    "embedding": (lambda: torch.nn.Embedding(10, 6), ()),
    "lstm": (lambda: torch.nn.LSTM(6, 7, 2, batch_first=True, bidirectional=True), ((3, 3, 6),)),
    "gru": (lambda: torch.nn.GRU(6, 7), ((3, 2, 6), (1, 2, 7))),
    "dropout": (lambda: torch.nn.LSTM(6, 7, 2, dropout=0.5), ((3, 2, 6),)),
    "relu": (lambda: torch.nn.RNN(6, 7, nonlinearity="relu"), ((3, 2, 6),)),
    "cell": (lambda: torch.nn.LSTMCell(6, 7), ((2, 6),)),
}


def dumped(folder: Path, case: str) -> None:
    """Dump a step of a model twice: `target` and `golden`."""
    make, shapes = CASES[case]
    for side in ("target", "golden"):
        torch.manual_seed(3)
        model = Net(make())
        given = [torch.randn(*shape, requires_grad=True) for shape in shapes] or [torch.arange(6).reshape(2, 3)]
        with pf.dump_torch(model, str(folder / side)):
            result = model(*(each * 1.5 if each.is_floating_point() else each for each in given))
            (result * torch.linspace(0.5, 1.5, result.numel()).reshape(result.shape)).sum().backward()


def spoil(folder: Path, entry: str, end: str) -> None:
    (path,) = (folder / "target").rglob(f"{entry.removesuffix('.0')}*{end}.pt")
    torch.save(torch.load(path) * (1 + ERROR), path)


def computed_again(entry: str) -> tuple[int, dict]:
    assert main(["compare", "-tp", "target", "-gp", "golden", "-o", "run"]) in (0, 1)
    code = main(["repro", "run", "--node", entry, "-o", "scripts"])
    path = Path("scripts") / f"repro_{entry}.json"
    return code, json.loads(path.read_text()) if path.exists() else {}


@pytest.mark.parametrize(
    ("case", "entry", "end"),
    [
        ("linear", "Module.inner.Linear.backward.0", "output.0"),
        ("bilinear", "Module.inner.Bilinear.backward.0", "output.1"),
        ("prelu", "Functional.prelu.0.backward", "output.1"),
        ("cross_entropy", "Functional.cross_entropy.0.backward", "output.0"),
        ("lstm", "Module.inner.LSTM.forward.0", "output.0"),
        ("lstm", "Module.inner.LSTM.parameters_grad.0", "weight_hh_l1_reverse"),
        ("gru", "Module.inner.GRU.backward.0", "output.1"),
        ("cell", "Module.inner.LSTMCell.forward.0", "output.1"),
    ],
)
def test_a_wrong_gradient_is_reproduced_with_its_error(tmp_path, monkeypatch, case, entry, end):
    monkeypatch.chdir(tmp_path)
    dumped(tmp_path, case)
    spoil(tmp_path, entry, end)
    code, said = computed_again(entry)
    assert (code, said["status"]) == (1, "reproduced"), said
    assert said["relative_error"] == pytest.approx(ERROR, rel=0.01)


def test_a_right_gradient_of_the_last_step_is_cleared_and_the_words_say_of_what(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dumped(tmp_path, "cross_entropy")
    code, said = computed_again("Functional.cross_entropy.0.backward")
    assert (code, said["status"]) == (0, "not_reproduced"), said
    assert said["why"].endswith("of its backward pass the dump has what the last step gives")


@pytest.mark.parametrize(
    ("case", "entry", "why"),
    [
        ("matmul", "Torch.matmul.0.backward", "of its backward pass the dump holds nothing but the gradient that came"),
        ("embedding", "Module.inner.Embedding.backward.0", "none of its inputs has a gradient"),
        ("dropout", "Module.inner.LSTM.forward.0", "this processor gives another result than the golden too"),
        ("relu", "Module.inner.RNN.forward.0", "this processor gives another result than the golden too"),
    ],
)
def test_gradients_that_are_in_no_entry_are_not_decided(tmp_path, monkeypatch, capsys, case, entry, why):
    monkeypatch.chdir(tmp_path)
    dumped(tmp_path, case)
    code, _ = computed_again(entry)
    told = capsys.readouterr()
    assert (code, why in told.out + told.err) == (3, True), told.out + told.err
