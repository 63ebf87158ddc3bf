"""Add metrics, policies, layouts, readers and stages for as long as a process lives, as installed packages add them.

For notebooks and scripts; what a team shares belongs into a package (docs/how-to/write-a-package.md). The same things
are accepted and refused, and what was registered may be registered again, as when a cell of a notebook runs twice.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from probe_flow.api.problems import told_whole

if TYPE_CHECKING:
    from probe_flow.analysis.policies.base import Policy
    from probe_flow.dumps.registry import ReaderSpec
    from probe_flow.metrics.catalogue.metric import Metric
    from probe_flow.records import Comparison
    from probe_flow.reports.layout import Layout
    from probe_flow.stages.base import StageType


def register_metric(metric: Metric) -> None:
    """Add a metric of two tensors, by its `id`: for `metrics`, bounds of policies, and reports.

    >>> import probe_flow as pf
    >>> from probe_flow.metrics.catalogue.metric import Metric
    >>> def equal_share(record):
    ...     return None if record.numel == 0 else 1 - record.errors.unequal / record.numel
    >>> pf.register_metric(Metric("equal_share", "equal elements / elements", "[0, 1]", "1", "ours",
    ...                           compute=equal_share))
    >>> ge, fx = "examples/torchair/faulty/msprobe_ge_dump", "examples/torchair/faulty/msprobe_fx_dump"
    >>> run = pf.compare(ge, fx, metrics=["equal_share"])
    >>> 0 <= float(run.rows(role="origin").columns()["equal_share"][0]) <= 1
    True

    Raises:
        UsageError: PF5115 if it cannot be used, or the name is taken.
    """
    from probe_flow.metrics.catalogue.registry import METRICS

    with told_whole():
        METRICS.register(str(getattr(metric, "id", "")), metric)


def register_policy(name: str, policy: Callable[[], Policy]) -> None:
    """Add a class, or a function, that gives a policy.

    >>> import probe_flow as pf
    >>> from probe_flow.analysis.policies.bounds import parse_bound
    >>> from probe_flow.analysis.policies.rules import Rule, RulePolicy
    >>> pf.register_policy("lenient", lambda: RulePolicy((Rule({}, {"max_abs_err": parse_bound("< 1e6")}),), {}))
    >>> ge, fx = "examples/torchair/faulty/msprobe_ge_dump", "examples/torchair/faulty/msprobe_fx_dump"
    >>> [row.node for row in pf.compare(ge, fx, policy="lenient").rows(verdict="fail")]
    []

    Raises:
        UsageError: PF5002 if it cannot be used, or the name is taken.
    """
    from probe_flow.analysis.policies.registry import POLICIES

    with told_whole():
        POLICIES.register(name, policy)


def register_layout(name: str, layout: Layout | Callable[[Comparison, Path], None]) -> None:
    r"""Add a layout of tables, or a function that writes a CSV file, for ``{csv: NAME}`` of a report.

    >>> import probe_flow as pf
    >>> def names(comparison, path):
    ...     _ = path.write_text("".join(f"{row.node.name}\n" for row in comparison.rows))
    >>> pf.register_layout("names", names)
    >>> ge, fx = "examples/torchair/faulty/msprobe_ge_dump", "examples/torchair/faulty/msprobe_fx_dump"
    >>> kept = pf.compare(ge, fx, output="named", reports=[{"csv": "names"}])
    >>> "Gelu_1" in kept.reports[0].read_text().splitlines()
    True

    Raises:
        UsageError: PF7003 if it cannot be used, or the name is taken.
    """
    from probe_flow.reports.layout import LAYOUTS

    with told_whole():
        LAYOUTS.register(name, layout)


def register_reader(reader: ReaderSpec) -> None:
    """Add a dump format, by its `name`: `read_dump`, `compare` and `dump.auto` recognise and read such dumps.

    >>> import probe_flow as pf
    >>> from probe_flow.dumps.registry import ReaderSpec
    >>> from probe_flow.records.frameworks import Framework
    >>> def read_notes(path, *, side, select):
    ...     return pf.Catalog(side, Framework("notes"), "statistics", path, {}, ())
    >>> pf.register_reader(ReaderSpec("notes", lambda folders, name: name == "notes.txt", "notes.txt", read_notes))
    >>> pf.read_dump("examples", kind="notes").framework.name
    'notes'

    Raises:
        UsageError: PF3432 if it cannot be used, or the name is taken.
    """
    from probe_flow.dumps.registry import READERS

    with told_whole():
        READERS.register(str(getattr(reader, "name", "")), reader)


def register_stage(stage: StageType) -> None:
    """Add a stage, by its `uses`: workflow files may name it.

    >>> import json, probe_flow as pf
    >>> from pathlib import Path
    >>> from probe_flow.testing.measured_pairs import STAGE
    >>> pf.register_stage(STAGE)
    >>> stages = {"dump": {"uses": "dump.arrays", "path": "examples/arrays/golden"},
    ...           "rounded": {"uses": "testing.rounded", "catalog": "dump"},
    ...           "result": {"uses": "compare", "pairs": "rounded"}}
    >>> _ = Path("rounded.yaml").write_text(json.dumps({"version": 1, "name": "rounded", "stages": stages}))
    >>> pf.run("rounded.yaml").verdict
    'pass'

    Raises:
        UsageError: PF1020 if it cannot be used, or the name is taken.
    """
    from probe_flow.stages.registry import STAGES

    with told_whole():
        STAGES.register(str(getattr(stage, "uses", "")), stage)
