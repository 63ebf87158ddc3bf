"""The manifests beside an FX dump that probe_flow wrote: names, and what a reader finds missing by them.

``dump_manifest.json`` lies in the folder of a rank from the beginning, ``graph_manifest.json`` in that of a graph since
it was compiled, ``step_manifest.json`` in that of an execution once it has ended. Dumps of TorchAir have none of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator

from probe_flow.errors import Diagnostic, Severity
from probe_flow.files.opening import read_text
from probe_flow.files.walk import DumpFile
from probe_flow.records import Problem

DUMP_MANIFEST, GRAPH_MANIFEST, STEP_MANIFEST = "dump_manifest.json", "graph_manifest.json", "step_manifest.json"
MANIFESTS = frozenset({DUMP_MANIFEST, GRAPH_MANIFEST, STEP_MANIFEST})
DUMP_SCHEMA, GRAPH_SCHEMA, STEP_SCHEMA = (f"probe_flow/fx_{name}/1" for name in ("dump", "graph", "step"))

_MAX_BYTES = 256 << 20
_MAX_LISTED = 5


def manifest_problems(files: Iterable[DumpFile]) -> Iterator[Problem]:
    """Yield PF6340 for each execution of our own dump that did not end, or of which files were lost or left out."""
    listed = list(files)
    ours = [
        file.folders for file in listed if file.name == DUMP_MANIFEST and _content(file).get("schema") == DUMP_SCHEMA
    ]
    if not ours:
        return
    arrays = Counter(file.folders for file in listed if file.name.endswith(".npy"))
    ended = {file.folders: file for file in listed if file.name == STEP_MANIFEST}
    for folders in sorted({*arrays, *ended}):
        if not any(folders[: len(rank)] == rank for rank in ours):
            continue
        if folders not in ended:
            yield _incomplete(folders, "did not end: it has no manifest", ())
            continue
        content = _content(ended[folders])
        written, skipped = content.get("written"), content.get("skipped")
        if isinstance(written, int) and arrays[folders] < written:
            yield _incomplete(folders, f"holds {arrays[folders]} arrays, its manifest counts {written}", ())
        if isinstance(skipped, list) and skipped:
            yield _incomplete(folders, f"lacks {len(skipped)} tensors that were not written", skipped)


def _incomplete(folders: tuple[str, ...], what: str, skipped: list[object] | tuple[()]) -> Problem:
    return Diagnostic(
        "PF6340",
        f"the execution `{'/'.join(folders)}` {what}",
        severity=Severity.WARNING,
        help="look at why the dump ended or left them out, and dump again",
        notes=tuple(
            f"`{entry.get('tensor')}`: {entry.get('reason')}"
            for entry in skipped[:_MAX_LISTED]
            if isinstance(entry, dict)
        ),
        path="/".join(folders),
    )


def _content(file: DumpFile) -> dict[str, object]:
    if file.size > _MAX_BYTES:
        return {}
    try:
        content = json.loads(read_text(file.path))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
