"""The forms of a model: ``module:attribute``, a Python file, a package, and a file or folder of the framework."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from toy_framework import TOY, ToyRunner

from probe_flow.dumpers.base.job import ModelJob, is_done
from probe_flow.dumpers.base.process import run_model
from probe_flow.dumpers.base.source import load_model
from probe_flow.errors import UsageError
from probe_flow.files.model_names import path_in, split_model

NET = (
    "from toy_framework import Net, scaled\nmodel = Net(scaled('a', 2.0))\ndef build(): return Net(scaled('b', 3.0))\n"
)

FILES: Mapping[str, str] = {
    "net.py": NET,
    "nets/__init__.py": "from nets.layers import model, build\n",
    "nets/layers.py": NET,
    "sums/my-net.py": "from other import layer\nfrom toy_framework import Net\nmodel = Net(layer)\n",
    "sums/other.py": "from toy_framework import scaled\nlayer = scaled('beside', 5.0)\n",
    "json.py": NET.replace("'a'", "'not_that_of_python'"),
    "typed.py": "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    "from toy_framework import Net, scaled\n@dataclass\nclass Size:\n    factor: float = 4.0\n"
    "model = Net(scaled('typed', Size().factor))\n",
    "inner.py": NET + "class Zoo:\n    small = Net(scaled('small', 6.0))\n",
    "small.toy": json.dumps([["toy", 7.0]]),
    "parts/1.toy": json.dumps([["first", 2.0]]),
    "parts/2.toy": json.dumps([["second", 5.0]]),
    "cut.toy": '[["toy", 7.0',
    "model.other": "",
    "broken.py": "1 / 0",
    "exits.py": "import sys\nsys.exit('no weights')",
    "empty/readme.txt": "",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    np.save(tmp_path / "x.npy", np.ones(1))
    (tmp_path / "out").mkdir()
    return tmp_path


def job_of(folder: Path, model: str) -> ModelJob:
    inputs = {"files": [str(folder / "x.npy")]}
    return ModelJob("toy", model, inputs, str(folder / "out"), import_from=str(folder))


@pytest.mark.parametrize(
    ("model", "layers", "source"),
    [
        ("net:model", {"a": 2.0}, "net.py"),
        ("net:build", {"b": 3.0}, "net.py"),
        ("inner:Zoo.small", {"small": 6.0}, "inner.py"),
        ("nets.layers:build", {"b": 3.0}, "nets/layers.py"),
        ("{}/net.py", {"a": 2.0}, "net.py"),
        ("{}/net.py:build", {"b": 3.0}, "net.py"),
        ("{}/inner.py:Zoo.small", {"small": 6.0}, "inner.py"),
        ("{}/sums/my-net.py", {"beside": 5.0}, "sums/my-net.py"),
        ("{}/json.py", {"not_that_of_python": 2.0}, "json.py"),
        ("{}/typed.py", {"typed": 4.0}, "typed.py"),
        ("{}/nets", {"a": 2.0}, "nets"),
        ("{}/nets:build", {"b": 3.0}, "nets"),
        ("{}/small.toy", {"toy": 7.0}, "small.toy"),
        ("{}/parts", {"first": 2.0, "second": 10.0}, "parts"),
    ],
)
def test_each_form_of_a_model_is_run(folder: Path, model: str, layers: dict[str, float], source: str) -> None:
    job = job_of(folder, model.format(folder))

    record = run_model(job, TOY)

    dumped = {path.stem: float(np.load(path)[0]) for path in (TOY.dump_folder(job) / "0").iterdir()}
    assert dumped == layers
    assert record["source"]["path"] == str(folder / source)
    assert is_done(job)
    files = [folder / source, *(folder / source).glob("*.py"), *(folder / source).glob("*.toy")]
    changed = next(each for each in files if each.is_file())
    changed.write_text(changed.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert not is_done(job)


def test_inputs_may_come_from_the_file_of_the_model(folder: Path) -> None:
    text = NET + "import numpy as np\nprint('loaded once')\ndef inputs(): return np.array([4.0])\n"
    (folder / "both.py").write_text(text, encoding="utf-8")
    job = replace(job_of(folder, f"{folder}/both.py"), inputs={"callable": "both:inputs"}, import_from=None)

    run_model(job, TOY)

    assert np.load(TOY.dump_folder(job) / "0" / "a.npy").tolist() == [8.0]
    assert (folder / "out" / "model.log").read_text(encoding="utf-8") == "loaded once\n"


@pytest.mark.parametrize(
    ("model", "message", "help_text"),
    [
        ("nett:model", "`nett` cannot be imported: ModuleNotFoundError", "modules are looked for in `{}` first"),
        ("broken:model", "`broken` cannot be imported: ZeroDivisionError", "`import_from` names another folder"),
        ("net:modle", "`net` has no `modle`", "did you mean `model`?"),
        ("inner:Zoo.smal", "`inner` has no `smal`", "did you mean `small`?"),
        ("net:__name__", "is of type `str`, neither a model", "name a `Net`, or a function without arguments"),
        ("{}/nett.py", "nett.py` does not exist", "did you mean `net.py`"),
        ("{}/nowhere/net.py", "does not exist", "correct the path"),
        ("{}/broken.py", "`broken.py` cannot be imported: ZeroDivisionError", "the traceback stands in the log"),
        ("{}/net.py:biuld", "`net.py` has no `biuld`", "did you mean `build`"),
        ("{}/sums/other.py", "`other.py` has no `model`", "correct the name"),
        ("{}/net.py:scaled", "cannot be called without arguments: TypeError", "name a `Net`"),
        ("{}/empty:model", "is a folder without `__init__.py`", "name a Python file, or a package"),
        ("{}/cut.toy", "cannot be read: JSONDecodeError", "toy reads the file"),
        ("{}/smal.toy", "does not exist", "did you mean `small.toy`?"),
        ("{}/model.other", "is no Python file", "toy takes `module:attribute`, a `.py` file"),
    ],
)
def test_a_model_that_is_none_says_what_to_change(folder: Path, model: str, message: str, help_text: str) -> None:
    with pytest.raises(UsageError) as raised:
        run_model(job_of(folder, model.format(folder)), TOY)

    first = raised.value.diagnostic
    assert first.code == "PF6322"
    assert message in first.message
    assert help_text.format(folder) in (first.help or "")


class Recipes(ToyRunner):
    """Its models are data, as those of ONNX are: nothing to call."""

    def is_model(self, found: object) -> bool:
        return isinstance(found, dict)


def test_a_function_may_return_a_model_that_cannot_be_called(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (folder / "recipes.py").write_text("model = {'a': 2.0}\ndef build(): return {'b': 3.0}\n", encoding="utf-8")
    job = job_of(folder, "recipes:build")
    runner = Recipes(job, folder / "out" / "toy_dump")

    assert load_model(f"{folder}/recipes.py:build", runner)[0] == {"b": 3.0}
    assert load_model(f"{folder}/recipes.py:model", runner)[0] == {"a": 2.0}


class CodeOnly(ToyRunner):
    model_files = ()


class FilesOnly(ToyRunner):
    model_files = (".toy",)
    takes_code = False


@pytest.mark.parametrize(
    ("runner", "model", "message", "help_text"),
    [
        (CodeOnly, "parts", "is a folder without `__init__.py`", "a folder with `__init__.py`"),
        (
            CodeOnly,
            "small.toy",
            "is no Python file",
            "toy takes `module:attribute`, a `.py` file or a folder with `__init__.py`",
        ),
        (FilesOnly, "net.py", "is Python code", "toy takes a `.toy` file"),
        (FilesOnly, "parts", "is a folder without `__init__.py`", "toy takes a `.toy` file"),
    ],
)
def test_forms_that_a_framework_does_not_take_are_refused(
    folder: Path, runner: type[ToyRunner], model: str, message: str, help_text: str
) -> None:
    job = job_of(folder, str(folder / model))

    with pytest.raises(UsageError) as raised:
        load_model(job.model, runner(job, folder / "dump"))

    assert message in raised.value.diagnostic.message
    assert help_text in (raised.value.diagnostic.help or "")


@pytest.mark.parametrize(
    ("name", "path", "attribute"),
    [
        ("net:build", None, "build"),
        ("a.b:C.d", None, "C.d"),
        ("net.py", "net.py", None),
        ("net.py:build", "net.py", "build"),
        ("./net", "net", None),
        ("nets/small:Zoo.model", "nets/small", "Zoo.model"),
        ("/a b/net.model", "/a b/net.model", None),
        ("/a:b/net.py", "/a:b/net.py", None),
    ],
)
def test_names_of_models_are_paths_or_modules(name: str, path: str | None, attribute: str | None) -> None:
    assert split_model(name) == (Path(path) if path is not None else None, attribute)


@pytest.mark.parametrize("name", ["net", "net build", "a:b:c", ""])
def test_other_words_name_no_path(name: str) -> None:
    assert path_in(name) is None


def test_a_folder_is_known_by_all_of_its_files(folder: Path) -> None:
    from probe_flow.dumpers.base.job import source_digest

    wanted = hashlib.sha256()
    for name in ("1.toy", "2.toy"):
        inner = hashlib.sha256((folder / "parts" / name).read_bytes()).hexdigest()
        wanted.update(f"{name}\0{inner}\0".encode())
    assert source_digest(folder / "parts") == wanted.hexdigest()
    assert source_digest(folder / "nowhere") is None
    known: list[Any] = [source_digest(folder / "parts")]
    (folder / "parts" / "1.toy").rename(folder / "parts" / "3.toy")
    known.append(source_digest(folder / "parts"))
    assert known[0] != known[1]
