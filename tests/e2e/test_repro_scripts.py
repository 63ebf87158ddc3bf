"""Reproduction of planted faults of a real dump of torch: wrong kernels are reproduced, wrong inputs are not."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

from probe_flow.apis.scripts.repro_pairs import relative_error
from probe_flow.cli.main import main

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]

DATA = Path(__file__).parents[1] / "data" / "precheck" / "torch_net.tar.xz"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with tarfile.open(DATA) as archive:
        archive.extractall(tmp_path / "net", filter="data")
    (dump,) = (tmp_path / "net").rglob("dump.json")
    for side in ("target", "golden"):
        shutil.copytree(dump.parent, tmp_path / side)
    return tmp_path


def entries(place: Path) -> dict:
    found = json.loads((place / "target" / "dump.json").read_text())["data"]
    assert isinstance(found, dict)
    return found


def scale(place: Path, file: str, factor: float) -> None:
    import torch

    path = place / "target" / "dump_tensor_data" / file
    if path.suffix == ".npy":
        values = np.load(path)
        np.save(path, (values * factor).astype(values.dtype))
    else:
        tensor = torch.load(path)
        torch.save((tensor * factor).to(tensor.dtype), path)


def reproduced(place: Path, entry: str) -> tuple[int, dict]:
    # Nothing wrong need be found by the comparison: the call is named.
    assert main(["compare", "-tp", "target", "-gp", "golden", "-o", "run"]) in (0, 1)
    code = main(["repro", "run", "--node", entry, "-o", "scripts"])
    return code, json.loads((place / "scripts" / f"repro_{entry}.json").read_text())


def files_of(place: Path, entry: str, key: str) -> list[str]:
    return [
        leaf["data_name"] for leaf in entries(place)[entry][key] if isinstance(leaf, dict) and leaf.get("data_name")
    ]


def apis(place: Path, direction: str) -> list[str]:
    return [name for name in entries(place) if name.endswith(f".{direction}") and not name.startswith("Module")]


def test_healthy_calls_are_what_this_processor_gives(place):
    assert main(["compare", "-tp", "target", "-gp", "golden", "-o", "run"]) == 0
    codes = {}
    for entry in (*apis(place, "forward"), *apis(place, "backward")):
        codes[entry] = main(["repro", "run", "--node", entry, "-o", "scripts"])
    assert 1 not in codes.values()
    assert list(codes.values()).count(0) >= len(apis(place, "forward"))


@pytest.mark.parametrize("number", [0, 3, 6])
@pytest.mark.parametrize("error", [0.01, 2e-4])
def test_a_wrong_kernel_is_reproduced_with_its_error(place, number, error):
    entry = apis(place, "forward")[number]
    scale(place, files_of(place, entry, "output")[0], 1 + error)
    code, said = reproduced(place, entry)
    if said["status"] == "undecided":
        pytest.skip(said["why"])
    assert (code, said["status"]) == (1, "reproduced")
    assert error / 2 < said["relative_error"] < error * 2


def test_a_wrong_gradient_is_reproduced(place):
    entry = next(name for name in apis(place, "backward") if ".linear." in name or ".matmul." in name)
    scale(place, files_of(place, entry, "output")[0], 1.01)
    code, said = reproduced(place, entry)
    assert (code, said["status"]) == (1, "reproduced")
    assert 0.005 < said["relative_error"] < 0.02


def to_statistics(place: Path) -> None:
    """Make dumps of statistics of both."""
    for side in ("target", "golden"):
        path = place / side / "dump.json"
        content = json.loads(path.read_text())
        for leaf in leaves_of(content["data"]):
            leaf.pop("data_name", None)
        path.write_text(json.dumps({**content, "task": "statistics", "dump_data_dir": None}))
        shutil.rmtree(place / side / "dump_tensor_data")


def leaves_of(value: object) -> list[dict]:
    if isinstance(value, dict):
        return [value] if "type" in value else [leaf for each in value.values() for leaf in leaves_of(each)]
    return [leaf for each in value for leaf in leaves_of(each)] if isinstance(value, list) else []


def change(place: Path, entry: str, key: str, **fields: object) -> None:
    path = place / "target" / "dump.json"
    content = json.loads(path.read_text())
    for leaf in leaves_of(content["data"][entry][key]):
        if "Max" in leaf:
            leaf.update({name: leaf[name] * by if isinstance(by, int) else by for name, by in fields.items()})
    path.write_text(json.dumps(content))


GROSS = {"Max": 100, "Min": 100, "Mean": 100, "Norm": 100}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            {},
            "undecided: the dump has statistics only: random values in the recorded ranges show errors above 10 times",
        ),
        ({"output": {"Max": 2, "Norm": 2}}, "undecided: the dump has statistics only: random values"),
        ({"output": GROSS}, "reproduced: output 0 reaches "),
        ({"output": {"Max": "Infinity"}}, "reproduced: output 0 is not finite in the dump"),
        ({"input_args": GROSS, "output": GROSS}, "undecided: the dump has statistics only, and input 0 has other"),
    ],
)
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_statistics_show_gross_errors_and_nothing_else(place, changed, expected, direction):
    to_statistics(place)
    api = next(name for name in apis(place, "forward") if ".linear." in name).removesuffix(".forward")
    entry = f"{api}.{direction}"
    for key, fields in changed.items():
        inputs = key if direction == "forward" or key == "output" else "input"
        change(place, entry, inputs, **{name: float("inf") if by == "Infinity" else by for name, by in fields.items()})
    code, said = reproduced(place, entry)
    if direction == "backward":
        expected = expected.replace("output 0", "gradient 0").replace("input 0", "input gradient 0")
    assert f"{said['status']}: {said['why']}".startswith(expected)
    assert code == (1 if expected.startswith("reproduced") else 3)


def test_healthy_statistics_accuse_nothing(place):
    to_statistics(place)
    assert main(["compare", "-tp", "target", "-gp", "golden", "-o", "run"]) == 0
    for entry in (*apis(place, "forward")[:6], *apis(place, "backward")[:4]):
        assert main(["repro", "run", "--node", entry, "-o", "scripts"]) == 3


def test_random_values_are_judged_by_the_standard_of_the_api(place, capsys):
    assert main(["compare", "-tp", "target", "-gp", "golden", "-o", "run"]) == 0
    entry = next(name for name in apis(place, "backward") if ".linear." in name)
    assert main(["repro", "run", "--node", entry, "--random", "-o", "scripts"]) == 0
    assert "no error: no verdict is `error`" in capsys.readouterr().out
    said = json.loads((place / "scripts" / f"{entry}.json").read_text())
    assert {each["standard"] for each in said["outputs"]} == {"ULP error Standard"}


EVIL = "'''\nopen('pwned', 'w')\nr'''"
"""Text that would end a literal of Python and run, were it ever source text."""


def strange(place: Path, name: str, args: list, kwargs: dict | None = None, dtype: str = "torch.float32") -> str:
    """Write both dumps with one call and its result; return the entry."""
    for side in ("target", "golden"):
        folder = place / "strange" / side
        (folder / "dump_tensor_data").mkdir(parents=True)
        np.save(folder / "dump_tensor_data" / "out.npy", np.zeros(2, np.float32))
        leaf = {"type": "torch.Tensor", "dtype": dtype, "shape": [2], "Max": 0.0, "Min": 0.0, "Mean": 0.0, "Norm": 0.0}
        call = {"input_args": args, "input_kwargs": kwargs or {}, "output": [{**leaf, "data_name": "out.npy"}]}
        head = {"task": "tensor", "level": "L1", "framework": "pytorch", "dump_data_dir": "dump_tensor_data"}
        (folder / "dump.json").write_text(json.dumps({**head, "data": {f"{name}.forward": call}}))
    main(["compare", "-tp", str(place / "strange/target"), "-gp", str(place / "strange/golden"), "-o", "run"])
    return f"{name}.forward"


NUMBER = {"type": "int", "value": 2}
HUGE = {"type": "int", "value": 200_000}


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "why"),
    [
        ("Functional.no_such_api.0", [NUMBER], {}, "torch has no `torch.nn.functional.no_such_api`"),
        ("Torch.zeros.0", [HUGE, HUGE], {}, "memory"),
        ("Torch.zeros.0", [NUMBER], {EVIL: NUMBER}, "TypeError"),
        ("Torch.zeros.0", [{"type": "str", "value": EVIL}], {}, "TypeError"),
        ("Torch.randn.0", [NUMBER], {}, "its result is random"),
        ("Tensor.add_.0", [NUMBER, NUMBER], {}, "in place"),
    ],
)
def test_what_cannot_be_computed_is_undecided_with_the_reason(place, name, args, kwargs, why):
    entry = strange(place, name, args, kwargs)
    code = main(["repro", "run", "--node", entry, "-o", "scripts"])
    said = json.loads((place / "scripts" / f"repro_{entry}.json").read_text())
    assert (code, said["status"]) == (3, "undecided")
    assert why in said["why"], said["why"]
    assert "\n" not in said["why"]
    assert not (place / "pwned").exists()


def test_an_element_type_that_is_none_is_never_run(place, capsys):
    entry = strange(place, "Torch.zeros.0", [NUMBER], dtype=f"torch.float32{EVIL}")
    assert main(["repro", "run", "--node", entry, "-o", "scripts"]) == 3
    said = capsys.readouterr()
    assert "PF6631" in said.err or "is not known" in said.out, said
    assert not (place / "pwned").exists()


def test_a_call_that_takes_too_long_is_ended(place):
    entry = strange(place, "Torch.zeros.0", [NUMBER])
    assert main(["repro", "run", "--node", entry, "-o", "scripts", "--time-limit", "0.001"]) == 3
    said = json.loads((place / "scripts" / f"repro_{entry}.json").read_text())
    assert (said["status"], said["why"]) == ("undecided", "it took more than 0.001 s")


TORCHAIR = Path(__file__).parents[2] / "examples" / "torchair"
ALL_OPERATORS = """
version: 1
name: all-operators
params: {folder: {type: path}}
stages:
  target: {uses: dump.torchair_ge, path: "${params.folder}/msprobe_ge_dump"}
  golden: {uses: dump.torchair_fx, path: "${params.folder}/msprobe_fx_dump"}
  pairs:  {uses: match.torchair, target: target, golden: golden}
  result: {uses: compare, pairs: pairs, policy: torchair, gate: findings}
  repro:  {uses: repro, comparison: result, only: {comparison: result, where: {verdict: [pass, fail]}}}
"""


@pytest.mark.parametrize(("sample", "wrong"), [("healthy", []), ("faulty", ["Gelu_1"])])
def test_operators_of_a_graph_are_right_but_for_the_planted_one(tmp_path, monkeypatch, sample, wrong):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "all.yaml").write_text(ALL_OPERATORS)
    main(["run", "all.yaml", "--set", f"folder={TORCHAIR / sample}", "--output", "out"])
    recorded = json.loads((tmp_path / "out" / "run.json").read_text())["reproductions"]
    assert {each["status"] for each in recorded if not each["script"]} == {"undecided"}
    found = [each for each in recorded if each["script"]]
    assert len(found) > 25
    assert [each["entry"] for each in found if each["status"] != "not_reproduced"] == wrong
    types = {each["entry"].rstrip("_0123456789") for each in found}
    assert {"Gelu", "SoftmaxV", "LayerNormV", "Transpose", "Mul"} & types


def test_a_script_moves_with_its_folder_and_needs_nothing_of_ours(place):
    entry = apis(place, "forward")[0]
    assert reproduced(place, entry)[0] == 0
    moved = Path(shutil.move(place / "scripts", place / "else where"))
    for side in ("target", "golden", "run", "net"):
        shutil.rmtree(place / side)
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-I", str(moved / f"repro_{entry}.py")]
    runs = [
        subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", env=environ, timeout=300)
        for _ in range(2)
    ]
    assert [run.returncode for run in runs] == [0, 0]
    assert runs[0].stdout == runs[1].stdout
    assert "not reproduced: this processor gives what was dumped" in runs[0].stdout


def test_a_wrong_gradient_of_a_weight_is_reproduced(tmp_path, monkeypatch):
    """Of a linear of three axes the last node gives the gradient that came in; no backward entry has the weight's."""
    import torch

    import probe_flow as pf

    monkeypatch.chdir(tmp_path)
    for side in ("target", "golden"):
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
        with pf.dump_torch(model, side):
            model(torch.randn(2, 3, 8)).square().sum().backward()
    (path,) = (tmp_path / "target").rglob("Module.2.Linear.parameters_grad*weight.pt")
    gradient = torch.load(path)
    gradient[1, 3] += 0.03 * gradient.norm()
    torch.save(gradient, path)
    assert main(["compare", "-tp", "target", "-gp", "golden", "-o", "run"]) == 1
    (entry,) = (path.name.partition(".weight")[0] for path in [path])

    code = main(["repro", "run", "--node", "Module.2.Linear.parameters_grad", "-o", "scripts"])

    said = json.loads((tmp_path / "scripts" / f"repro_{entry}.json").read_text())
    assert (code, said["status"]) == (1, "reproduced"), said
    assert said["relative_error"] == pytest.approx(0.03, rel=0.01)
    assert "gradient 0.weight is off by 0.03" in said["why"]
    assert said["why"].endswith("most at [1, 3]")


def test_a_node_with_more_results_than_its_function_is_differentiated(tmp_path, monkeypatch):
    """The node of a group norm gives mean and deviation too, and no gradient reaches them."""
    import torch

    import probe_flow as pf

    monkeypatch.chdir(tmp_path)
    for side in ("target", "golden"):
        torch.manual_seed(1)
        with pf.dump_torch(model := torch.nn.GroupNorm(2, 4), side):
            given, weights = torch.randn(2, 4, 3, 3, requires_grad=True), torch.randn(2, 4, 3, 3)
            (model(given * 1.5) * weights).sum().backward()
    entry = "Functional.group_norm.0.backward"
    recorded = json.loads(next((tmp_path / "target").rglob("dump.json")).read_text())["data"][entry]["input"]
    assert recorded[1:] == [None, None]
    (path,) = (tmp_path / "target").rglob(f"{entry}.output.0.pt")
    torch.save(torch.load(path) * 1.02, path)
    assert main(["compare", "-tp", "target", "-gp", "golden", "-o", "run"]) in (0, 1)
    code = main(["repro", "run", "--node", entry, "-o", "scripts"])
    said = json.loads((tmp_path / "scripts" / f"repro_{entry}.json").read_text())
    assert (code, said["status"]) == (1, "reproduced"), said
    assert said["relative_error"] == pytest.approx(0.02, rel=0.01)


def test_a_wrong_input_is_named(place):
    import torch

    entry = next(name for name in apis(place, "forward") if ".relu." in name or ".gelu." in name or ".softmax." in name)
    files = files_of(place, entry, "input_args")
    scale(place, files[0], 1.5)
    folder = place / "target" / "dump_tensor_data"
    kind, api = entry.split(".")[:2]
    assert kind == "Functional"
    kwargs = {
        name: leaf["value"]
        for name, leaf in entries(place)[entry]["input_kwargs"].items()
        if leaf["type"] != "torch.dtype"
    }
    made = getattr(torch.nn.functional, api)(torch.load(folder / files[0]), **kwargs)
    torch.save(made, folder / files_of(place, entry, "output")[0])
    code, said = reproduced(place, entry)
    assert (code, said["status"]) == (0, "not_reproduced")
    assert said["differs"].startswith("input 0 differs from the golden's by 0.5")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([3.0, 4.0], [3.0, 4.0], 0.0),
        ([3.0, 4.0], [0.0, 5.0], np.sqrt(10) / 5),
        ([1.0], [0.0], np.inf),
        ([0.0], [0.0], 0.0),
        ([np.nan, 1.0], [np.nan, 2.0], 0.5),
        ([np.inf, 1.0], [-np.inf, 1.0], np.inf),
        ([np.nan, 1.0], [0.0, 1.0], np.inf),
        ([], [], 0.0),
        ([True, False], [True, True], np.sqrt(0.5)),
    ],
)
def test_relative_errors_are_those_worked_out_by_hand(one, other, expected):
    assert relative_error(np.array(one), np.array(other)) == pytest.approx(expected)
