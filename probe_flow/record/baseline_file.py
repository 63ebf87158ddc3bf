"""Baseline files: what a team accepted of a run, as YAML with one line a node, sorted, for review in a pull request.

::

    format: probe_flow.baseline/1
    workflow: torchair-ge-vs-fx
    run: torchair-ge-vs-fx-20260131-101500
    comparisons:
      "result":
        gate: findings
        policy: "torchair"
        compared: {"target": 96, "golden": 96}
        nodes:
          - {"node": "Add_2", "graph": 1, "op_type": "AddV2", "origin": {"output.0": 0.01235}}

Keys of a line are ``node``, ``graph``, ``call``, ``phase`` and ``op_type`` (absent = none, 0, forward), and for each
kind of deviation its slots with their figures: a number (``inf`` and ``nan`` as texts), or null where there is none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.errors import Diagnostic, Span, UsageError, did_you_mean
from probe_flow.files.opening import open_bytes
from probe_flow.files.yaml.places import Loc, Place, nearest
from probe_flow.files.yaml.positions import parse_value
from probe_flow.records import Baseline, Deviant, FindingKind, Phase
from probe_flow.records.baseline import FAILING_ROW, NONFINITE_ROW, largest

FORMAT = "probe_flow.baseline/1"
MAX_FILE_BYTES = 64 * 2**20
MAX_VALUES = 2_000_000

KINDS = (*(kind.value for kind in FindingKind), FAILING_ROW, NONFINITE_ROW)
_NODE_KEYS = ("node", "graph", "call", "phase", "op_type")

_FORMAT = re.compile(r"probe_flow\.baseline/(\d{1,6})")
_WORDS = {"nan": math.nan, "inf": math.inf}


class BaselineFile(Struct, frozen=True):
    """A baseline file.

    Args:
        workflow: name of the workflow that was run.
        run: id of the run that was accepted.
        comparisons: by the name of their stage.
        path: where it lies, for messages.
    """

    workflow: str
    run: str
    comparisons: Mapping[str, Baseline]
    path: str = ""

    def of(self, *, workflow: str, comparison: str) -> Baseline:
        """Return the part that belongs to one stage.

        Raises:
            UsageError: PF7311 when the file belongs to another workflow, or has no such stage.
        """
        if self.workflow != workflow:
            message = f"the baseline `{self.path}` belongs to the workflow `{self.workflow}`, not to `{workflow}`"
            cure = "name the file of this workflow, or accept a run of it: `probe-flow baseline accept RUN`"
            raise UsageError(Diagnostic("PF7311", message, path=self.path, help=cure))
        if comparison not in self.comparisons:
            hint = did_you_mean(comparison, self.comparisons) or f"it has {', '.join(self.comparisons) or 'none'}"
            message = f"the baseline `{self.path}` has no comparison `{comparison}`"
            cure = f"{hint}; accept a run of the workflow as it is now"
            raise UsageError(Diagnostic("PF7311", message, path=self.path, help=cure))
        return self.comparisons[comparison]


def read_baseline(path: str | Path) -> BaselineFile:
    """Return a baseline file; all of its mistakes are told together.

    Raises:
        UsageError: PF7310 when it cannot be read or is none, PF7311 when its format is a later one, PF1xxx no YAML.
    """
    name = str(path)
    written, problems = parse_value(_text(Path(path), name), name, what="baseline", max_values=MAX_VALUES)
    if written is None or problems:
        raise UsageError(problems)
    reader = _Reader(name, written.place)
    file = reader.file(written.value)
    if reader.problems:
        raise UsageError(reader.problems)
    return file


def _text(path: Path, name: str) -> str:
    try:
        with open_bytes(path) as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise _unreadable(name, f"it is larger than {MAX_FILE_BYTES >> 20} MiB")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise _unreadable(name, f"line {line} is not UTF-8 text") from error
    except (OSError, ValueError) as error:
        raise _unreadable(name, (getattr(error, "strerror", None) or str(error)).lower()) from error


def _unreadable(name: str, why: str) -> UsageError:
    cure = "check the path, or write one with `probe-flow baseline accept RUN`"
    return UsageError(Diagnostic("PF7310", f"the baseline `{name}` cannot be read: {why}", path=name, help=cure))


class _Reader:
    """Turns the values of a file into a baseline and collects what is wrong with them."""

    def __init__(self, name: str, place: Place) -> None:
        self._name = name
        self._place = place
        self.problems: list[Diagnostic] = []

    def file(self, root: object) -> BaselineFile:
        values = self._mapping(root, (), ("format", "workflow", "run", "comparisons"))
        self._check_format(values.get("format"))
        workflow = self._text(values, (), "workflow")
        found = {}
        if not self.problems:
            for key, content in self._mapping(values.get("comparisons"), ("comparisons",)).items():
                found[str(key)] = self._comparison(workflow, str(key), content, ("comparisons", key))
        return BaselineFile(workflow, self._text(values, (), "run"), found, self._name)

    def _check_format(self, text: object) -> None:
        known = _FORMAT.fullmatch(text) if isinstance(text, str) else None
        if known is None:
            self._wrong(("format",), f"a baseline begins with `format: {FORMAT}`")
        elif text != FORMAT:
            message = f"the baseline `{self._name}` has the format `{text}`; this probe_flow reads `{FORMAT}`"
            cure = "update probe_flow, or accept a run with this one"
            self.problems.append(Diagnostic("PF7311", message, span=self._span(("format",)), help=cure))

    def _comparison(self, workflow: str, name: str, content: object, loc: Loc) -> Baseline:
        values = self._mapping(content, loc, ("gate", "policy", "compared", "nodes"))
        counts = self._mapping(values.get("compared", {}), (*loc, "compared"), ("target", "golden"))
        compared = {str(side): self._whole(count, (*loc, "compared", side)) for side, count in counts.items()}
        lines = values.get("nodes")
        if not isinstance(lines, list):
            self._wrong((*loc, "nodes"), "`nodes` is a list, one line a node")
            lines = []
        deviants = [each for number, line in enumerate(lines) for each in self._node(line, (*loc, "nodes", number))]
        if len(largest(deviants)) < len(deviants):
            self._wrong_twice(deviants, (*loc, "nodes"))
        gate, policy = self._text(values, loc, "gate"), self._text(values, loc, "policy")
        return Baseline(workflow, name, gate, policy, compared, tuple(largest(deviants)), self._name)

    def _wrong_twice(self, deviants: Sequence[Deviant], loc: Loc) -> None:
        seen = set()
        for each in deviants:
            if each.place in seen:
                self._wrong(loc, f"`{each}` has `{each.kind}` twice")
                return
            seen.add(each.place)

    def _node(self, line: object, loc: Loc) -> list[Deviant]:
        values = self._mapping(line, loc, (*_NODE_KEYS, *KINDS))
        graph, node = values.get("graph"), values.get("node")
        if not isinstance(graph, (int, str, type(None))) or isinstance(graph, bool):
            self._wrong((*loc, "graph"), "`graph` is the number or the name of a graph")
            graph = None
        if node is not None and not isinstance(node, str):
            self._wrong((*loc, "node"), "`node` is the name of a node; quote it if it looks like a number")
            node = None
        call = self._whole(values.get("call", 0), (*loc, "call"))
        phase = values.get("phase", "forward" if node is not None else "none")
        if phase not in [each.value for each in Phase]:  # it may be no text
            self._wrong((*loc, "phase"), "`phase` is `forward`, `backward` or `none`")
        op_type = values.get("op_type", "")
        head = Deviant(graph, node, call, str(phase), str(op_type), "", "", None)
        return [
            replace(head, kind=kind, slot=str(slot), figure=self._number(figure, (*loc, kind, slot)))
            for kind in KINDS
            if kind in values
            for slot, figure in self._mapping(values[kind], (*loc, kind)).items()
        ]

    def _mapping(self, value: object, loc: Loc, known: Sequence[str] = ()) -> Mapping[str | int, object]:
        if not isinstance(value, dict):
            self._wrong(loc, "a mapping is expected here")
            return {}
        for key in value:
            if known and key not in known:
                hint = did_you_mean(str(key), known) or f"keys: {', '.join(known)}"
                self._wrong((*loc, key), f"`{key}` has no meaning here; {hint}")
        return value

    def _text(self, values: Mapping[str | int, object], loc: Loc, key: str) -> str:
        value = values.get(key)
        if isinstance(value, str):
            return value
        self._wrong((*loc, key), f"`{key}` has to be a text")
        return ""

    def _whole(self, value: object, loc: Loc) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        self._wrong(loc, f"`{loc[-1]}` has to be a whole number")
        return 0

    def _number(self, value: object, loc: Loc) -> float | None:
        if value is None:
            return None
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0:
            return _float(value)
        if isinstance(value, str) and value in _WORDS:
            return _WORDS[value]
        self._wrong(loc, f"the figure of `{loc[-1]}` has to be a number from 0, `inf`, `nan` or null")
        return None

    def _wrong(self, loc: Loc, message: str) -> None:
        cure = "write the file anew with `probe-flow baseline accept RUN`"
        self.problems.append(Diagnostic("PF7310", message, span=self._span(loc), path=self._name, help=cure))

    def _span(self, loc: Loc) -> Span:
        return nearest(self._place, loc).span


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # integers have no bounds in YAML
        return math.inf
