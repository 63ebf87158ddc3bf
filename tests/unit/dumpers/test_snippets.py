"""The code that `init --snippet` prints runs against torchair as it is."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from dumper_fakes import new_config, old_config

from probe_flow.cli.authoring.init import SNIPPETS


@pytest.mark.parametrize(("make", "name"), [(new_config, "path"), (old_config, "_path")])
def test_torchair_snippet_sets_what_a_dump_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Any, name: str
) -> None:
    config = make()
    torchair = SimpleNamespace(CompilerConfig=lambda: config, get_npu_backend=lambda compiler_config: compiler_config)
    for module, content in (("torch", ModuleType("torch")), ("torch_npu", ModuleType("n")), ("torchair", torchair)):
        monkeypatch.setitem(sys.modules, module, content)  # type: ignore[arg-type]
    scope: dict[str, Any] = {}
    exec(compile(SNIPPETS["torchair"], "snippet", "exec"), scope)

    assert scope["ge_backend"](str(tmp_path / "ge")) is config

    assert (tmp_path / "ge").is_dir()
    assert config.debug.graph_dump.type == "txt"
    assert getattr(config.debug.graph_dump, name) == str(tmp_path / "ge")
    assert config.dump_config.enable_dump is True
    assert config.dump_config.dump_path == str(tmp_path / "ge")


@pytest.mark.frameworks
def test_the_snippet_for_torch_dumps_two_steps(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    scope: dict[str, Any] = {}
    exec(compile(SNIPPETS["torch"], "snippet", "exec"), scope)
    model = torch.nn.Sequential(torch.nn.Linear(3, 2))
    batches = [(torch.ones(4, 3), torch.zeros(4, 2))] * 3
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    scope["train"](model, torch.nn.functional.mse_loss, optimizer, batches, str(tmp_path / "dump"))

    assert sorted(path.name for path in (tmp_path / "dump").iterdir()) == ["step0", "step1"]
    text = (tmp_path / "dump/step1/proc0/dump.json").read_text()
    assert "Module.0.Linear.parameters_grad.0" in text
    assert "Tensor.add_" not in text, "the optimizer is not recorded"


@pytest.mark.frameworks
def test_the_snippet_for_mindspore_dumps_two_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mindspore = pytest.importorskip("mindspore", reason="needs MindSpore")
    import numpy as np

    if mindspore.get_context("device_target") != "CPU":  # it may not be said again once anything has run
        mindspore.set_device("CPU")
    # From a file, since MindSpore looks for the source of what it differentiates.
    (tmp_path / "snippet_of_mindspore.py").write_text(SNIPPETS["mindspore"])
    monkeypatch.syspath_prepend(str(tmp_path))
    scope = vars(importlib.import_module("snippet_of_mindspore"))
    net = mindspore.nn.SequentialCell(mindspore.nn.Dense(3, 2))
    batches = [tuple(mindspore.Tensor(np.ones(shape, np.float32)) for shape in ((4, 3), (4, 2)))] * 3
    optimizer = mindspore.nn.SGD(net.trainable_params(), 0.1)

    scope["train"](net, mindspore.nn.MSELoss(), optimizer, batches, str(tmp_path / "dump"))

    assert sorted(path.name for path in (tmp_path / "dump").iterdir()) == ["step0", "step1"]
    assert "Cell.0.Dense.parameters_grad.0" in (tmp_path / "dump/step1/proc0/dump.json").read_text()
