"""Texts that TorchAir writes of its graphs beside a dump: their names, and source lines in those that are Python.

A graph's own text is ``dynamo_original_graph_*.txt``. A Python text (``dynamo_*.py``) names the line of the model that
an FX node comes from, the node, and the operators made for it::

    ## FX Code: t: torch.float32[128, 64] = torch.ops.aten.t.default(primals_1: torch.float32[64, 128])
    ## FX Code: addmm: torch.float32[100, 64] = torch.ops.aten.addmm.default(primals_2: ...)
    MatMulV2_0 = ge.MatMulV2(primals_3_0, Transpose_0, None, None, node_name="MatMulV2")

A line of the model is written once, however often the graph comes back to it (the layers of a loop). So only the first
node behind a line is certain to come from it; what follows comes from that line or from an earlier one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from probe_flow.files.opening import open_text
from probe_flow.files.walk import DumpFile
from probe_flow.records import Execution

_GRAPH_FILE = re.compile(r"dynamo_original_graph_(\d+)(?:_rank_(\d+))?(?:_pid_(\d+))?(?:_ts_(\d+))?\.txt")
_TIMESTAMP_DIGITS = 14
"""A graph file's only number is a time stamp, not a graph id, from this many digits on."""

SUFFIX = ".py"
OR_EARLIER = " (or an earlier line)"
"""Behind a line that another node came from first."""

_FRAME = re.compile(r"# (File .*)")
_NODE = re.compile(r"## FX Code: ")
_OPERATOR = re.compile(r'node_name="((?:[^"\\]|\\.)*)"')
_MAX_LINE = 1 << 20
"""Characters of a line that are looked at; constants may be written out behind the name."""


class GraphFileName(Struct, frozen=True):
    """The numbers in the name of a graph text; old names hold a time stamp only."""

    graph: int | None
    rank: int | None
    pid: int | None
    timestamp: int


def graph_file_name(name: str) -> GraphFileName | None:
    """Return the numbers in the name of a ``dynamo_original_graph_*.txt``, None for other files."""
    found = _GRAPH_FILE.fullmatch(name)
    if found is None:
        return None
    first, rank, pid, timestamp = (int(text) if text is not None else None for text in found.groups())
    assert first is not None, "the pattern demands a number"
    if rank is None and timestamp is None and len(found.group(1)) >= _TIMESTAMP_DIGITS:
        return GraphFileName(None, None, None, first)
    return GraphFileName(first, rank, pid, timestamp or 0)


def source_file_name(name: str) -> GraphFileName | None:
    """Return the numbers in the name of a ``dynamo_*.py``, None for other files and texts of optimised graphs."""
    if not (name.startswith("dynamo_") and name.endswith(SUFFIX)) or name.startswith("dynamo_optimized"):
        return None
    found = graph_file_name(name.removesuffix(SUFFIX) + ".txt")
    return found if found is not None else GraphFileName(None, None, None, 0)


class SourceTexts:
    """The Python texts of one dump; each is read when an execution asks for it first.

    Args:
        files: the texts, with the numbers in their names.
    """

    def __init__(self, files: Sequence[tuple[DumpFile, GraphFileName]]) -> None:
        self.files = files
        self._lines: dict[str, Mapping[str, str]] = {}

    def of(self, execution: Execution, operators: Iterable[str]) -> Mapping[str, str]:
        """Return operator -> source line for an execution, from the text of its graph.

        A text whose name gives no graph may be that of any; of several the one that knows most of ``operators``
        counts, the newest of equals. Empty where none knows any.
        """
        names = set(operators)
        fitting = [
            (len(names & lines.keys()), name.timestamp, lines)
            for file, name in self.files
            if _may_be_of(execution, name)
            for lines in (self._read(file),)
        ]
        known, _, lines = max(fitting, key=lambda found: found[:2], default=(0, 0, {}))
        return lines if known else {}

    def _read(self, file: DumpFile) -> Mapping[str, str]:
        if file.path not in self._lines:
            self._lines[file.path] = read_source_lines(Path(file.path))
        return self._lines[file.path]


def _may_be_of(execution: Execution, name: GraphFileName) -> bool:
    is_rank = None in (name.rank, execution.rank) or name.rank == execution.rank
    # An execution without a graph id of its own has the name of a folder or of a text.
    return is_rank and (name.graph is None or not isinstance(execution.graph, int) or name.graph == execution.graph)


def read_source_lines(path: Path) -> Mapping[str, str]:
    """Return operator -> the line of the model that it was made for; empty where the file cannot be read."""
    try:
        with open_text(path, errors="replace") as file:
            return source_lines(iter(lambda: file.readline(_MAX_LINE), ""))
    except OSError:
        return {}


def source_lines(text: Iterator[str]) -> Mapping[str, str]:
    """Return operator -> the line of the model that it was made for, as far as a text says."""
    found: dict[str, str] = {}
    frame: str | None = None
    nodes = 0
    for line in text:
        if (named := _FRAME.match(line)) is not None:
            frame, nodes = " ".join(named.group(1).split()), 0
        elif _NODE.match(line):
            nodes += 1
        elif frame is not None and not line.startswith("#"):
            for operator in _OPERATOR.findall(line):
                found.setdefault(operator, frame if nodes <= 1 else frame + OR_EARLIER)
    return found
