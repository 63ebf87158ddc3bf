"""SARIF 2.1.0, which code hosts and editors show beside the source: a run with results at lines of files.

Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from probe_flow.errors import CODES, Diagnostic, Severity
from probe_flow.record.places import printable
from probe_flow.reports.ci.annotations import Annotation, relative_to
from probe_flow.version import __version__

VERSION = "2.1.0"
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS: Mapping[Severity, str] = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


class Result(Struct, frozen=True):
    """One result.

    Args:
        rule: its id.
        level: ``error``, ``warning`` or ``note``.
        message: what people read.
        file: path that the host knows, from the root of its checkout; empty for none.
        line, column, end_line, end_column: from 1; 0 where not known.
        properties: further facts.
        fingerprint: what tells it from others in a next run, whatever line it has then.
    """

    rule: str
    level: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    properties: Mapping[str, object] = {}
    fingerprint: str = ""


def sarif(results: Iterable[Result], rules: Mapping[str, str]) -> dict[str, Any]:
    """Return a SARIF log with one run.

    Args:
        results: what was found.
        rules: id -> what it means, for the rules that results have.
    """
    found = list(results)
    used = [rule for rule in rules if any(each.rule == rule for each in found)]
    driver = {
        "name": "probe_flow",
        "version": __version__,
        "rules": [
            {"id": rule, "shortDescription": {"text": rules[rule]}, "name": rule.replace(" ", "")} for rule in used
        ],
    }
    results_json = [_result(each, used) for each in found]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results_json}
    return {"$schema": SCHEMA, "version": VERSION, "runs": [run]}


def _result(each: Result, rules: list[str]) -> dict[str, Any]:
    result: dict[str, Any] = {"ruleId": each.rule, "level": each.level, "message": {"text": each.message}}
    if each.rule in rules:
        result["ruleIndex"] = rules.index(each.rule)
    if each.file:
        names = {"startLine": each.line, "startColumn": each.column, "endLine": each.end_line}
        region = {name: value for name, value in {**names, "endColumn": each.end_column}.items() if value}
        place: dict[str, Any] = {"artifactLocation": {"uri": each.file}}
        if region:
            place["region"] = region
        result["locations"] = [{"physicalLocation": place}]
    if each.fingerprint:
        result["partialFingerprints"] = {"probeFlow/v1": each.fingerprint}
    if each.properties:
        result["properties"] = dict(each.properties)
    return result


def sarif_text(found: Sequence[Annotation], *, workflow: str, root: Path) -> str:
    """Return what annotations say as a SARIF log.

    A result has the source line of its operator where the dump has stacks, else the workflow file: code hosts show no
    result without a place. Its fingerprint is what is said of which tensor: it stays the same one when lines move.

    Args:
        found: the annotations of a run.
        workflow: the workflow file.
        root: the checkout.
    """
    results = [_of_annotation(each, relative_to(workflow, root)) for each in found]
    return json.dumps(sarif(results, {each.check: each.title for each in found}), indent=2, ensure_ascii=False) + "\n"


def _of_annotation(each: Annotation, workflow: str) -> Result:
    identity = "\0".join((each.check, each.message.partition(":")[0]))
    return Result(
        each.check,
        {"notice": "note"}.get(each.level.value, each.level.value),
        printable(f"{each.title}: {each.message}"),
        quote(each.file or workflow),
        each.line or 1,
        each.column or 0,
        each.end_line or 0,
        each.end_column or 0,
        fingerprint=hashlib.sha256(identity.encode("utf-8", "backslashreplace")).hexdigest(),
    )


def of_diagnostics(found: Iterable[Diagnostic]) -> dict[str, Any]:
    """Return diagnostics as a SARIF log, each at its place."""
    results = [_of_diagnostic(each) for each in found]
    return sarif(results, {each.rule: CODES[each.rule].title for each in results})


def _of_diagnostic(each: Diagnostic) -> Result:
    span = each.span
    text = f"{each.message}; {each.help}" if each.help else each.message
    if span is None:
        return Result(each.code, LEVELS[each.severity], text, quote(each.path or ""))
    return Result(
        each.code,
        LEVELS[each.severity],
        text,
        quote(span.file),
        span.line,
        span.column,
        span.end_line,
        span.end_column,
    )
