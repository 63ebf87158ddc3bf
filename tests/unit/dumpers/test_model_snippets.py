"""The code that `init --snippet` prints for files of models runs, and its dumps are those of the stages."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from probe_flow.cli.authoring.init import SNIPPETS
from probe_flow.dumps.offline.npy_folder import read_npy_folder

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Return a folder with the models of the offline samples."""
    with zipfile.ZipFile(ROOT / "examples" / "offline" / "samples.zip") as archive:
        archive.extractall(tmp_path, [name for name in archive.namelist() if name.startswith("models/")])
    return tmp_path / "models"


def run(snippet: str, folder: Path, *arguments: object) -> dict[str, Any]:
    """Run a snippet as a script, and return the arrays of its dump by node."""
    script = folder / f"dump_{snippet}.py"
    script.write_text(SNIPPETS[snippet], encoding="utf-8")
    subprocess.run([sys.executable, script, *map(str, arguments)], check=True, timeout=300, capture_output=True)
    catalog = read_npy_folder(folder / "dump", side="golden")
    assert catalog.problems == ()
    return {ref.node.name: np.load(ref.source) for ref in catalog.tensors if ref.source is not None}


def image(models: Path, *, has_channels_last: bool = False) -> Path:
    x = np.random.default_rng(0).random((1, 3, 8, 8), np.float32)
    np.save(models / "x.npy", x.transpose(0, 2, 3, 1) if has_channels_last else x)
    return models / "x.npy"


@pytest.mark.frameworks
@pytest.mark.parametrize(
    ("snippet", "module", "count"),
    [("onnx", "onnxruntime", 13), ("caffe", "cv2", 12), ("tensorflow", "tensorflow", 15)],
)
def test_snippet_dumps_every_tensor(models: Path, snippet: str, module: str, count: int) -> None:
    pytest.importorskip(module)
    x = image(models, has_channels_last=snippet == "tensorflow")
    given = {
        "onnx": (models / "sample.onnx", models / "dump", f"x={x}"),
        "caffe": (models / "sample.prototxt", models / "sample.caffemodel", models / "dump", x),
        "tensorflow": (models / "sample.pb", models / "dump", f"x={x}"),
    }

    found = run(snippet, models, *given[snippet])

    assert len(found) >= count
    assert np.isclose(found["softmax"].sum(), 1.0, atol=1e-5)
    assert found["fc"].size == found["softmax"].size


@pytest.mark.parametrize("name", ["onnx", "caffe", "tensorflow", "kernel"])
def test_python_snippets_are_python(name: str) -> None:
    compile(SNIPPETS[name], name, "exec")


def test_configuration_of_the_om_snippet_is_json() -> None:
    text = SNIPPETS["om"]
    content = json.loads(text[text.index("<<JSON\n") + 7 : text.index("\nJSON\n")])

    assert content["dump"]["dump_mode"] == "all"
    assert content["dump"]["dump_list"] == [{"model_name": "$name"}]
    subprocess.run(["bash", "-n"], input=text, text=True, check=True, timeout=60)
