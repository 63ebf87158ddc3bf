"""run.json: what a run concluded, and where that comes from."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import msgspec
from msgspec.structs import replace

from probe_flow.record.types.conclusions import AdviceRecord, ComparisonRecord, Conclusions, FindingRecord
from probe_flow.record.types.values import Anything, Count, Figure, Record
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


class ReproductionRecord(Record, frozen=True, kw_only=True):
    """What came of computing one call of the target again on a processor, from its own inputs.

    Args:
        entry: The call, by its entry in the dump.
        suspect: Entry of the finding that it was computed for; another one where that is a module.
        rank: Rank of the execution.
        step: Step of the execution.
        row: `order` of the record in comparison.jsonl that shows the suspect.
        status: `reproduced`: the processor gives another result; `not_reproduced`: it gives what was dumped;
            `undecided`; `not_run`: the script was written, and nothing ran it.
        relative_error: L2 norm of dumped minus recomputed, over that of recomputed, of the worst result.
        why: The same in words.
        differs: Which input or argument differs from the golden's, where the result does not.
        script: The script; its tensors lie beside it. Empty where none can be made of the call.
        versions: Of the libraries that computed it.
    """

    entry: str
    suspect: str
    rank: int | None
    step: int | None
    row: Count | None = None
    status: Literal["reproduced", "not_reproduced", "undecided", "not_run"]
    relative_error: Figure = None
    why: str
    differs: str | None = None
    script: str
    versions: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def answers(self) -> tuple[str, ...]:
        """Codes of the advice of its finding that need not be followed any more."""
        is_decided = self.status in ("reproduced", "not_reproduced")
        return ("PF7425", "PF7412", "PF7414") if is_decided else ("PF7425",)

    @property
    def advice(self) -> AdviceRecord:
        """What follows from it."""
        name = f"`{self.entry}`"
        if self.status == "reproduced":
            text = f"{name} itself is wrong: {self.why}; hand `{self.script}` to whoever owns the kernel"
            return AdviceRecord("PF7426", text)
        if self.status == "not_reproduced":
            before = f"; {self.differs}" if self.differs else ""
            return AdviceRecord("PF7427", f"{name} is not to blame: {self.why}{before}")
        if self.status == "not_run":
            return AdviceRecord("PF7428", f"`{self.script}` was written and not run: {self.why}")
        return AdviceRecord("PF7428", f"whether {name} itself is wrong is undecided: {self.why}")


class RunRecord(Conclusions, frozen=True, kw_only=True):
    """run.json: what a run of probe_flow concluded.

    Args:
        schema: Format and version.
        run_id: Name of the run.
        workflow: What ran.
        params: Parameters of the workflow, as resolved.
        status: `running` also of a run that was killed.
        verdict: `stopped`: by a mistake in the command, the workflow or what it names; null: not asked to compare.
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
        reproductions: Calls that were computed again, by `repro` or its stage, each as it was the last time.
    """

    schema: Literal["probe_flow.run/2"]
    run_id: str
    workflow: WorkflowRecord
    params: dict[str, Anything]
    status: Literal["running", "ended", "interrupted"]
    verdict: Literal["pass", "fail", "incomplete", "stopped"] | None
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
    reproductions: tuple[ReproductionRecord, ...] = ()

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

    def reproductions_of(self, name: str | None, rank: int | None, step: int | None) -> tuple[ReproductionRecord, ...]:
        """Return what came of computing a call again, or that inside of it which it was taken for."""
        return tuple(
            each
            for each in self.reproductions
            if name in (each.entry, each.suspect) and (each.rank, each.step) == (rank, step)
        )

    @property
    def suspected_calls(self) -> tuple[FindingRecord, ...]:
        """The suspects that name a call, as `repro` numbers them: from 1, where NaN begins last."""
        return tuple(self._suspected())

    def _suspected(self) -> Iterator[FindingRecord]:
        places = dict.fromkeys((*self.suspects, self.nonfinite_origin))
        return (each for each in map(self.at, places) if each is not None and each.name)

    def steps_for(self, finding: FindingRecord, folder: str = "RUN") -> tuple[AdviceRecord, ...]:
        """Return what to do about a finding.

        What came of computing its call again comes first, and takes the place of the steps that it answers.

        Args:
            finding: of this run.
            folder: of the run as its reader would type it, for commands; `RUN` where that is not known.
        """
        found = self.reproductions_of(finding.name, finding.rank, finding.step)
        answered = {code for each in found for code in each.answers}
        again = f"`probe-flow repro {shlex.quote(folder)}{self._which(finding)}`"
        steps = (each for each in finding.advice if each.code not in answered)
        return (
            *(each.advice for each in found),
            *(replace(each, text=each.text.replace(AdviceRecord.AGAIN, again)) for each in steps),
        )

    def _which(self, finding: FindingRecord) -> str:
        """Return the option of `repro` that names a finding; empty for the suspect that it takes by itself."""
        number = next((number for number, each in enumerate(self._suspected(), 1) if each is finding), None)
        if number is None:
            return f" --node {shlex.quote(finding.name)}" if finding.name else ""
        return f" --suspect {number}" if number > 1 else ""

    def with_reproductions(self, found: Iterable[Mapping[str, object]]) -> RunRecord:
        """Return the record with what came of computing calls again, in place of what it says of the same calls.

        Args:
            found: fields of `ReproductionRecord`.
        """
        known = {(each.rank, each.step, each.entry): each for each in self.reproductions}
        for fields in found:
            each = msgspec.convert(dict(fields), ReproductionRecord)
            known[each.rank, each.step, each.entry] = each
        return replace(self, reproductions=tuple(known.values()))

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
