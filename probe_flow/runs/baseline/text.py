"""What the command `baseline` says: of a file that it wrote or reads, and of a run against it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from probe_flow.record.baseline_file import BaselineFile
from probe_flow.record.excuses import baseline_facts, baseline_lines, deviant_facts
from probe_flow.record.json_values import json_number
from probe_flow.record.places import figure, printable
from probe_flow.record.run_json import plain
from probe_flow.records import BaselineUse, Deviant
from probe_flow.runs.baseline.accept import Accepted


def accepted_lines(accepted: Accepted, path: str) -> Iterator[str]:
    """Yield what `accept` says: how much is accepted, and how that differs from the file before."""
    file, before = accepted.file, accepted.before
    for name, baseline in file.comparisons.items():
        places = {each.place for each in baseline.deviants}
        old = before.comparisons.get(name) if before is not None else None
        known = {each.place for each in old.deviants} if old is not None else set()
        change = f"; {len(places - known)} new, {len(known - places)} gone" if before is not None else ""
        yield printable(f"{name}: {_counted(len(places))} accepted, gate `{baseline.gate}`{change}")
    yield printable(f"written: {path}")


def file_lines(file: BaselineFile) -> Iterator[str]:
    """Yield a baseline file for people."""
    yield printable(f"workflow {file.workflow}, accepted from run {file.run or 'unknown'}")
    for name, baseline in file.comparisons.items():
        compared = ", ".join(f"{count} of the {side}" for side, count in baseline.compared.items())
        yield printable(
            f"{name}: {_counted(len(baseline.deviants))}, gate `{baseline.gate}`, policy `{baseline.policy}`; tensors "
            f"compared: {compared or 'not recorded'}"
        )
        for each in baseline.deviants:
            yield printable(f"  {_deviant(each)}")


def file_json(file: BaselineFile) -> str:
    """Return a baseline file for programs."""
    return _json(
        {
            "workflow": file.workflow,
            "run": file.run,
            "comparisons": {
                name: {
                    "gate": baseline.gate,
                    "policy": baseline.policy,
                    "compared": dict(baseline.compared),
                    "deviations": [
                        {**deviant_facts(each), "figure": json_number(each.figure)} for each in baseline.deviants
                    ],
                }
                for name, baseline in file.comparisons.items()
            },
        }
    )


def check_lines(uses: Mapping[str, BaselineUse]) -> Iterator[str]:
    """Yield how a run stands against a baseline, for people."""
    for name, use in uses.items():
        for line in baseline_lines(baseline_facts(use)):
            yield printable(f"{name}: {line}")
    is_worse = any(use.worse for use in uses.values())
    yield "WORSE than the baseline" if is_worse else "nothing is worse than the baseline"


def check_json(uses: Mapping[str, BaselineUse]) -> str:
    """Return how a run stands against a baseline, for programs."""
    return _json(
        {
            "worse": any(use.worse for use in uses.values()),
            "comparisons": {name: plain(baseline_facts(use)) for name, use in uses.items()},
        }
    )


def _deviant(each: Deviant) -> str:
    op_type = f" ({each.op_type})" if each.op_type else ""
    graph = f", graph {each.graph}" if each.graph is not None else ""
    size = f": {figure(each.figure)}" if each.figure is not None else ""
    return f"{each}{op_type}{graph}, {each.kind.replace('_', ' ')}{size}"


def _counted(count: int) -> str:
    return f"{count} deviation{'' if count == 1 else 's'}"


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
