"""`op_generate`: what is extracted and written, and what it says of configurations and entries that are wrong."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "data" / "op_generate"
SOFTMAX, MATMUL = "Functional.softmax.0", "Torch.matmul.0"


def entries(name: str) -> dict[str, object]:
    found = json.loads((DATA / f"extracted_{name}.json").read_text())
    assert isinstance(found, dict)
    return found


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    data = {**entries(SOFTMAX), **entries(MATMUL)}
    dump = {"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None, "data": data}
    (tmp_path / "dump.json").write_text(json.dumps(dump))
    return tmp_path


def configured(place: Path, **config: object) -> str:
    (place / "config.json").write_text(json.dumps(config))
    return "config.json"


def frozen(script: Path) -> dict[str, object]:
    """The settings of a script, by its syntax tree: nothing of it is run."""
    assigned = {
        node.targets[0].id: node.value
        for node in ast.parse(script.read_text()).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    call = assigned["FROZEN"]
    assert isinstance(call, ast.Call)
    found = json.loads(ast.literal_eval(call.args[0]))
    assert isinstance(found, dict)
    return found


def test_an_api_is_extracted_and_its_script_written(probe_flow, place: Path):
    words = {"dump_json_path": "dump.json", "api_name": MATMUL, "extract_api_path": "new/matmul.json"}
    done = probe_flow("op_generate", "-i", configured(place, **words), "-o", "out")
    assert done.code == 0, done.err
    assert done.out.splitlines() == ["written: new/matmul.json", f"written: out/{MATMUL}.forward.py"]
    assert json.loads((place / "new" / "matmul.json").read_text()) == entries(MATMUL), "as msprobe extracts it"
    script = place / "out" / f"{MATMUL}.forward.py"
    assert script.stat().st_mode & 0o777 == 0o640
    settings = frozen(script)
    assert {name: settings[name] for name in ("seed", "iterations", "propagation", "is_random", "kind", "api")} == {
        "seed": 1234, "iterations": 1, "propagation": "forward", "is_random": True, "kind": "Torch", "api": "matmul",
    }  # fmt: skip


def test_what_was_extracted_before_is_enough(probe_flow, place: Path):
    shutil.copy(DATA / f"extracted_{MATMUL}.json", place / "api.json")
    config = configured(place, extract_api_path="api.json", propagation="backward", random_seed=7, iter_times=3)
    assert probe_flow("-f", "pytorch", "op_generate", "--config_input", config, "--api_output_path", "out").code == 0
    settings = frozen(place / "out" / f"{MATMUL}.backward.py")
    assert (settings["seed"], settings["iterations"], settings["propagation"]) == (7, 3, "backward")


def test_a_script_needs_nothing_of_ours(probe_flow, place: Path):
    config = configured(place, dump_json_path="dump.json", api_name=SOFTMAX, extract_api_path="api.json")
    assert probe_flow("op_generate", "-i", config, "-o", "out").code == 0
    tree = ast.parse((place / "out" / f"{SOFTMAX}.forward.py").read_text())
    roots = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            roots |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            roots.add((node.module or "").partition(".")[0])
    assert "probe_flow" not in roots
    assert "tabulate" not in roots


def test_nothing_of_a_dump_is_source_text(probe_flow, place: Path):
    evil = "'''\nimport os; os.system('touch stolen')\n'''\\"
    data = {
        "Functional.softmax.0.forward": {
            "input_args": [{"type": "str", "value": evil}],
            "input_kwargs": {evil: {"type": "torch.dtype", "value": evil}},
            "output": [],
        }
    }
    (place / "api.json").write_text(json.dumps(data))
    assert probe_flow("op_generate", "-i", configured(place, extract_api_path="api.json"), "-o", "out").code == 0
    script = place / "out" / "Functional.softmax.0.forward.py"
    assert frozen(script)["entries"] == {"forward": data["Functional.softmax.0.forward"]}
    assert "stolen" not in ast.dump(
        ast.Module([n for n in ast.parse(script.read_text()).body if not isinstance(n, ast.Assign)], [])
    )


def test_tensor_files_are_named_by_their_paths(probe_flow, place: Path):
    dump = json.loads((place / "dump.json").read_text())
    folder = place / "dump_tensor_data"
    folder.mkdir()
    dump["dump_data_dir"] = str(folder)
    entry = dump["data"][f"{MATMUL}.forward"]
    entry["input_kwargs"] = {"x": [{**entry["input_args"][0], "data_name": "kw.pt"}]}
    entry["input_args"][0]["data_name"] = "a.pt"
    (place / "dump.json").write_text(json.dumps(dump))
    words = {"dump_json_path": "dump.json", "api_name": MATMUL, "extract_api_path": "a.json", "data_mode": "real_data"}
    assert probe_flow("op_generate", "-i", configured(place, **words, iter_times=9), "-o", "out").code == 0
    found = json.loads((place / "a.json").read_text())[f"{MATMUL}.forward"]
    assert found["input_args"][0]["data_name"] == str(folder / "a.pt")
    assert found["input_kwargs"]["x"][0]["data_name"] == str(folder / "kw.pt")
    assert frozen(place / "out" / f"{MATMUL}.forward.py")["iterations"] == 1


@pytest.mark.parametrize(
    ("config", "code", "said"),
    [
        ({}, 2, "extract_api_path"),
        ({"extract_api_path": ""}, 2, "extract_api_path"),
        ({"extract_api_path": "a.json", "iter_time": 2}, 2, "did you mean `iter_times`"),
        ({"extract_api_path": "a.json", "iter_times": 0}, 2, "1 to 1000"),
        ({"extract_api_path": "a.json", "iter_times": "2"}, 2, "Expected `int`"),
        ({"extract_api_path": "a.json", "propagation": "both"}, 2, "propagation"),
        ({"extract_api_path": "a.json", "random_seed": 1.5}, 2, "random_seed"),
        ({"extract_api_path": "a.json"}, 2, "dump_json_path"),
        ({"extract_api_path": "a.json", "dump_json_path": "dump.json"}, 2, "no `api_name`"),
        ({"extract_api_path": "a.json", "dump_json_path": "dump.json", "api_name": "softmax"}, 2, "api_name"),
        ({"extract_api_path": "a.json", "dump_json_path": "dump.json", "api_name": "Functional.sotfmax.0"}, 2, SOFTMAX),
        ({"extract_api_path": "a.json", "dump_json_path": "none.json", "api_name": SOFTMAX}, 2, "none.json"),
        ({"extract_api_path": "empty.json"}, 3, "no entry"),
        ({"extract_api_path": "list.json"}, 3, "not an object"),
        ({"extract_api_path": "several.json"}, 3, "several APIs"),
        ({"extract_api_path": "kind.json"}, 3, "not of a kind"),
        ({"extract_api_path": "forward.json", "propagation": "backward"}, 3, "no backward entry"),
        ({"extract_api_path": "forward.json", "data_mode": "real_data"}, 3, "dumped as statistics"),
        ({"extract_api_path": "hollow.json"}, 3, "no entry with arguments"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_written(probe_flow, place: Path, config, code, said):
    forward = entries(SOFTMAX)[f"{SOFTMAX}.forward"]
    files = {
        "empty.json": {},
        "list.json": [],
        "several.json": {**entries(SOFTMAX), **entries(MATMUL)},
        "kind.json": {"NPU.fast_gelu.0.forward": forward},
        "forward.json": {f"{SOFTMAX}.forward": forward},
        "hollow.json": {f"{SOFTMAX}.forward": {}},
    }
    for name, content in files.items():
        (place / name).write_text(json.dumps(content))
    done = probe_flow("op_generate", "-i", configured(place, **config), "-o", "out")
    assert done.code == code
    assert said in done.err
    assert list((place / "out").iterdir()) == []
    assert not (place / "a.json").exists()


def test_a_dump_that_is_not_there_is_a_mistake_and_told_by_its_whole_path(probe_flow, place: Path):
    config = configured(place, dump_json_path="/nowhere/dump.json", api_name=SOFTMAX, extract_api_path="api.json")
    done = probe_flow("op_generate", "-i", config, "-o", "out")
    assert (done.code, "there is no dump `/nowhere/dump.json`" in done.err) == (2, True), done.err


@pytest.mark.parametrize("wrong", [{"prop": "forward"}, {"propagation": "sideways"}, {"iter_times": "5"}])
def test_what_is_no_field_or_value_is_answered_with_those_that_are(probe_flow, place: Path, wrong):
    config = configured(place, extract_api_path="api.json", **wrong)
    done = probe_flow("op_generate", "-i", config, "-o", "out")
    assert (done.code, "propagation (forward, backward)" in done.err) == (2, True), done.err


def test_paths_that_are_not_there_are_named(probe_flow, place: Path):
    assert probe_flow("op_generate", "-i", "none.json", "-o", "out").code == 2
    config = configured(place, extract_api_path="a.json")
    assert probe_flow("op_generate", "-i", config, "-o", "none").code == 2
    assert "is no folder" in probe_flow("op_generate", "-i", config, "-o", "dump.json").err
    (place / "config.json").write_text("{")
    assert "is no JSON" in probe_flow("op_generate", "-i", "config.json", "-o", "out").err


@pytest.mark.parametrize(
    ("name", "entry", "config", "cure"),
    [
        ("Primitive.matmul.MatMul.0", ["forward"], {}, "of a module or primitive, name an API that it calls"),
        (MATMUL, ["forward"], {"propagation": "backward"}, "ask for the `propagation` that the dump has"),
        (MATMUL, ["forward", "backward"], {"data_mode": "real_data"}, "write `data_mode: random_data`"),
    ],
)
def test_what_no_script_can_be_made_of_is_told_with_what_helps(probe_flow, place: Path, name, entry, config, cure):
    values = {each.rpartition(".")[2]: value for each, value in entries(MATMUL).items()}
    data = {f"{name}.{each}": values[each] for each in entry}
    (place / "dump.json").write_text(json.dumps({"task": "statistics", "framework": "pytorch", "data": data}))
    words = {"dump_json_path": "dump.json", "api_name": name, "extract_api_path": "x.json", **config}
    done = probe_flow("op_generate", "-i", configured(place, **words), "-o", "out")
    assert (done.code, "PF6630" in done.err, cure in done.err) == (3, True, True), done.err
