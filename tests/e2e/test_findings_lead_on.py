"""Findings of real runs lead to the step of the decision guide that fits them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from probe_flow.cli.main import main
from probe_flow.errors import CODES

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "how-to" / "my-model-is-inaccurate.md").read_text(encoding="utf-8")
EXAMPLES = ROOT / "examples"
STEPS = {code for code in CODES if "PF7410" <= code <= "PF7429"}

Advice = Callable[..., list[str]]


@pytest.fixture
def advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Advice:
    """Return a function that runs a packaged workflow and returns the steps that its first finding leads to."""
    monkeypatch.chdir(tmp_path)

    def run(workflow: str, **sets: Path) -> list[str]:
        given = [f"--set={name}={path}" for name, path in sets.items()]
        code = main(["run", str(ROOT / "workflows" / f"{workflow}.yaml"), "-v", "--output", "out", *given])
        printed = " ".join(capsys.readouterr().out.split())
        findings = json.loads((tmp_path / "out" / "run.json").read_text(encoding="utf-8"))["findings"]
        first = next(finding for finding in findings if finding["fails"])
        steps = [f"{each['text'].replace(' RUN`', ' out`')} ({each['code']})" for each in first["advice"]]
        if code == 1:
            assert all(step in printed for step in steps)
        main(["show", "out", "--origin"])
        asked = " ".join(capsys.readouterr().out.split())
        assert all(f" to do {step}" in asked for step in steps)
        return [each["code"] for each in first["advice"]]

    return run


@pytest.mark.parametrize(
    ("workflow", "expected"),
    [
        ("torchair_ge_vs_fx", ["PF7425", "PF7413"]),
        ("torchair_fusion_on_vs_off", ["PF7411"]),
        ("pytorch_compare", ["PF7419"]),
        ("mindspore_compare", ["PF7417"]),
        ("offline_om_vs_onnx", ["PF7411", "PF7413"]),
    ],
)
def test_samples_lead_to_what_is_wrong_with_them(advice: Advice, workflow: str, expected: list[str]) -> None:
    assert advice(workflow) == expected


@pytest.mark.parametrize(
    "fact", [{"key": "_is_custom_op", "value": {"b": True}}, {"key": "_fe_imply_type", "value": {"i": 2}}]
)
def test_a_custom_operator_is_known_by_its_rules(advice: Advice, tmp_path: Path, fact: dict[str, object]) -> None:
    shutil.copytree(EXAMPLES / "offline" / "onnx", tmp_path / "onnx")
    rules = tmp_path / "onnx" / "fusion_rule.json"
    tree = json.loads(rules.read_text(encoding="utf-8"))
    (fc,) = (op for graph in tree["graph"] for op in graph["op"] if op["name"] == "fc")
    fc["attr"].append(fact)
    rules.write_text(json.dumps(tree), encoding="utf-8")
    sides = {side: tmp_path / "onnx" / side for side in ("target", "golden")}
    assert advice("offline_om_vs_onnx", fusion_rule=rules, **sides) == ["PF7411", "PF7412"]


def test_another_first_input_leads_to_what_the_sides_were_given(advice: Advice, tmp_path: Path) -> None:
    golden = tmp_path / "fx"
    shutil.copytree(EXAMPLES / "torchair" / "healthy" / "msprobe_fx_dump", golden)
    for path in golden.rglob("embedding-aten.embedding.default.INPUT.0.*.npy"):  # the table of the embedding
        np.save(path, np.load(path) * 1.5)
    target = EXAMPLES / "torchair" / "healthy" / "msprobe_ge_dump"
    assert advice("torchair_ge_vs_fx", target=target, golden=golden)[:1] == ["PF7410"]


def test_an_output_that_was_not_compared_leads_to_its_operator(advice: Advice, tmp_path: Path) -> None:
    golden = tmp_path / "fx"
    shutil.copytree(EXAMPLES / "torchair" / "faulty" / "msprobe_fx_dump", golden)
    for path in golden.rglob("gelu_1-*"):
        path.unlink()
    target = EXAMPLES / "torchair" / "faulty" / "msprobe_ge_dump"
    assert advice("torchair_ge_vs_fx", target=target, golden=golden) == ["PF7420"]


def test_every_step_has_its_place_in_the_guide() -> None:
    assert set(re.findall(r"PF74[12]\d", GUIDE)) == STEPS
