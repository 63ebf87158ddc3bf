"""What a script does that reproduces operators of an ONNX graph: by ONNX Runtime, and in float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any

from probe_flow.apis.onnx.part import OnnxPart
from probe_flow.apis.scripts.repro_steps import decided, reproduce
from probe_flow.apis.side import Side


def main(frozen: Mapping[str, Any], arguments: Sequence[str] | None = None) -> int:
    """Compute the operators again and print what comes of it.

    Args:
        frozen: ``graphs`` (side -> as `OnnxPart` takes it) and what `repro_steps.reproduce` takes.
        arguments: of the command line.

    Returns:
        0 where the dumped result is what this processor gives too, 1 where it is not, 3 where that cannot be told.
    """
    folder = FilePath(__file__).resolve().parent / frozen["folder"]

    def sides(name: str) -> tuple[Side, Side]:
        graph = frozen["graphs"][name]
        return OnnxPart(graph, folder, is_double=False), OnnxPart(graph, folder, is_double=True)

    libraries = ("onnxruntime", "onnx", "numpy")
    return reproduce(frozen, arguments, lambda outputs: decided(frozen, outputs, sides), libraries)
