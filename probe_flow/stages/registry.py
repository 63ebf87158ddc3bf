"""The stages there are: our own, listed here, and those of installed packages (entry point `probe_flow.stages`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from types import MappingProxyType
from typing import Any

from probe_flow.errors import Diagnostic, ProbeFlowError, UsageError
from probe_flow.packages import EntryPoint, PackageError, entry_points, load, named
from probe_flow.stages.base import Forecast, StageOptions, StageType

BUILT_IN: Mapping[str, str] = MappingProxyType(
    {
        "dump.torchair_ge": "probe_flow.stages.dump.dump_torchair_ge",
        "dump.torchair_fx": "probe_flow.stages.dump.dump_torchair_fx",
        "dump.torch": "probe_flow.stages.dump.dump_torch",
        "dump.mindspore": "probe_flow.stages.dump.dump_mindspore",
        "dump.auto": "probe_flow.stages.dump.dump_auto",
        "dump.mindspore_graph": "probe_flow.stages.dump.dump_mindspore_graph",
        "dump.om": "probe_flow.stages.dump.dump_om",
        "dump.npy": "probe_flow.stages.dump.dump_npy",
        "reduce.minmax": "probe_flow.stages.reduce.reduce_minmax",
        "reduce.statistics": "probe_flow.stages.reduce.reduce_statistics",
        "reduce.checksum": "probe_flow.stages.reduce.reduce_checksum",
        "convert.layout": "probe_flow.stages.convert.convert_layout",
        "convert.npy": "probe_flow.stages.convert.convert_npy",
        "convert.pt": "probe_flow.stages.convert.convert_pt",
        "match.torchair": "probe_flow.stages.match.match_torchair",
        "match.name": "probe_flow.stages.match.match_name",
        "match.cell_mapping": "probe_flow.stages.match.match_cell_mapping",
        "match.api_mapping": "probe_flow.stages.match.match_api_mapping",
        "match.layer_mapping": "probe_flow.stages.match.match_layer_mapping",
        "match.data_mapping": "probe_flow.stages.match.match_data_mapping",
        "match.structure": "probe_flow.stages.match.match_structure",
        "match.fusion_rule": "probe_flow.stages.match.match_fusion_rule",
        "compare": "probe_flow.stages.compare",
        "report": "probe_flow.stages.report.report",
        "report.pairs": "probe_flow.stages.report.report_pairs",
    }
)


@cache
def stage_types() -> Mapping[str, StageType]:
    """Return every stage by its ``uses``. An installed package may add stages, not replace ours.

    Taking a stage of a package imports it, and raises UsageError (PF1020) where it gives no stage of that name.
    """
    return _StageTypes(entry_points(group="probe_flow.stages"))


class _StageTypes(Mapping[str, StageType]):
    """Loads a stage when it is asked for: making the models of all takes longer than checking a workflow."""

    def __init__(self, entries: Iterable[EntryPoint]) -> None:
        self._loaders: dict[str, Callable[[], StageType]] = {
            uses: partial(_built_in, module) for uses, module in BUILT_IN.items()
        }
        for entry in entries:
            self._loaders.setdefault(entry.name, partial(_of_package, entry))
        self._loaded: dict[str, StageType] = {}

    def __getitem__(self, uses: str) -> StageType:
        if uses not in self._loaded:
            self._loaded[uses] = self._loaders[uses]()
        return self._loaded[uses]

    def __contains__(self, uses: object) -> bool:
        return uses in self._loaders

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaders)

    def __len__(self) -> int:
        return len(self._loaders)


def _built_in(module: str) -> StageType:
    stage = import_module(module).STAGE
    assert isinstance(stage, StageType)
    return stage


def _of_package(entry: EntryPoint) -> StageType:
    try:
        stage = load(entry)
    except PackageError as error:
        raise _unusable(entry, str(error)) from error
    if not isinstance(stage, StageType):
        raise _unusable(entry, f"it is no `StageType` but a `{type(stage).__name__}`")
    if stage.uses != entry.name:
        raise _unusable(entry, f"its stage is called `{stage.uses}`")
    if not (isinstance(stage.options, type) and issubclass(stage.options, StageOptions)):
        raise _unusable(entry, "the options of its stage are no class below `StageOptions`")
    forecast = stage.forecast
    return stage if forecast is None else replace(stage, forecast=partial(_foresee, entry, forecast))


def _foresee(entry: EntryPoint, forecast: Callable[[Any], Forecast | None], options: StageOptions) -> Forecast | None:
    try:
        found = forecast(options)
    except ProbeFlowError:
        raise
    except Exception as error:  # code of others
        raise unusable(entry.name, f"its forecast fails: {type(error).__name__}: {error}", named(entry)) from error
    return found if isinstance(found, Forecast) else None


def _unusable(entry: EntryPoint, why: str) -> UsageError:
    return unusable(entry.name, why, named(entry))


def unusable(uses: str, why: str, *notes: str) -> UsageError:
    """Return the error (PF1020) of a stage that a package gives and that does not work."""
    return UsageError(
        Diagnostic(
            "PF1020",
            f"the stage `{uses}` cannot be used: {why}",
            help="update or remove the package that provides it, or use another stage",
            notes=notes,
        )
    )
