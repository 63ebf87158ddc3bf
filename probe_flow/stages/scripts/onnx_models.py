"""The ONNX models by which operators of offline models are computed again: those named, else those of the dumps."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from probe_flow.records import Catalog
    from probe_flow.scripts.onnx_operator import Model

_CHUNK = 1 << 20


def onnx_models(
    target: Catalog, golden: Catalog | None, model: str | None, golden_model: str | None
) -> tuple[Model | None, Model | None]:
    """Return the model that the target's operators are computed by, and that of the golden where both are of ONNX.

    Args:
        target, golden: the dumps; others than those of offline models have no model.
        model, golden_model: their files. Where none is named, a dump of ours has the name of the file that it was made
            of, which counts while it has the same content.

    Raises:
        UsageError: PF6322 a file is no model that can be read.
    """
    from probe_flow.records.frameworks import NPY, OM

    if target.framework == OM:
        return _read(model or golden_model or (_made_of(golden) if golden is not None else None)), None
    if target.framework != NPY:
        return None, None
    other = golden_model or (_made_of(golden) if golden is not None else None)
    return _read(model or _made_of(target)), _read(other)


def _made_of(dump: Catalog) -> str | None:
    from probe_flow.dumps.manifest import model_file
    from probe_flow.files.existing import is_file

    found = model_file(Path(dump.root))
    if found is None or found.framework != "onnxruntime" or not is_file(Path(found.path)):
        return None
    return found.path if _digest(Path(found.path)) == found.sha256 else None


def _digest(path: Path) -> str:
    from probe_flow.files.opening import open_bytes

    digest = hashlib.sha256()
    try:
        with open_bytes(path) as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError:
        return ""
    return digest.hexdigest()


def _read(path: str | None) -> Model | None:
    if path is None:
        return None
    from probe_flow.scripts.onnx_parts import ModelParts

    return ModelParts(Path(path))
