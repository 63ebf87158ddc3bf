"""Choose the rule file of each model that ran: one for all, or by the name of its graph."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct, field

from probe_flow.dumps.rules.records import RuleFile
from probe_flow.errors import Diagnostic, Severity
from probe_flow.matching.rules.merge import FusionRules, fusion_rules
from probe_flow.records import Execution

_NUMBER = re.compile(r"[0-9]+")
_SHOWN = 5


class RuleBook(Struct):
    """The rule files of a comparison.

    Args:
        files: of the target's models; with ``by_model``, one or more files per model.
        by_model: whether a file is chosen by the name of the model, as in a folder of files.
        close: of the golden's models without fusion, where that is a device dump too.
        quant: of the quantisation tool.
    """

    files: Sequence[RuleFile] = ()
    by_model: bool = False
    close: Sequence[RuleFile] = ()
    quant: RuleFile | None = None
    problems: list[Diagnostic] = field(default_factory=list)
    _merged: dict[tuple[str, str | None], FusionRules] = field(default_factory=dict)

    def rules_of(self, execution: Execution, golden: Execution) -> FusionRules | None:
        """Return the rules of the model of an execution, None when there are none (PF4408 says why in `problems`).

        Args:
            execution: of the target.
            golden: what it is compared with; chooses among several files of a golden that is a device dump.
        """
        if not self.files:
            return None if self.quant is None else self._of(self.quant, None, None)
        found = self._by_name(execution.model or "", self.files) if self.by_model else self.files[0]
        close = None
        if self.close:
            close = self.close[0] if len(self.close) == 1 else self._by_name(golden.model or "", self.close)
            if close is None:
                return None
        return None if found is None else self._of(found, close, self.quant)

    def _of(self, file: RuleFile, close: RuleFile | None, quant: RuleFile | None) -> FusionRules:
        key = (file.path, close.path if close is not None else None)
        rules = self._merged.get(key)
        if rules is None:
            rules = self._merged[key] = fusion_rules(file, close=close, quant=quant)
            self.problems.extend(rules.problems)
        return rules

    def _by_name(self, model: str, files: Sequence[RuleFile]) -> RuleFile | None:
        names = [(graph.name, file) for file in files for graph in file.graphs]
        for name, file in names:
            if model in (name, f"{name}_0"):
                return file
        if not model and len(files) == 1:
            return files[0]
        wanted = _NUMBER.findall(model)
        for name, file in names:
            numbers = _NUMBER.findall(name)
            if len(numbers) == len(wanted) == 2 and numbers[1] == wanted[1]:
                self._say(_other_time(model, name, file))
                return file
        self._say(_no_file(model, [name for name, _ in names]))
        return None

    def _say(self, problem: Diagnostic) -> None:
        if problem not in self.problems:
            self.problems.append(problem)


def model_outputs(files: Sequence[RuleFile]) -> tuple[str, ...]:
    """Return the original outputs that end the models, as ``name:index``, where the files say them."""
    found: list[str] = []
    for file in files:
        names = file.attrs.get("attr_model_out_nodes_name")
        if isinstance(names, (list, tuple)):
            found.extend(name for name in names if isinstance(name, str))
    return tuple(dict.fromkeys(found))


def _other_time(model: str, graph: str, file: RuleFile) -> Diagnostic:
    return Diagnostic(
        "PF4407",
        f"model `{model}` is compared by the rules of graph `{graph}`, which was not generated at the same time",
        severity=Severity.WARNING,
        help="convert the graph of the run that was dumped",
        path=file.path,
    )


def _no_file(model: str, graphs: Sequence[str]) -> Diagnostic:
    shown = ", ".join(f"`{name}`" for name in dict.fromkeys(graphs[:_SHOWN])) or "none"
    more = f" and {len(graphs) - _SHOWN} more" if len(graphs) > _SHOWN else ""
    return Diagnostic(
        "PF4408",
        f"no rule file has a graph named `{model}`: that model is not compared",
        severity=Severity.WARNING,
        help=f"graphs of the rule files: {shown}{more}; convert the graph of this model too",
    )
