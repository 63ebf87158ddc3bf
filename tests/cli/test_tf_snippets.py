"""Snippets for TensorFlow scripts: Python that names the options of the device's plug-in; the golden one runs."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.util import find_spec

import pytest

from probe_flow.cli.authoring.tf_snippets import TF_SNIPPETS
from probe_flow.cli.main import main
from probe_flow.dumps.tfdbg.reader import read_tfdbg

FACTS = {
    "tf_estimator": ["NPURunConfig(dump_config=dump_config)", 'dump_mode="all"', 'DUMP_GE_GRAPH="2"'],
    "tf_session": ["NpuOptimizer", '"use_off_line"', "remapping", 'NPU_DUMP_GRAPH="true"'],
    "tf_custom_op": ["custom_op", "allow_mix_precision", '"dump_step"'],
    "tf_keras": ["set_keras_session_npu_config", "shuffle=False", "NpuOptimizer"],
    "tf2": ["npu_device.global_options()", "dump_config.enable_dump", "as_default"],
    "tfdbg": ["disable_meta_optimizer", "opt_level = -1", "DumpingDebugHook"],
    "tf_training": ["return [loss, train]", "disable_v2_behavior", "dump.tensorflow_training"],
    "tf_fusion_off": ['"UBFusion": {"ALL": "off"}', "fusion_switch_file", "debug_1"],
    "tf_overflow": ["enable_dump_debug", "dump_debug_mode", "analysis.op_debug"],
}
STEP = """
with tf.Graph().as_default(), tf.compat.v1.Session(config=plain()) as session:
    x = tf.compat.v1.placeholder(tf.float32, [2], name="x")
    dumped(session, FOLDER).run(tf.add(x, 1.0, name="y"), {x: [1.0, 2.0]})
"""


@pytest.mark.parametrize("name", TF_SNIPPETS)
def test_a_snippet_is_python_and_names_the_options(name, capsys):
    assert main(["init", "--snippet", name]) == 0
    text = capsys.readouterr().out
    ast.parse(text)
    assert [word for word in FACTS[name] if word not in text] == []


def test_a_wrong_name_lists_all(capsys):
    assert main(["init", "--snippet", "tf"]) == 2
    said = capsys.readouterr().err
    assert all(name in said for name in TF_SNIPPETS)


@pytest.mark.frameworks
def test_the_golden_snippet_dumps_what_is_read(tmp_path):
    if find_spec("tensorflow") is None:
        pytest.skip("tensorflow is not installed")
    script = tmp_path / "step.py"
    script.write_text(TF_SNIPPETS["tfdbg"] + STEP)
    subprocess.run([sys.executable, str(script)], cwd=tmp_path, check=True, timeout=300)
    catalog = read_tfdbg(tmp_path / "precision_data/tf/tf_debug", side="golden")
    assert {key.name for key in catalog.nodes} == {"x", "y", "y/y"}


@pytest.mark.frameworks
def test_the_step_of_the_training_snippet_runs(tmp_path, monkeypatch):
    if find_spec("tensorflow") is None:
        pytest.skip("tensorflow is not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TF_SNIPPETS["tf_training"])
    stage = "golden: {uses: dump.tensorflow_training, model: train.py:step}"
    (tmp_path / "w.yaml").write_text(f"version: 1\nname: w\nstages:\n  {stage}\n")
    assert main(["run", "w.yaml", "--output", "out"]) == 0
    catalog = read_tfdbg(tmp_path / "out/dumps/golden/tf/tf_debug", side="golden")
    assert "dense/MatMul" in {key.name for key in catalog.nodes}
