"""run.json: what a run concluded, and where that comes from."""

from __future__ import annotations

from typing import Literal

from probe_flow.record.types.conclusions import ComparisonRecord, Conclusions, FindingRecord
from probe_flow.record.types.values import Anything, Count, Record
from probe_flow.records import FindingKind

RUN_SCHEMA: Literal["probe_flow.run/2"] = "probe_flow.run/2"
"""``schema`` of run.json: format and version."""


class WorkflowRecord(Record, frozen=True):
    """The workflow that ran.

    Args:
        name: Its name.
        path: Its file; a relative one starts from `folder`.
        folder: Working directory of the run.
        description: As written.
        sample: Whether it compared its own sample data.
        templates: Packaged templates that it extends, with their versions.
    """

    name: str
    path: str
    folder: str
    description: str | None
    sample: bool
    templates: tuple[str, ...] = ()


class StageRecord(Record, frozen=True):
    """A stage of the workflow.

    Args:
        name: Its name.
        uses: What it does.
        status: What became of it.
        wall_s: How long it took, in seconds.
        reason: Why it failed or did not run.
    """

    name: str
    uses: str
    status: Literal["done", "failed", "skipped", "interrupted", "not_selected"]
    wall_s: float
    reason: str | None


class InputRecord(Record, frozen=True):
    """A dump that a stage read.

    Args:
        stage: The stage.
        path: Where it lay.
        framework: What wrote it.
        task: What it holds.
        nodes: How many it has.
        tensors: How many it has.
        fingerprint: Digest of the names, sizes and times of its files.
    """

    stage: str
    path: str
    framework: str
    task: str
    nodes: Count
    tensors: Count
    fingerprint: str


class ProblemRecord(Record, frozen=True):
    """A diagnostic of the run.

    Args:
        code: `probe-flow explain CODE` says more.
        severity: How grave it is.
        message: What happened to which object.
        file: File that it is about.
        line: Line in it, from 1.
        column: Column in it, from 1.
        end_line: Line where the place ends.
        end_column: Column where it ends, exclusive.
        path: File or folder concerned.
        help: What to do.
        notes: What else there is to know.
        stage: Stage that reports it.
        tensor: Tensor concerned.
    """

    code: str
    severity: Literal["error", "warning", "note"]
    message: str
    file: str | None
    line: Count | None
    column: Count | None
    end_line: Count | None
    end_column: Count | None
    path: str | None
    help: str | None
    notes: tuple[str, ...]
    stage: str | None
    tensor: str | None


class TimingsRecord(Record, frozen=True):
    """When the run took place.

    Args:
        started: ISO 8601, with the zone.
        wall_s: How long it took, in seconds; null while it runs.
    """

    started: str
    wall_s: float | None


class RunRecord(Conclusions, frozen=True, kw_only=True):
    """run.json: what a run of probe_flow concluded.

    Args:
        schema: Format and version.
        run_id: Name of the run.
        workflow: What ran.
        params: Parameters of the workflow, as resolved.
        status: `running` also of a run that was killed.
        verdict: null: the run was not asked to compare.
        exit_code: Above 128: the number of a signal.
        incomplete: Why the run is incomplete.
        findings: All conclusions, ranked; of each comparison up to a limit, while `finding_counts` counts all.
        comparisons: What each comparing stage concludes.
        stages: In the order in which they ran.
        inputs: Dumps that were read.
        versions: Of probe_flow, Python and libraries.
        timings: When the run took place.
        executor: What ran the tasks.
        artifacts: Files of the run, relative to its folder.
        problems: Diagnostics of the run.
        cache: What was taken from the cache.
    """

    schema: Literal["probe_flow.run/2"]
    run_id: str
    workflow: WorkflowRecord
    params: dict[str, Anything]
    status: Literal["running", "ended", "interrupted"]
    verdict: Literal["pass", "fail", "incomplete"] | None
    exit_code: Literal[0, 1, 2, 3, 129, 130, 143]
    incomplete: tuple[str, ...]
    findings: tuple[FindingRecord, ...]
    comparisons: dict[str, ComparisonRecord]
    stages: tuple[StageRecord, ...]
    inputs: tuple[InputRecord, ...]
    versions: dict[str, str]
    timings: TimingsRecord
    executor: dict[str, Anything]
    artifacts: tuple[str, ...]
    problems: tuple[ProblemRecord, ...]
    cache: dict[str, Anything] | None = None

    @property
    def first(self) -> FindingRecord | None:
        """Where the target first goes wrong."""
        return self.at(self.first_divergence)

    @property
    def nonfinite(self) -> FindingRecord | None:
        """Where NaN or infinity begins."""
        return self.at(self.nonfinite_origin)

    @property
    def failure(self) -> FindingRecord | None:
        """The node that fails most, where each fails by itself."""
        return next((each for each in self.findings if each.kind is FindingKind.FAILURE and each.fails), None)

    @property
    def done(self) -> str:
        """What was done to tensors, in a word: ``examined`` where each stage looked at one dump, else ``compared``."""
        parts = self.comparisons.values()
        return "examined" if parts and all(part.dumps and "golden" not in part.dumps for part in parts) else "compared"

    def at(self, position: int | None) -> FindingRecord | None:
        """Return the finding at a position, None without one, as in a record of a run that has not ended."""
        return self.findings[position] if position is not None and position < len(self.findings) else None

    def findings_of(self, comparison: str) -> tuple[FindingRecord, ...]:
        """Return the findings of one comparison, as far as they are listed."""
        if len(self.comparisons) == 1:
            return self.findings
        return tuple(each for each in self.findings if each.comparison == comparison)


HEAD = ("schema", "run_id", "workflow", "params", "status", "verdict", "exit_code", "incomplete")
"""Fields of a run that are published before its conclusions."""
