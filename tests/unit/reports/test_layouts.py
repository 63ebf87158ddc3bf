from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from report_builders import comparison, good_row

from probe_flow.errors import IncompleteError, UsageError
from probe_flow.reports import registry
from probe_flow.reports.registry import BUILT_IN, layout, layout_names


def announce(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    entry = EntryPoint(name, value, registry.ENTRY_POINTS)
    monkeypatch.setattr(registry, "entry_points", lambda group: (entry,))


@pytest.mark.parametrize("name", list(BUILT_IN))
def test_every_layout_writes_a_header_and_a_row(tmp_path: Path, name: str) -> None:
    layout(name)(comparison(good_row()), tmp_path / "result.csv")
    assert len((tmp_path / "result.csv").read_text().splitlines()) == 2


def test_an_unknown_layout_names_the_nearest_one() -> None:
    with pytest.raises(UsageError) as caught:
        layout("torchar")
    assert caught.value.diagnostic.code == "PF7002"
    assert "`torchair`" in (caught.value.diagnostic.help or "")


def test_an_installed_package_adds_a_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    announce(monkeypatch, "sheet", "json:dumps")
    assert layout_names() == (
        "torchair", "torchair_percent", "torchair_legacy", "dump_json", "dump_json_msprobe", "offline", "msaccucmp",
        "sheet",
    )  # fmt: skip
    assert layout("sheet").__name__ == "dumps"


def test_an_installed_package_cannot_replace_a_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    announce(monkeypatch, "torchair", "json:dumps")
    assert layout("torchair").__name__ == "write_torchair_csv"
    assert layout_names().count("torchair") == 1


@pytest.mark.parametrize("value", ["no_such_package:write", "json:no_such_name", "json.decoder:NaN"])
def test_a_layout_that_does_not_load_names_its_package(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    announce(monkeypatch, "sheet", value)
    with pytest.raises(IncompleteError) as caught:
        layout("sheet")
    assert caught.value.diagnostic.code == "PF7003"
    assert f"`sheet` of `{value}`" in caught.value.diagnostic.message
