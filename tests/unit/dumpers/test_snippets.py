"""The code that `init --snippet` prints runs against torchair as it is."""

from __future__ import annotations

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
