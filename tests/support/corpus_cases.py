"""The workflow corpus: which files there are, how each is loaded, and what it says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from probe_flow.errors import Diagnostic, WorkflowError
from probe_flow.errors.render import render_all
from probe_flow.workflow.loading.loader import load_workflow
from probe_flow.workflow.model import Workflow

CORPUS = Path(__file__).parents[1] / "corpus"
_HEADER = re.compile(rb"^# (set|env): ([^=\n]+)=([^\n]*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Case:
    """One file of the corpus, with what its header lines say."""

    path: Path
    sets: dict[str, str]
    env: dict[str, str]

    @property
    def expected(self) -> Path:
        return self.path.with_suffix(".expected.txt")

    def load(self) -> tuple[Workflow | None, tuple[Diagnostic, ...], str]:
        """Return the workflow, what was found, and that as text."""
        try:
            workflow = load_workflow(Path(self.path.name), sets=self.sets, env=self.env, cwd=self.path.parent)
        except WorkflowError as error:
            return None, error.diagnostics, _rendered(error.diagnostics, error.sources)
        return workflow, workflow.warnings, _rendered(workflow.warnings, workflow.sources)


def cases(folder: str) -> list[Case]:
    """Return the cases of ``valid`` or ``invalid``."""
    return [_case(path) for path in sorted((CORPUS / folder).glob("*.yaml"))]


def _case(path: Path) -> Case:
    found: dict[str, dict[str, str]] = {"set": {}, "env": {}}
    for kind, name, value in _HEADER.findall(path.read_bytes()):
        found[kind.decode()][name.decode()] = value.decode()
    return Case(path, found["set"], found["env"])


def _rendered(diagnostics: tuple[Diagnostic, ...], sources: dict[str, str]) -> str:
    return render_all(diagnostics, sources=sources) + "\n" if diagnostics else ""


if __name__ == "__main__":
    for case in [*cases("valid"), *cases("invalid")]:
        _, _, text = case.load()
        if text:
            case.expected.write_text(text, encoding="utf-8")
