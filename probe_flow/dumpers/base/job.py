"""What a child process shall run, and what it left: two small JSON files between it and the stage."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from probe_flow.dumps.manifest import JOB_FILE
from probe_flow.files.opening import open_bytes, read_text
from probe_flow.version import __version__

RUN_FILE, LOG_FILE = "model_run.json", "model.log"
RUN_SCHEMA = "probe_flow/model_run/1"
INPUT_FOLDER = "input"

_MAX_BYTES = 64 << 20


class ModelJob(Struct, frozen=True):
    """One run of a model in a child process.

    Args:
        kind: name of the runner.
        model: ``module:attribute``, or the path of a file or a folder, see `source`.
        inputs: ``files``, ``random`` or ``callable``, each with its options; empty = the model takes nothing.
        output: folder that everything is written to.
        dump: options of the dump.
        calls: how often the model is called.
        import_from: folder that modules are imported from first; None = the working directory.
        seed: of every random number generator.
        is_deterministic: ask the framework for deterministic algorithms.
        threads: of the framework; None = its own choice.
        memory_bytes: of its own memory that the process may take (mapped files do not count); None = no limit.
        seconds: that the process may take, the end of which ends it; None = as long as it lives.
        device: where model and inputs are moved; None = nowhere.
        has_backward: also run the backward pass, of the sum of the results.
        dynamic: whether the framework shall compile for shapes that vary; None = its own choice.
    """

    kind: str
    model: str
    inputs: Mapping[str, Any]
    output: str
    dump: Mapping[str, Any] = field(default_factory=dict)
    calls: int = 1
    import_from: str | None = None
    seed: int = 0
    is_deterministic: bool = True
    threads: int | None = None
    memory_bytes: int | None = None
    seconds: int | None = None
    device: str | None = None
    has_backward: bool = False
    dynamic: bool | None = None

    def write(self) -> Path:
        """Write the job into its output folder."""
        path = Path(self.output) / JOB_FILE
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        return path

    def facts(self, record: Mapping[str, Any], framework: str) -> dict[str, Any]:
        """Return what the manifest of a dump says of the run, for people: versions, hashes, seed and threads.

        Args:
            record: of the run.
            framework: in words.
        """
        return {
            "framework": framework,
            "versions": {"probe_flow": __version__, **record.get("versions", {})},
            "model": {"name": self.model, **(record.get("source") or {})},
            "files": record.get("files", []),
            "inputs": record.get("inputs", []),
            "seed": self.seed,
            "threads": record.get("threads", self.threads),
            "is_deterministic": self.is_deterministic,
        }


def read_job(path: Path) -> ModelJob:
    """Return the job of a file that `ModelJob.write` made."""
    return ModelJob(**json.loads(read_text(path)))


def read_run(output: Path) -> dict[str, Any]:
    """Return what a child process left, empty when it left nothing that can be read."""
    path = output / RUN_FILE
    try:
        if path.stat().st_size > _MAX_BYTES:
            return {}
        content = json.loads(read_text(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) and content.get("schema") == RUN_SCHEMA else {}


def is_done(job: ModelJob) -> bool:
    """Return True if a finished run of the same job lies in its folder: same options, model and input files."""
    run = read_run(Path(job.output))
    if not run.get("ok") or run.get("job") != json.loads(json.dumps(asdict(job))):
        return False
    source, files = run.get("source"), run.get("files", [])
    return isinstance(source, dict) and isinstance(files, list) and all(map(_is_unchanged, [source, *files]))


def _is_unchanged(file: object) -> bool:
    return isinstance(file, dict) and file.get("sha256") == source_digest(Path(str(file.get("path"))))


def digests(paths: Iterable[Path]) -> list[dict[str, str | None]]:
    """Return the path and the SHA-256 of files, as the record of a run has them."""
    return [{"path": str(path), "sha256": source_digest(path)} for path in paths]


def source_digest(path: Path) -> str | None:
    """Return the SHA-256 of a file, or of all names and files in a folder; None when it cannot be read."""
    if not path.is_dir():
        return _file_digest(path)
    digest = hashlib.sha256()
    for file in sorted(each for each in path.rglob("*") if each.is_file() and each.suffix != ".pyc"):
        digest.update(f"{file.relative_to(path)}\0{_file_digest(file)}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _file_digest(path: Path) -> str | None:
    try:
        with open_bytes(path) as file:
            return _digest(file)
    except OSError:
        return None


def _digest(file: Any) -> str:
    digest = hashlib.sha256()
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()
