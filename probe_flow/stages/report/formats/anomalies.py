"""`anomaly_analyze`: the calls in which NaN or infinity begins, as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from probe_flow.errors import Diagnostic, Severity
from probe_flow.reports.formats import FileFormat, ReportFile, Request


def _files(request: Request, _option: None) -> Iterable[ReportFile]:
    """Yield the file where there is anything to say; no file is the answer of a dump in which all is finite."""
    from probe_flow.reports.anomalies import begins, write_anomalies

    found = begins(request.comparison)
    if found:
        name = f"anomaly_analyze{request.suffix}_{int(request.started.timestamp() * 1e6)}000.json"
        yield ReportFile(name, partial(write_anomalies, found, request.comparison))
    else:
        message = "NaN and infinity begin nowhere, so `anomaly_analyze` writes no file"
        request.problems.append(Diagnostic("PF7141", message, severity=Severity.NOTE))


ANOMALY_ANALYZE = FileFormat("anomaly_analyze", _files)
