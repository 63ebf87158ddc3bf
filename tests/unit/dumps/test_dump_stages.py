"""The stages that adopt dumps: the right reader, the right framework."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from probe_flow.errors import Severity, UsageError
from probe_flow.records import Catalog
from probe_flow.stages.base import Select
from probe_flow.stages.dump.adopt_any import adopt_any
from probe_flow.stages.dump.eager_model import adopt
from probe_flow.stages.registry import STAGES

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "data" / "dump_json"


def adopted(uses: str, name: str, **select: Any) -> Catalog:
    return adopt(str(DATA / name), Select(**select), side="target", uses=uses)


@pytest.mark.parametrize(
    ("uses", "name", "framework"),
    [("dump.torch", "twin_tensor", "pytorch"), ("dump.mindspore", "ms_tensor_base", "mindspore")],
)
def test_a_dump_of_its_own_framework_is_adopted_silently(uses: str, name: str, framework: str) -> None:
    catalog = adopted(uses, name)

    assert (catalog.framework.name, catalog.side, catalog.problems) == (framework, "target", ())


@pytest.mark.parametrize(
    ("uses", "name", "proper"),
    [("dump.mindspore", "pt_types", "dump.torch"), ("dump.torch", "ms_tensor_base", "dump.mindspore")],
)
def test_a_dump_of_the_other_framework_is_adopted_with_a_warning(uses: str, name: str, proper: str) -> None:
    catalog = adopted(uses, name)
    problem = catalog.problems[-1]

    assert len(catalog.tensors) > 0
    assert (problem.code, problem.severity) == ("PF3428", Severity.WARNING)
    assert f"`uses: {proper}`" in str(problem.help)


def test_select_narrows_what_is_read() -> None:
    assert {key.name for key in adopted("dump.torch", "twin_tensor", nodes=["Module.head*"]).nodes} == {
        "Module.head.Linear",
        "Module.head.Linear.parameters_grad",
    }
    with pytest.raises(UsageError, match="keeps nothing"):
        adopted("dump.torch", "twin_tensor", graphs=["graph"])


@pytest.mark.parametrize(
    ("path", "framework"),
    [
        (ROOT / "examples/torchair/healthy/msprobe_ge_dump", "torchair_ge"),
        (ROOT / "examples/torchair/healthy/msprobe_fx_dump", "torchair_fx"),
        (DATA / "ms_tensor_base", "mindspore"),
        (DATA / "pt_debug", "pytorch"),
    ],
)
def test_a_dump_of_any_kind_is_adopted_by_its_reader(path: Path, framework: str) -> None:
    assert adopt_any(str(path), Select(), side="golden").framework.name == framework


def test_the_stages_are_registered() -> None:
    for uses in ("dump.torch", "dump.mindspore", "dump.auto"):
        assert STAGES[uses].uses == uses
