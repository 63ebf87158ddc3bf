"""The records that every scenario shares: frozen, slotted, no I/O.

A reader fills a `Catalog`; a matcher turns two of them into `Pairs`; `compare` adds one `Measurement` and one
`Verdict` per pair, and `Finding`s over all of them.
"""

from probe_flow.records.baseline import Baseline, BaselineUse, Change, Deviant
from probe_flow.records.catalog import Catalog, Edge, Flow, Graph, GraphOp, GraphTensor, Problem
from probe_flow.records.comparison import (
    ALL_PASS,
    Comparison,
    Coverage,
    ErrorMap,
    ErrorShape,
    Finding,
    FindingKind,
    TensorDetail,
    WaiverState,
    WaiverUse,
)
from probe_flow.records.figure_views import FigureColumn
from probe_flow.records.figures import FigureTable, Value, shared_numbers
from probe_flow.records.frameworks import Framework
from probe_flow.records.measurement import Figures, Measurement, Mode, SideSummary
from probe_flow.records.node import (
    ArrayFacts,
    CallFacts,
    DeviceFacts,
    Execution,
    Node,
    NodeKey,
    NodeKind,
    Phase,
    RuleFacts,
    entry_name,
)
from probe_flow.records.pairs import GUESS, Group, Pair, Pairs, Relation
from probe_flow.records.reasons import SELF, Expectation, Reason, ReasonKind, Rule
from probe_flow.records.row import Row
from probe_flow.records.tensor import TensorRef, item_name
from probe_flow.records.tensor_data import Extent, Statistics, TensorData, TensorTable, TensorTables
from probe_flow.records.tensor_traits import (
    NAMED_BY,
    Slot,
    SlotRole,
    TensorFacts,
    TensorKind,
    TensorTraits,
    TensorType,
    shared_slot,
    tensor_type,
)
from probe_flow.records.verdict import Excuse, ExcuseKind, Role, Status, Verdict

__all__ = [
    "ALL_PASS",
    "GUESS",
    "NAMED_BY",
    "SELF",
    "ArrayFacts",
    "Baseline",
    "BaselineUse",
    "CallFacts",
    "Catalog",
    "Change",
    "Comparison",
    "Coverage",
    "Deviant",
    "DeviceFacts",
    "Edge",
    "ErrorMap",
    "ErrorShape",
    "Excuse",
    "ExcuseKind",
    "Execution",
    "Expectation",
    "Extent",
    "FigureColumn",
    "FigureTable",
    "Figures",
    "Finding",
    "FindingKind",
    "Flow",
    "Framework",
    "Graph",
    "GraphOp",
    "GraphTensor",
    "Group",
    "Measurement",
    "Mode",
    "Node",
    "NodeKey",
    "NodeKind",
    "Pair",
    "Pairs",
    "Phase",
    "Problem",
    "Reason",
    "ReasonKind",
    "Relation",
    "Role",
    "Row",
    "Rule",
    "RuleFacts",
    "SideSummary",
    "Slot",
    "SlotRole",
    "Statistics",
    "Status",
    "TensorData",
    "TensorDetail",
    "TensorFacts",
    "TensorKind",
    "TensorRef",
    "TensorTable",
    "TensorTables",
    "TensorTraits",
    "TensorType",
    "Value",
    "Verdict",
    "WaiverState",
    "WaiverUse",
    "entry_name",
    "item_name",
    "shared_numbers",
    "shared_slot",
    "tensor_type",
]
