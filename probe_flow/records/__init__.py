"""The records that every scenario shares: frozen, slotted, no I/O.

A reader fills a `Catalog`; a matcher turns two of them into `Pairs`; `compare` adds one `Measurement` and one
`Verdict` per pair, and `Finding`s over all of them.
"""

from probe_flow.records.baseline import Baseline, BaselineUse, Change, Deviant
from probe_flow.records.catalog import Catalog, Edge, Graph, GraphOp, Problem
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
from probe_flow.records.differences import (
    DifferenceKind,
    Differences,
    EntryDifference,
    ExecutionDifferences,
    FirstDifference,
)
from probe_flow.records.figures import FigureTable, Value
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
from probe_flow.records.tensor import (
    FOUR_STATISTICS,
    NAMED_BY,
    Extent,
    Slot,
    SlotRole,
    Statistics,
    TensorFacts,
    TensorKind,
    TensorRef,
    TensorType,
    item_name,
    shared_slot,
    tensor_type,
)
from probe_flow.records.verdict import Excuse, ExcuseKind, Role, Status, Verdict

__all__ = [
    "ALL_PASS",
    "FOUR_STATISTICS",
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
    "DifferenceKind",
    "Differences",
    "Edge",
    "EntryDifference",
    "ErrorMap",
    "ErrorShape",
    "Excuse",
    "ExcuseKind",
    "Execution",
    "ExecutionDifferences",
    "Expectation",
    "Extent",
    "FigureTable",
    "Figures",
    "Finding",
    "FindingKind",
    "FirstDifference",
    "Framework",
    "Graph",
    "GraphOp",
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
    "TensorDetail",
    "TensorFacts",
    "TensorKind",
    "TensorRef",
    "TensorType",
    "Value",
    "Verdict",
    "WaiverState",
    "WaiverUse",
    "entry_name",
    "item_name",
    "shared_slot",
    "tensor_type",
]
