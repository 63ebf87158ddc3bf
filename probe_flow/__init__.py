"""probe_flow: find the first operator that is wrong on the NPU, from one YAML file or from Python.

The names below are the Python API. Each is imported when it is first used (docs/how-to/python.md).
"""

from importlib import import_module
from typing import TYPE_CHECKING

from probe_flow.version import __version__

if TYPE_CHECKING:
    from probe_flow.api.comparison import compare
    from probe_flow.api.dumps import match, read_dump
    from probe_flow.api.registration import (
        register_layout,
        register_metric,
        register_policy,
        register_reader,
        register_stage,
    )
    from probe_flow.api.rows import Rows
    from probe_flow.api.run import run
    from probe_flow.api.stored_run import Origin, Run, Tensors, open_run
    from probe_flow.dumpers.mindspore.dump import dump_mindspore
    from probe_flow.dumpers.torch.dump import dump_torch
    from probe_flow.errors import (
        Diagnostic,
        FormatError,
        IncompleteError,
        InternalError,
        NotComparableError,
        ProbeFlowError,
        UsageError,
        WorkflowError,
    )
    from probe_flow.record.types.conclusions import FindingRecord
    from probe_flow.record.types.nodes import NodeRecord
    from probe_flow.record.types.rows import RowRecord
    from probe_flow.record.types.run import RunRecord
    from probe_flow.records import Catalog, Node, Pair, Pairs, TensorRef

_PLACES = {
    "Catalog": "records",
    "Diagnostic": "errors",
    "FindingRecord": "record.types.conclusions",
    "FormatError": "errors",
    "IncompleteError": "errors",
    "InternalError": "errors",
    "Node": "records",
    "NodeRecord": "record.types.nodes",
    "NotComparableError": "errors",
    "Origin": "api.stored_run",
    "Pair": "records",
    "Pairs": "records",
    "ProbeFlowError": "errors",
    "RowRecord": "record.types.rows",
    "Rows": "api.rows",
    "Run": "api.stored_run",
    "RunRecord": "record.types.run",
    "TensorRef": "records",
    "Tensors": "api.stored_run",
    "UsageError": "errors",
    "WorkflowError": "errors",
    "compare": "api.comparison",
    "dump_mindspore": "dumpers.mindspore.dump",
    "dump_torch": "dumpers.torch.dump",
    "match": "api.dumps",
    "open_run": "api.stored_run",
    "read_dump": "api.dumps",
    "register_layout": "api.registration",
    "register_metric": "api.registration",
    "register_policy": "api.registration",
    "register_reader": "api.registration",
    "register_stage": "api.registration",
    "run": "api.run",
}
"""Public name -> the module that has it, below this package."""

__all__ = [
    "Catalog",
    "Diagnostic",
    "FindingRecord",
    "FormatError",
    "IncompleteError",
    "InternalError",
    "Node",
    "NodeRecord",
    "NotComparableError",
    "Origin",
    "Pair",
    "Pairs",
    "ProbeFlowError",
    "RowRecord",
    "Rows",
    "Run",
    "RunRecord",
    "TensorRef",
    "Tensors",
    "UsageError",
    "WorkflowError",
    "__version__",
    "compare",
    "dump_mindspore",
    "dump_torch",
    "match",
    "open_run",
    "read_dump",
    "register_layout",
    "register_metric",
    "register_policy",
    "register_reader",
    "register_stage",
    "run",
]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module `probe_flow` has no attribute `{name}`")
    found: object = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
