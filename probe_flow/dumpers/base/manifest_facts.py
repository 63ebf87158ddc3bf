"""What the manifest of a dump says of the run that made it: the same for every framework."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from probe_flow.dumpers.base.job import ModelJob
from probe_flow.version import __version__


def manifest_facts(job: ModelJob, record: Mapping[str, Any], framework: str) -> dict[str, Any]:
    """Return versions, hashes of model and inputs, seed and threads of a run, for people.

    Args:
        job: what was run.
        record: of the run.
        framework: in words.
    """
    return {
        "framework": framework,
        "versions": {"probe_flow": __version__, **record.get("versions", {})},
        "model": {"name": job.model, **(record.get("source") or {})},
        "files": record.get("files", []),
        "inputs": record.get("inputs", []),
        "seed": job.seed,
        "threads": record.get("threads", job.threads),
        "is_deterministic": job.is_deterministic,
    }
