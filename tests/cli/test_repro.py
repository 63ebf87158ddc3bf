"""`repro`: which call it takes, what it writes, and what it says where no script can be made or run."""

from __future__ import annotations

import ast
import json
import os
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest

from probe_flow.files.lock_file import RUN_LOCK

DATA = Path(__file__).parents[1] / "data" / "precheck" / "torch_net.tar.xz"
EXAMPLES = Path(__file__).parents[2] / "examples" / "dump_json"


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    """A dump of tensors, twice: `target` and `golden`."""
    with tarfile.open(DATA) as archive:
        archive.extractall(tmp_path / "net", filter="data")
    (dump,) = (tmp_path / "net").rglob("dump.json")
    for side in ("target", "golden"):
        shutil.copytree(dump.parent, tmp_path / side)
    return tmp_path


@pytest.fixture
def run(dumps: Path, probe_flow) -> str:
    """A run that compared the two, and found nothing."""
    assert probe_flow("compare", "-tp", "target", "-gp", "golden", "-o", "run").code == 0
    return "run"


def first_api(dumps: Path, direction: str = "forward") -> str:
    entries = json.loads((dumps / "target" / "dump.json").read_text())["data"]
    return next(name for name in entries if name.endswith(direction) and not name.startswith("Module"))


def test_a_run_without_suspects_writes_nothing(run, dumps, probe_flow):
    done = probe_flow("repro", run, "-o", "scripts")
    assert (done.code, done.out) == (0, "no suspects\n")
    assert not (dumps / "scripts").exists()


def test_a_call_is_written_with_its_tensors(run, dumps, probe_flow):
    entry = first_api(dumps)
    done = probe_flow("repro", run, "--node", entry, "-o", "scripts", "--no-run")
    assert (done.code, done.out) == (0, f"written: scripts/repro_{entry}.py\nnot run\n")
    names = {
        leaf["data_name"] for leaf in _leaves(json.loads((dumps / "target" / "dump.json").read_text())["data"][entry])
    }
    assert names
    for side in ("target", "golden"):
        found = {path.name: path for path in (dumps / "scripts" / f"repro_{entry}" / side).iterdir()}
        assert names <= found.keys()
        for name in names:
            assert found[name].read_bytes() == (dumps / side / "dump_tensor_data" / name).read_bytes()
    ast.parse((dumps / "scripts" / f"repro_{entry}.py").read_text())


def _leaves(value: object) -> list[dict]:
    if isinstance(value, dict):
        return [value] if "data_name" in value else [leaf for each in value.values() for leaf in _leaves(each)]
    return [leaf for each in value for leaf in _leaves(each)] if isinstance(value, list) else []


def test_random_values_make_the_script_of_op_generate(run, dumps, probe_flow):
    entry = first_api(dumps)
    done = probe_flow("repro", run, "--node", entry, "--random", "-o", "scripts", "--no-run")
    assert (done.code, done.out) == (0, f"written: scripts/{entry}.py\nnot run\n")
    assert [path.name for path in (dumps / "scripts").iterdir()] == [f"{entry}.py"]
    text = (dumps / "scripts" / f"{entry}.py").read_text()
    ast.parse(text)
    assert '"is_random": true' in text
    done = probe_flow("repro", run, "--node", entry, "--random", "-o", "scripts", "--python", "/bin/false")
    assert (done.code, "not run: " in done.out) == (3, True)
    assert (
        "reproductions" not in json.loads((dumps / run / "probe_flow" / "run.json").read_text())
        or not json.loads((dumps / run / "probe_flow" / "run.json").read_text())["reproductions"]
    )


def test_a_module_is_computed_by_the_api_that_it_called_last(tmp_path, probe_flow):
    tensor = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [1], "Max": 1.0, "Min": 1.0, "Mean": 1.0}
    calls = ["Functional.linear.0.forward", "Functional.relu.0.forward", "Module.net.act.Act.forward.0"]
    calls += ["Module.net.Net.forward.0", "Module.empty.Empty.forward.0", "Torch.add.0.forward"]
    entry = {"input_args": [tensor], "input_kwargs": {}, "output": [tensor]}
    callers = {"Module.net.act.Act.forward.0": "Module.net.Net.forward.0"}
    callers |= {"Functional.linear.0.forward": "Module.net.Net.forward.0"}
    callers |= {"Functional.relu.0.forward": "Module.net.act.Act.forward.0"}
    for side in ("target", "golden"):
        folder = tmp_path / side
        folder.mkdir()
        head = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None}
        (folder / "dump.json").write_text(json.dumps({**head, "data": dict.fromkeys(calls, entry)}))
        (folder / "construct.json").write_text(json.dumps({name: callers.get(name) for name in calls}))
    assert probe_flow("compare", "-tp", "target", "-gp", "golden", "-o", "run").code == 0
    words = ("-o", "scripts", "--no-run")
    for module in ("Module.net.Net.forward.0", "Module.net.act.Act.forward.0"):
        done = probe_flow("repro", "run", "--node", module, *words)
        assert done.out.startswith("written: scripts/repro_Functional.relu.0.forward.py"), done.err
    done = probe_flow("repro", "run", "--node", "Module.empty.Empty.forward.0", *words)
    assert (done.code, "it is a module inside which the dump has no call of an API" in done.err) == (3, True)
    assert "level" not in done.err  # this dump is of level mix


def test_a_module_that_ends_with_a_call_that_dumps_leave_out_is_not_cleared_by_its_last_api(tmp_path, probe_flow):
    tensor = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4], "Max": 1.0, "Min": 0.0, "Mean": 0.5}
    joined = {**tensor, "shape": [8], "Max": 9.0}
    calls = {"Functional.gelu.0.forward": tensor, "Module.net.Net.forward.0": joined}
    for side in ("target", "golden"):
        (tmp_path / side).mkdir()
        head = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None}
        data = {
            name: {"input_args": [tensor], "input_kwargs": {}, "output": [output]} for name, output in calls.items()
        }
        (tmp_path / side / "dump.json").write_text(json.dumps({**head, "data": data}))
        callers = {"Functional.gelu.0.forward": "Module.net.Net.forward.0", "Module.net.Net.forward.0": None}
        (tmp_path / side / "construct.json").write_text(json.dumps(callers))
    assert probe_flow("compare", "-tp", "target", "-gp", "golden", "-o", "run").code == 0

    done = probe_flow("repro", "run", "--node", "Module.net.Net.forward.0", "-o", "scripts")

    assert (done.code, "PF6631" in done.err) == (3, True), done.out
    assert "what it gives is not all that the API gives which it called last (`Functional.gelu.0.forward`)" in done.err


def gradients_of_weights(tmp_path: Path, calls: dict[str, str]) -> dict:
    """Write two dumps of a step of a module with a weight; return the entries.

    Args:
        tmp_path: of the dumps.
        calls: entry of each forward call -> its caller.
    """

    def tensor(name: str, *shape: int, largest: float = 1.0) -> dict:
        np.save(tmp_path / "tensors" / f"{name}.npy", np.full(shape, largest, np.float32))
        facts = {"Max": largest, "Min": largest, "Mean": largest, "Norm": largest, "requires_grad": True}
        return {
            "type": "torch.Tensor",
            "dtype": "torch.float32",
            "shape": list(shape),
            **facts,
            "data_name": f"{name}.npy",
        }

    (tmp_path / "tensors").mkdir()
    weight, given = tensor("w", 4, 8, largest=0.5), tensor("x", 2, 3, 8)
    data: dict = {}
    for name in calls:
        entry = {"input_args": [given], "input_kwargs": {}, "output": [tensor("y", 2, 3, 4)]}
        data[name] = {**entry, "parameters": {"weight": weight}} if "Module" in name else entry
        if "linear" in name:
            entry["input_args"].append(weight)
            backward = {"input": [tensor("g", 2, 3, 4)], "output": [tensor("flat", 6, 4)]}
            data[name.replace("forward", "backward")] = backward
    data["Module.fc.Linear.parameters_grad.0"] = {"weight": [tensor("dw", 4, 8, largest=6.0)]}
    for side in ("target", "golden"):
        shutil.copytree(tmp_path / "tensors", tmp_path / side / "dump_tensor_data")
        head = {"task": "tensor", "level": "mix", "framework": "pytorch", "dump_data_dir": "dump_tensor_data"}
        (tmp_path / side / "dump.json").write_text(json.dumps({**head, "data": data}))
        (tmp_path / side / "construct.json").write_text(json.dumps({name: calls.get(name) for name in data}))
    return data


WEIGHTS = "Module.fc.Linear.parameters_grad.0"


def test_gradients_of_weights_are_those_that_the_api_gives_which_takes_them(tmp_path, probe_flow):
    calls = {"Functional.linear.0.forward": "Module.fc.Linear.forward.0", "Module.fc.Linear.forward.0": None}
    data = gradients_of_weights(tmp_path, calls)
    assert probe_flow("compare", "-tp", "target", "-gp", "golden", "-o", "run").code == 0
    done = probe_flow("repro", "run", "--node", WEIGHTS, "-o", "scripts", "--no-run")
    assert (done.code, done.out) == (0, f"written: scripts/repro_{WEIGHTS}.py\nnot run\n"), done.err
    text = Path(f"scripts/repro_{WEIGHTS}.py").read_text()
    frozen = json.loads(text.partition("r'''")[2].partition("'''")[0])
    assert (frozen["kind"], frozen["api"], frozen["direction"]) == ("Functional", "linear", "backward")
    for side in ("target", "golden"):
        backward = frozen["sides"][side]["backward"]
        assert backward["input"] == data["Functional.linear.0.backward"]["input"]
        assert backward["output"] == [{"weight": data[WEIGHTS]["weight"][0]}]
        assert {path.name for path in Path("scripts", f"repro_{WEIGHTS}", side).iterdir()} == {
            "x.npy", "w.npy", "y.npy", "g.npy", "dw.npy",
        }  # fmt: skip


@pytest.mark.parametrize(
    ("calls", "why"),
    [
        (
            {
                "Functional.linear.0.forward": "Module.fc.Linear.forward.0", "Module.fc.Linear.forward.0": None,
                "Functional.linear.1.forward": "Module.fc.Linear.forward.1", "Module.fc.Linear.forward.1": None,
            },
            "its module was called 2 times, and what the dump has is the sum of their gradients",
        ),
        (
            {
                "Functional.linear.0.forward": "Module.fc.Linear.forward.0",
                "Functional.linear.1.forward": "Module.fc.Linear.forward.0", "Module.fc.Linear.forward.0": None,
            },
            "2 APIs of its module take its parameters",
        ),
        ({"Module.fc.Linear.forward.0": None}, "0 APIs of its module take its parameters"),
    ],
)  # fmt: skip
def test_gradients_of_weights_that_several_calls_give_have_no_script(tmp_path, probe_flow, calls, why):
    gradients_of_weights(tmp_path, calls)
    assert probe_flow("compare", "-tp", "target", "-gp", "golden", "-o", "run").code == 0
    done = probe_flow("repro", "run", "--node", WEIGHTS, "-o", "scripts")
    assert (done.code, "PF6631" in done.err, why in done.err) == (3, True, True), done.err


def test_a_changed_tensor_of_the_api_that_stands_for_gradients_is_refused(tmp_path, probe_flow):
    calls = {"Functional.linear.0.forward": "Module.fc.Linear.forward.0", "Module.fc.Linear.forward.0": None}
    gradients_of_weights(tmp_path, calls)
    assert probe_flow("compare", "-tp", "target", "-gp", "golden", "-o", "run").code == 0
    np.save("target/dump_tensor_data/x.npy", np.full((2, 3, 8), 7, np.float32))
    done = probe_flow("repro", "run", "--node", WEIGHTS, "-o", "scripts")
    assert (done.code, "PF6632" in done.err) == (3, True), done.out + done.err


def test_a_dump_of_modules_alone_leaves_every_suspect_undecided_and_says_so(tmp_path, probe_flow):
    name = "Module.net.Net.forward.0"
    for side, largest in (("target", 9.0), ("golden", 1.0)):
        tensor = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4]}
        told = {"Max": largest, "Min": 0.0, "Mean": largest / 2, "Norm": largest}
        given = {"Max": 1.0, "Min": 0.0, "Mean": 0.5, "Norm": 1.0}
        entry = {"input_args": [{**tensor, **given}], "input_kwargs": {}, "output": [{**tensor, **told}]}
        (tmp_path / side).mkdir()
        head = {"task": "statistics", "level": "L0", "framework": "pytorch", "dump_data_dir": None}
        (tmp_path / side / "dump.json").write_text(json.dumps({**head, "data": {name: entry}}))
        (tmp_path / side / "construct.json").write_text(json.dumps({name: None}))
    assert probe_flow("compare", "-tp", "target", "-gp", "golden", "-o", "run").code == 1

    done = probe_flow("repro", "run", "-o", "scripts")

    assert (done.code, "PF6631" in done.err) == (3, True)
    assert not (tmp_path / "scripts").exists()
    (record,) = json.loads(Path("run/probe_flow/run.json").read_text())["reproductions"]
    assert (record["entry"], record["status"], record["script"]) == (name, "undecided", "")
    why = "it is a module in which the dump has no API (level L0): what went in and came out is there"
    shown = probe_flow("show", "run").out
    assert "is undecided" in shown
    assert f"whether `{name}` itself is wrong is undecided: {why}" in probe_flow("show", "run", "--node", name).out


def test_a_name_without_number_is_its_first_call(run, dumps, probe_flow):
    name = first_api(dumps).rsplit(".", 2)[0]
    done = probe_flow("repro", run, "--node", name, "-o", "scripts", "--no-run")
    assert done.out.startswith(f"written: scripts/repro_{name}.0.forward.py")


def test_the_first_suspect_is_taken(tmp_path, probe_flow):
    dumps = ("-tp", EXAMPLES / "target", "-gp", EXAMPLES / "golden")
    assert probe_flow("compare", *dumps, "-o", "run").code == 1
    done = probe_flow("repro", "run", "-o", "scripts", "--no-run")
    first = json.loads(Path("run/probe_flow/run.json").read_text())["findings"][0]["name"]
    assert first.startswith("Tensor.__mul__.")
    assert (done.code, done.out.splitlines()[0]) == (0, f"written: scripts/repro_{first}.py")
    assert probe_flow("repro", "run", "--suspect", "99").code == 2


@pytest.mark.parametrize(
    ("python", "why"),
    [("/no/such/python", "cannot be run"), ("/bin/false", "ended"), ("/bin/true", "ended")],
)
def test_an_interpreter_that_gives_nothing_decides_nothing(run, dumps, probe_flow, python, why):
    done = probe_flow("repro", run, "--node", first_api(dumps), "-o", "scripts", "--python", python)
    assert done.code == 3
    assert "not run: " in done.out
    assert why in done.out


def test_what_was_found_stands_in_the_run(run, dumps, probe_flow, monkeypatch):
    """A stand-in for torch cannot compute anything: its error is the reason, and where the record tells so."""
    stand_in = dumps / "stand_in"
    stand_in.mkdir()
    (stand_in / "torch.py").write_text("__version__ = '0'\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(stand_in), os.environ.get("PYTHONPATH", "")]))
    entry = first_api(dumps)
    done = probe_flow("repro", run, "--node", entry, "-o", "scripts")
    assert done.code == 3
    assert "undecided: " in done.out
    said = json.loads((dumps / "scripts" / f"repro_{entry}.json").read_text())
    assert (said["status"], said["row"], said["versions"]["torch"]) == ("undecided", None, "0")
    (record,) = json.loads((dumps / run / "probe_flow" / "run.json").read_text())["reproductions"]
    assert (record["entry"], record["status"], record["why"]) == (entry, "undecided", said["why"])
    shown = probe_flow("show", run, "--node", entry).out
    assert f"run again    whether `{entry}` itself is wrong is undecided: {said['why']}" in shown
    (node,) = json.loads(probe_flow("show", run, "--node", entry, "--format", "json").out)["nodes"]
    assert node["reproductions"][0]["script"] == record["script"]
    # Once more: the record has the last one.
    assert probe_flow("repro", run, "--node", entry, "-o", "scripts", "--python", "/bin/false").code == 3
    (record,) = json.loads((dumps / run / "probe_flow" / "run.json").read_text())["reproductions"]
    assert record["status"] == "not_run"


def test_suspects_of_a_run_share_one_process_and_a_call_is_computed_once(dumps, probe_flow, monkeypatch):
    """A stand-in for torch counts who imports it; modules that end with a call of an API share its script."""
    stand_in, log = dumps / "stand_in", dumps / "imports"
    stand_in.mkdir()
    counts = f"import os\nopen({str(log)!r}, 'a').write(f'{{os.getpid()}}\\n')\n__version__ = '0'\n"
    (stand_in / "torch.py").write_text(counts)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(stand_in), os.environ.get("PYTHONPATH", "")]))
    entry, module = first_api(dumps), "Module.net.Net.forward.0"
    for side in ("target", "golden"):
        content = json.loads((dumps / side / "dump.json").read_text())
        content["data"][module] = content["data"][entry]
        (dumps / side / "dump.json").write_text(json.dumps(content))
        callers = dict.fromkeys(content["data"]) | {entry: module}
        (dumps / side / "construct.json").write_text(json.dumps(callers))
    Path("all.yaml").write_text(
        """
version: 1
name: all
stages:
  target: {uses: dump.auto, path: target}
  golden: {uses: dump.auto, path: golden}
  pairs:  {uses: match.name, target: target, golden: golden}
  result: {uses: compare, pairs: pairs}
  repro:  {uses: repro, comparison: result, only: {comparison: result, where: {verdict: pass}, limit: 100}}
"""
    )
    done = probe_flow("run", "all.yaml", "--output", "out")
    assert done.code == 0, done.err
    scripts = {path.stem for path in Path("out/repro").glob("repro_*.py")}
    assert len(scripts) > 10
    assert scripts <= {f"repro_{name}" for name in callers if name != module}
    record = json.loads(Path("out/run.json").read_text())
    assert [each for each in record["reproductions"] if each["suspect"] == module]
    assert len(record["artifacts"]) == len(set(record["artifacts"]))
    assert len(log.read_text().splitlines()) == 1


def test_a_run_that_nobody_may_write_says_that_it_was_not_added(run, dumps, probe_flow):
    record = dumps / run / "probe_flow" / "run.json"
    before = record.read_bytes()
    lock = record.with_name(RUN_LOCK)
    lock.mkdir()
    done = probe_flow("repro", run, "--node", first_api(dumps), "-o", "scripts", "--python", "/bin/false")
    assert (done.code, "not added to the record of the run: " in done.err) == (3, True)
    assert record.read_bytes() == before


@pytest.mark.parametrize("size", ["4", "4 gigabytes", "-1GiB"])
def test_a_limit_of_memory_is_a_size(run, dumps, probe_flow, size):
    done = probe_flow("repro", run, "--node", first_api(dumps), "--memory-limit", size)
    assert (done.code, "is no size" in done.err) == (2, True)


def test_what_cannot_be_reproduced_is_named(run, dumps, probe_flow):
    entries = json.loads((dumps / "target" / "dump.json").read_text())["data"]
    misspelt = first_api(dumps).replace(".forward", ".forwadr")
    done = probe_flow("repro", run, "--node", misspelt)
    assert (done.code, "PF2134" in done.err, first_api(dumps) in done.err) == (2, True, True)
    module = next((name for name in entries if name.startswith("Module") and ".forward." in name), None)
    if module is not None:
        assert "PF6631" in probe_flow("repro", run, "--node", module).err
    shutil.move(dumps / "target", dumps / "elsewhere")
    gone = probe_flow("repro", run, "--node", first_api_of(entries))
    assert (gone.code, "PF6632" in gone.err) == (3, True)
    moved = probe_flow(
        "repro", run, "--node", first_api_of(entries), "--dump", "target=elsewhere", "-o", "s", "--no-run"
    )
    assert moved.code == 0
    assert probe_flow("repro", run, "--dump", "side=elsewhere").code == 2
    assert probe_flow("repro", "none").code == 2


def first_api_of(entries: dict) -> str:
    return next(name for name in entries if name.endswith("forward") and not name.startswith("Module"))


def test_a_dump_that_changed_is_refused(run, dumps, probe_flow):
    path = dumps / "target" / "dump.json"
    path.write_text(path.read_text() + "\n")
    done = probe_flow("repro", run, "--node", first_api(dumps))
    assert (done.code, "has changed since the run" in done.err) == (3, True)


def test_a_moved_dump_that_is_another_one_is_refused(run, dumps, probe_flow):
    entry = first_api(dumps)
    shutil.copytree(dumps / "target", dumps / "elsewhere")
    words = ("repro", run, "--node", entry, "-o", "scripts", "--no-run", "--dump", "target=elsewhere")
    assert probe_flow(*words).code == 0
    data = json.loads((dumps / "elsewhere" / "dump.json").read_text())["data"]
    leaves = [leaf for name, each in data.items() for leaf in _leaves(each) if not name.startswith("Module")]
    mine = _leaves(data[entry])[0]
    twin = next(
        each
        for each in leaves
        if (each["shape"], each["dtype"]) == (mine["shape"], mine["dtype"]) and each["Max"] != mine["Max"]
    )
    tensors = dumps / "elsewhere" / "dump_tensor_data"
    shutil.copyfile(tensors / twin["data_name"], tensors / mine["data_name"])
    done = probe_flow(*words)
    assert (done.code, "PF6632" in done.err, "does not hold what was compared" in done.err) == (3, True, True)
    (tensors / mine["data_name"]).unlink()
    assert probe_flow(*words).code == 3


@pytest.mark.parametrize(("end", "why"), [(-40, "does not hold what was compared"), (40, "its end is missing")])
def test_a_tensor_file_that_changed_or_was_cut_is_refused_or_said(run, dumps, probe_flow, end, why):
    entry = first_api(dumps)
    leaf = _leaves(json.loads((dumps / "target" / "dump.json").read_text())["data"][entry])[0]
    path = dumps / "target" / "dump_tensor_data" / leaf["data_name"]
    path.write_bytes(path.read_bytes()[:end])
    done = probe_flow("repro", run, "--node", entry, "-o", "scripts")
    assert (done.code, "PF6632" in done.err, why in done.err) == (3, True, True), done.err


TORCHAIR = EXAMPLES.parent / "torchair"


@pytest.fixture
def graphs(probe_flow, tmp_path: Path) -> str:
    """A run that compared a GE dump with an FX dump, and blames `Gelu_1`."""
    sides = ("-tp", TORCHAIR / "faulty" / "msprobe_ge_dump", "-gp", TORCHAIR / "faulty" / "msprobe_fx_dump")
    assert probe_flow("compare", "-m", "torchair", *sides, "-o", "graphs").code == 1
    return "graphs"


def test_an_operator_of_a_graph_is_the_fx_operator_on_the_inputs_of_the_device(graphs, tmp_path, probe_flow):
    done = probe_flow("repro", graphs, "-o", "scripts", "--no-run")
    assert (done.code, done.out) == (0, "written: scripts/repro_Gelu_1.py\nnot run\n")
    text = (tmp_path / "scripts" / "repro_Gelu_1.py").read_text()
    ast.parse(text)
    assert '"api": "gelu.default"' in text
    tensors = tmp_path / "scripts" / "repro_Gelu_1"
    assert np.load(tensors / "target" / "input.0.npy").dtype == np.float16
    assert np.load(tensors / "golden" / "input.0.npy").dtype == np.float32
    (recorded,) = (TORCHAIR / "faulty" / "msprobe_fx_dump").rglob("gelu_1-aten.gelu.default.OUTPUT.0.*.npy")
    assert (np.load(tensors / "golden" / "output.0.npy") == np.load(recorded)).all()


def test_numbers_among_the_arguments_of_an_fx_operator_are_those_of_its_dump(graphs, tmp_path, probe_flow):
    assert probe_flow("repro", graphs, "--node", "SoftmaxV2", "-o", "scripts", "--no-run").code == 0
    text = (tmp_path / "scripts" / "repro_SoftmaxV2.py").read_text()
    frozen = json.loads(text.split("r'''\n")[1].split("\n'''")[0])
    tensor, axis, halves = frozen["sides"]["target"]["forward"]["input_args"]
    assert (tensor["dtype"], tensor["data_name"]) == ("torch.float16", "input.0.npy")
    assert (axis, halves) == ({"type": "int", "value": -1}, {"type": "bool", "value": False})


@pytest.mark.parametrize(
    ("node", "why"),
    [
        ("Add_9", "the device may run several operators for it"),
        ("Mul_3Add_8", "the device may run several operators for it"),
        ("MatMulV2_6", "its results were not compared with those of one operator of an FX dump"),
        ("trans_Cast_26", "is no operator `aten.*`"),
    ],
)
def test_an_operator_without_an_fx_operator_of_its_inputs_has_no_script(graphs, probe_flow, node, why):
    done = probe_flow("repro", graphs, "--node", node, "--no-run")
    assert (done.code, "PF6631" in done.err, why in done.err) == (3, True, True), done.err


def test_a_device_that_was_compared_with_itself_has_no_script(probe_flow):
    sides = [TORCHAIR / "fusion" / name for name in sorted(path.name for path in (TORCHAIR / "fusion").iterdir())][:2]
    assert probe_flow("compare", "-m", "torchair", "-tp", sides[1], "-gp", sides[0], "-o", "run").code in (0, 1, 3)
    done = probe_flow("repro", "run", "--no-run")
    assert "no suspects" in done.out or "PF6631" in done.err


def test_other_dumps_have_no_script(probe_flow):
    workflow = EXAMPLES.parents[1] / "workflows" / "offline_om_vs_onnx.yaml"
    assert probe_flow("run", workflow, "--output", "run").code == 1
    done = probe_flow("repro", "run")
    assert (done.code, "PF6631" in done.err) == (3, True)
    assert "name the ONNX model that the OM was made of with `--model FILE`" in done.err


def test_the_script_of_an_offline_operator_is_written_without_onnx(probe_flow, tmp_path):
    """The script imports onnx and onnxruntime; the command reads the model itself."""
    workflow = EXAMPLES.parents[1] / "workflows" / "offline_om_vs_onnx.yaml"
    assert probe_flow("run", workflow, "--output", "run").code == 1
    model = EXAMPLES.parent / "offline" / "models" / "sample.onnx"
    done = probe_flow("repro", "run", "--model", model, "-o", "scripts", "--no-run")
    assert (done.code, done.err) == (0, ""), done.err
    (script,) = Path("scripts").glob("*.py")
    ast.parse(script.read_text())
    assert done.out == f"written: {script}\nnot run\n"
    assert sorted(path.name for path in Path("scripts", script.stem).iterdir()) == ["constants", "golden", "target"]


def calls_of_add(folder: Path, firsts: dict[str, float]) -> None:
    """Write a dump of calls of `torch.add`, each of a tensor whose elements are all the same."""
    (folder / "dump_tensor_data").mkdir(parents=True)
    data = {}
    for entry, first in firsts.items():
        leaves = {}
        for slot in ("input", "output"):
            value = first + (slot == "output")
            np.save(folder / "dump_tensor_data" / f"{entry}.{slot}.0.npy", np.full((2, 3), value, np.float32))
            facts = {"Max": value, "Min": value, "Mean": value, "Norm": value * 6**0.5}
            leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3], **facts}
            leaves[slot] = {**leaf, "data_name": f"{entry}.{slot}.0.npy"}
        given = [leaves["input"], {"type": "int", "value": 1}]
        data[entry] = {"input_args": given, "input_kwargs": {}, "output": [leaves["output"]]}
    head = {"task": "tensor", "level": "L1", "framework": "pytorch", "dump_data_dir": str(folder / "dump_tensor_data")}
    (folder / "dump.json").write_text(json.dumps({**head, "data": data}))
    (folder / "construct.json").write_text(json.dumps(dict.fromkeys(data)))
    (folder / "stack.json").write_text(json.dumps({"0": [list(data), ["File run.py, line 1, in main, x = y"]]}))


def golden_calls(scripts: Path) -> dict[str, set[str]]:
    """Return the tensors of the golden that each script has."""
    found = {}
    for path in scripts.glob("repro_*.py"):
        place = scripts / path.stem / "golden"
        found[path.stem.removeprefix("repro_")] = {each.name for each in place.iterdir()} if place.exists() else set()
    return found


def test_the_golden_of_a_call_is_what_it_was_compared_with(tmp_path, probe_flow):
    """A mapping pairs call 0 with call 1, and leaves call 1 alone: no script may take the golden's call of its name."""
    for side in ("target", "golden"):
        calls_of_add(tmp_path / side, {"Torch.add.0.forward": 1.0, "Torch.add.1.forward": 5.0})
    slots = ("input.0", "input.1", "output.0")
    crossed = {f"Torch.add.0.forward.{slot}": f"Torch.add.1.forward.{slot}" for slot in slots}
    alone = {f"Torch.add.1.forward.{slot}": "N/A" for slot in slots}
    lines = [f"{target}: {golden}\n" for target, golden in {**crossed, **alone}.items()]
    Path("map.yaml").write_text("".join(lines))
    probe_flow("compare", "-tp", "target", "-gp", "golden", "-dm", "map.yaml", "-o", "run")
    for call in range(2):
        done = probe_flow("repro", "run", "--node", f"Torch.add.{call}.forward", "-o", "scripts", "--no-run")
        assert done.code == 0, done.err
    of_one = {"Torch.add.1.forward.input.0.npy", "Torch.add.1.forward.output.0.npy"}
    wanted = {"Torch.add.0.forward": of_one, "Torch.add.1.forward": set()}
    assert golden_calls(tmp_path / "scripts") == wanted

    Path("all.yaml").write_text(
        """
version: 1
name: all
stages:
  target: {uses: dump.torch, path: target}
  golden: {uses: dump.torch, path: golden}
  pairs:  {uses: match.data_mapping, target: target, golden: golden, mapping: map.yaml}
  result: {uses: compare, pairs: pairs}
  repro:
    uses: repro
    comparison: result
    only: {comparison: result, where: {node: Torch.add}, limit: 9}
    run_scripts: false
    output: staged
"""
    )
    done = probe_flow("run", "all.yaml", "--output", "out")
    assert golden_calls(tmp_path / "staged") == wanted, done.out + done.err
