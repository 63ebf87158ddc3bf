"""The stages there are: our own, listed here, and those of installed packages (entry point `probe_flow.stages`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from importlib import import_module
from types import MappingProxyType

from probe_flow.packages import EntryPoint, entry_points
from probe_flow.stages.base import StageType

BUILT_IN: Mapping[str, str] = MappingProxyType(
    {
        "dump.torchair_ge": "probe_flow.stages.dump_torchair_ge",
        "dump.torchair_fx": "probe_flow.stages.dump_torchair_fx",
        "dump.torch": "probe_flow.stages.dump_torch",
        "dump.mindspore": "probe_flow.stages.dump_mindspore",
        "dump.auto": "probe_flow.stages.dump_auto",
        "dump.mindspore_graph": "probe_flow.stages.dump_mindspore_graph",
        "dump.om": "probe_flow.stages.dump_om",
        "dump.npy": "probe_flow.stages.dump_npy",
        "reduce.minmax": "probe_flow.stages.reduce_minmax",
        "reduce.statistics": "probe_flow.stages.reduce_statistics",
        "reduce.checksum": "probe_flow.stages.reduce_checksum",
        "convert.layout": "probe_flow.stages.convert_layout",
        "convert.npy": "probe_flow.stages.convert_npy",
        "convert.pt": "probe_flow.stages.convert_pt",
        "match.torchair": "probe_flow.stages.match_torchair",
        "match.name": "probe_flow.stages.match_name",
        "match.cell_mapping": "probe_flow.stages.match_cell_mapping",
        "match.api_mapping": "probe_flow.stages.match_api_mapping",
        "match.layer_mapping": "probe_flow.stages.match_layer_mapping",
        "match.data_mapping": "probe_flow.stages.match_data_mapping",
        "match.structure": "probe_flow.stages.match_structure",
        "match.fusion_rule": "probe_flow.stages.match_fusion_rule",
        "compare": "probe_flow.stages.compare",
        "report": "probe_flow.stages.report",
        "report.pairs": "probe_flow.stages.report_pairs",
    }
)


@cache
def stage_types() -> Mapping[str, StageType]:
    """Return every stage by its ``uses``. An installed package may add stages, not replace ours."""
    return _StageTypes(entry_points(group="probe_flow.stages"))


class _StageTypes(Mapping[str, StageType]):
    """Loads a stage when it is asked for: making the models of all takes longer than checking a workflow."""

    def __init__(self, entries: Iterable[EntryPoint]) -> None:
        self._loaders: dict[str, Callable[[], StageType]] = {
            uses: partial(_built_in, module) for uses, module in BUILT_IN.items()
        }
        for entry in entries:
            self._loaders.setdefault(entry.name, entry.load)
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
