"""The stages there are: our own, listed here, and those of installed packages (entry point `probe_flow.stages`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec.structs import replace

from probe_flow.errors import ProbeFlowError
from probe_flow.packages import PackageError, Registry
from probe_flow.stages.base import Forecast, StageOptions, StageType


def _accept(uses: str, found: object) -> StageType:
    if not isinstance(found, StageType):
        raise PackageError(f"it is no `StageType` but a `{type(found).__name__}`")
    if found.uses != uses:
        raise PackageError(f"its stage is called `{found.uses}`")
    if not (isinstance(found.options, type) and issubclass(found.options, StageOptions)):
        raise PackageError("the options of its stage are no class below `StageOptions`")
    forecast = found.forecast
    return found if forecast is None else replace(found, forecast=partial(_foresee, uses, forecast))


def _foresee(uses: str, forecast: Callable[[Any], Forecast | None], options: StageOptions) -> Forecast | None:
    try:
        found = forecast(options)
    except ProbeFlowError:
        raise
    except Exception as error:  # code of others
        raise STAGES.unusable(uses, f"its forecast fails: {type(error).__name__}: {error}") from error
    return found if isinstance(found, Forecast) else None


STAGES: Registry[StageType] = Registry(
    ("stage", "stages"),
    "probe_flow.stages",
    {
        "dump.torchair_ge": "probe_flow.stages.dump.dump_torchair_ge:STAGE",
        "dump.torchair_fx": "probe_flow.stages.dump.dump_torchair_fx:STAGE",
        "dump.torch": "probe_flow.stages.dump.dump_torch:STAGE",
        "dump.mindspore": "probe_flow.stages.dump.dump_mindspore:STAGE",
        "dump.auto": "probe_flow.stages.dump.dump_auto:STAGE",
        "dump.mindspore_graph": "probe_flow.stages.dump.dump_mindspore_graph:STAGE",
        "dump.om": "probe_flow.stages.dump.dump_om:STAGE",
        "dump.caffe": "probe_flow.stages.dump.dump_caffe:STAGE",
        "dump.onnx": "probe_flow.stages.dump.dump_onnx:STAGE",
        "dump.tensorflow": "probe_flow.stages.dump.dump_tensorflow:STAGE",
        "dump.tensorflow_training": "probe_flow.stages.dump.dump_tensorflow_training:STAGE",
        "dump.npy": "probe_flow.stages.dump.dump_npy:STAGE",
        "dump.tfdbg": "probe_flow.stages.dump.dump_tfdbg:STAGE",
        "dump.arrays": "probe_flow.stages.dump.dump_arrays:STAGE",
        "reduce.minmax": "probe_flow.stages.reduce.reduce_minmax:STAGE",
        "reduce.statistics": "probe_flow.stages.reduce.reduce_statistics:STAGE",
        "reduce.checksum": "probe_flow.stages.reduce.reduce_checksum:STAGE",
        "convert.layout": "probe_flow.stages.convert.convert_layout:STAGE",
        "convert.npy": "probe_flow.stages.convert.convert_npy:STAGE",
        "convert.pt": "probe_flow.stages.convert.convert_pt:STAGE",
        "precheck": "probe_flow.stages.precheck:STAGE",
        "repro": "probe_flow.stages.scripts.repro:STAGE",
        "op_generate": "probe_flow.stages.scripts.op_generate:STAGE",
        "match.torchair": "probe_flow.stages.match.match_torchair:STAGE",
        "match.name": "probe_flow.stages.match.match_name:STAGE",
        "match.cell_mapping": "probe_flow.stages.match.match_cell_mapping:STAGE",
        "match.api_mapping": "probe_flow.stages.match.match_api_mapping:STAGE",
        "match.layer_mapping": "probe_flow.stages.match.match_layer_mapping:STAGE",
        "match.data_mapping": "probe_flow.stages.match.match_data_mapping:STAGE",
        "match.structure": "probe_flow.stages.match.match_structure:STAGE",
        "match.model_graph": "probe_flow.stages.match.match_model_graph:STAGE",
        "match.fusion_rule": "probe_flow.stages.match.match_fusion_rule:STAGE",
        "compare": "probe_flow.stages.compare:STAGE",
        "analysis.nonfinite": "probe_flow.stages.analysis.analysis_nonfinite:STAGE",
        "analysis.overflow": "probe_flow.stages.analysis.analysis_overflow:STAGE",
        "analysis.op_debug": "probe_flow.stages.analysis.analysis_op_debug:STAGE",
        "analysis.graph": "probe_flow.stages.analysis.analysis_graph:STAGE",
        "analysis.fusion": "probe_flow.stages.analysis.analysis_fusion:STAGE",
        "report": "probe_flow.stages.report.report:STAGE",
        "report.pairs": "probe_flow.stages.report.report_pairs:STAGE",
        "report.graph": "probe_flow.stages.report.report_graph:STAGE",
    },
    _accept,
    unknown="PF2002",
    unusable="PF1020",
)
"""Every stage by its ``uses``. A way to match is found by its stage: `match.acme` needs no registry of matchers."""
