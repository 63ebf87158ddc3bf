"""`probe-flow tf_dump`: arrays of a run of TensorFlow's debugger, under names that lead back to true ones."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from catalog_looks import values
from tfdbg_writer import FIRST_US, TfdbgRun

from probe_flow.cli.main import main
from probe_flow.dumps.offline.npy_folder import read_npy_folder
from probe_flow.dumps.tfdbg.reader import read_tfdbg

ROOT = Path(__file__).parents[2]
STEP = ROOT / "examples" / "tf_training" / "step" / "tf" / "tf_debug"
X = np.arange(6, dtype="f4").reshape(2, 3)


@pytest.fixture
def run(tmp_path, monkeypatch) -> TfdbgRun:
    monkeypatch.chdir(tmp_path)
    return TfdbgRun(tmp_path / "precision_data" / "tf" / "tf_debug")


def test_by_default_runs_become_arrays_in_the_folder_beside_them(run, capsys):
    run.add("dense/Relu", X, slot=1)
    assert main(["tf_dump"]) == 0

    (path,) = Path("precision_data/tf/dump").iterdir()
    assert path.name == f"dense_Relu.1.{FIRST_US + 1}.npy"
    assert np.array_equal(np.load(path), X)
    assert "1 arrays in precision_data/tf/dump" in capsys.readouterr().out


def test_names_that_files_cannot_tell_are_in_the_mapping_and_read_back(run):
    names = ["a/b_c", "a_b/c", "s/c.d", "x>y", "back\\slash", "a_b_c__2"]
    for number, name in enumerate(names):
        run.add(name, X + number)
    assert main(["tf_dump"]) == 0

    folder = Path("precision_data/tf/dump")
    rows = dict(csv.reader((folder / "mapping.csv").read_text(encoding="utf-8").splitlines()))
    assert rows == {
        f"a_b_c.0.{FIRST_US + 1}.npy": f"a/b_c.0.{FIRST_US + 1}.npy",
        f"a_b_c__3.0.{FIRST_US + 2}.npy": f"a_b/c.0.{FIRST_US + 2}.npy",
        f"x_y.0.{FIRST_US + 4}.npy": f"x>y.0.{FIRST_US + 4}.npy",
        f"back_slash.0.{FIRST_US + 5}.npy": f"back\\slash.0.{FIRST_US + 5}.npy",
    }
    catalog = read_npy_folder(folder, side="golden")
    found = {ref.node.name: float(values(ref)[0, 0]) for ref in catalog.tensors}
    assert found == {"a/b_c": 0.0, "a_b/c": 1.0, "s_c_d": 2.0, "x>y": 3.0, "back\\slash": 4.0, "a_b_c__2": 5.0}
    assert [key.name for key in catalog.nodes] == ["a/b_c", "a_b/c", "s_c_d", "x>y", "back\\slash", "a_b_c__2"]


def test_a_mapping_that_lacks_a_line_leaves_the_name_of_the_file(run):
    for name in ("a/b_c", "a_b/c"):
        run.add(name, X)
    assert main(["tf_dump"]) == 0
    mapping = Path("precision_data/tf/dump/mapping.csv")
    mapping.write_text(mapping.read_text(encoding="utf-8").splitlines()[0] + "\n", encoding="utf-8")

    assert {key.name for key in read_npy_folder(mapping.parent, side="golden").nodes} == {"a/b_c", "a_b_c__2"}


def test_an_earlier_extraction_is_not_written_over_unasked(run, capsys):
    run.add("a", X)
    assert main(["tf_dump"]) == 0
    second = TfdbgRun(run.folder.parent, 1)
    second.add("a", X + 1)
    kept = Path("precision_data/tf/dump/notes.txt")
    kept.write_text("mine")
    assert main(["tf_dump"]) == 2
    assert "holds 1 files of an earlier extraction" in capsys.readouterr().err

    assert main(["tf_dump", "--force"]) == 0
    (path,) = Path("precision_data/tf/dump").glob("*.npy")
    assert np.array_equal(np.load(path), X + 1)
    assert kept.read_text() == "mine"


def test_all_runs_and_all_turns_of_a_loop_have_their_own_arrays(run):
    for turn in range(3):
        run.add("loop/mul", X + turn)
    TfdbgRun(run.folder.parent, 1).add("loop/mul", X + 10)
    assert main(["tf_dump", "--run", "all", "-o", "out"]) == 0
    assert [float(np.load(path)[0, 0]) for path in sorted(Path("out").iterdir())] == [0.0, 1.0, 2.0, 10.0]


def test_mistakes_are_told(run, tmp_path, capsys):
    assert main(["tf_dump", "nowhere"]) == 2
    assert main(["tf_dump", "--run", "-3"]) == 2
    assert main(["tf_dump"]) == 3  # the run has no tensor
    assert "the run did not end" in capsys.readouterr().err
    assert not Path("precision_data/tf/dump").exists()


def test_what_tensorflow_wrote_is_extracted_as_it_was(tmp_path):
    assert main(["tf_dump", str(STEP), "-o", str(tmp_path / "out")]) == 0
    arrays = read_npy_folder(tmp_path / "out", side="golden")
    runs = read_tfdbg(STEP, side="golden")
    of_file = {(ref.node.name, ref.slot): ref for ref in arrays.tensors}
    compared = 0
    for ref in runs.tensors:
        clean = runs.nodes[ref.node].clean_name
        found = of_file[clean, ref.slot]
        assert np.array_equal(values(found), values(ref), equal_nan=True)
        compared += 1
    assert compared == len(runs.tensors) == len(arrays.tensors) > 60
    order = [key.name for key in arrays.nodes]
    assert order == [node.clean_name for node in runs.nodes.values()]
