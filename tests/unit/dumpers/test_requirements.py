"""What a machine lacks to run a model."""

from __future__ import annotations

import sys

import pytest

from probe_flow.dumpers import torchair_fx_backend
from probe_flow.dumpers.registry import RUNNERS
from probe_flow.dumpers.requirements import missing_modules
from probe_flow.dumpers.torchair.npu import import_torchair
from probe_flow.errors import UsageError


def test_modules_that_are_not_there_are_named_without_importing_any() -> None:
    assert list(missing_modules("json", "nowhere_to_be_found", "nowhere_to_be_found.inner")) == [
        "nowhere_to_be_found",
        "nowhere_to_be_found.inner",
    ]


def test_backend_without_torch_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)

    with pytest.raises(UsageError) as raised:
        torchair_fx_backend("dump")
    assert raised.value.diagnostic.code == "PF6320"
    assert "probe-flow[torch]" in (raised.value.diagnostic.help or "")


@pytest.mark.parametrize(
    "wrong", [{"data": "stats"}, {"precision": "float16"}, {"direction": ["inputs"]}, {"include": "add"}]
)
def test_wrong_option_of_the_backend_is_an_error(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError) as raised:
        torchair_fx_backend("dump", **wrong)  # type: ignore[arg-type]
    assert raised.value.diagnostic.code == "PF6331"


def test_machine_without_device_packages_is_told_to_adopt_a_dump(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "torch_npu"):
        monkeypatch.setitem(sys.modules, name, None)

    problems = list(RUNNERS["torchair_ge"].problems())

    assert [problem.code for problem in problems] == ["PF6320", "PF6328"]
    assert "--snippet torchair" in (problems[1].help or "")
    with pytest.raises(UsageError, match="PF6328"):
        import_torchair()
