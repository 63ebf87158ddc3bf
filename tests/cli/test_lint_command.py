"""`lint` and `validate --strict`: what is valid and looks wrong, each rule with its fault and without."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from probe_flow.workflow.lint import RULES

ROOT = Path(__file__).resolve().parents[2]

GOOD = """\
version: 1
name: demo
params:
  target: {type: path, help: GE dump}
  golden: {type: path, help: FX dump}
stages:
  target: {uses: dump.torchair_ge, path: "${params.target}"}
  golden: {uses: dump.torchair_fx, path: "${params.golden}"}
  pairs:  {uses: match.torchair, target: target, golden: golden}
  result: {uses: compare, pairs: pairs, policy: torchair}
  report: {uses: report, comparison: result, formats: [junit]}
"""

CHANGES = {
    "PF1401": (
        "  report:",
        '  spare: {uses: dump.torchair_fx, path: "x"}\n  report:',
        "nothing uses the result of stage `spare`",
    ),
    "PF1402": ("target: target, golden: golden}", "target: golden, golden: target}", "look swapped"),
    "PF1403": ("target: target, golden: golden}", "target: target, golden: target}", "are the same dump"),
    "PF1404": ("policy: torchair}", "policy: [{pass: {cosine: '>= 1.5'}}]}", "no value of `cosine` meets `>= 1.5`"),
    "PF1405": ("{type: path, help: GE dump}", "{type: path, default: /data/ge}", "`/data/ge` is an absolute path"),
    "PF1406": ("{type: path, help: GE dump}", "{type: path, sample: ge}", "`target` has sample data"),
    "PF1407": ("policy: torchair}", "policy: torchair, require: {coverage: 0.4}}", "with 40% of the outputs"),
    "PF1408": ("params:\n", "params:\n  spare: {type: int, default: 1}\n", "nothing reads the parameter `spare`"),
}


PLACES = {
    "PF1401": "spare:",
    "PF1402": "pairs:",
    "PF1403": "pairs:",
    "PF1404": "cosine",
    "PF1405": "/data/ge",
    "PF1406": "sample: ge",
    "PF1407": "coverage: 0.4",
    "PF1408": "spare:",
}


def only(done, code):
    """Return the one finding of a code."""
    (found,) = (each for each in map(json.loads, done.out.splitlines()) if each["code"] == code)
    return found


def lint(probe_flow, tmp_path, text, *options):
    (tmp_path / "w.yaml").write_text(text, encoding="utf-8")
    return probe_flow("lint", "w.yaml", *options)


def test_a_file_without_faults_is_clean_though_its_parameters_have_no_value(probe_flow, tmp_path):
    done = lint(probe_flow, tmp_path, GOOD)
    assert (done.code, done.out, done.err) == (0, "w.yaml: ok\n", "")


@pytest.mark.parametrize("code", RULES)
def test_each_rule_finds_its_fault_at_its_place(probe_flow, tmp_path, code):
    old, new, said = CHANGES[code]
    assert old in GOOD
    text = GOOD.replace(old, new)
    done = lint(probe_flow, tmp_path, text, "--format", "json")
    assert done.code == 1
    found = only(done, code)
    assert found["severity"] == "warning"
    assert said in found["message"]
    assert PLACES[code] in text.splitlines()[found["line"] - 1]
    shown = lint(probe_flow, tmp_path, text)
    assert f"warning[{code}]" in shown.err
    assert shown.out == f"w.yaml: {'2 findings' if code == 'PF1403' else '1 finding'}\n"


@pytest.mark.parametrize("code", RULES)
def test_a_finding_can_be_kept_quiet_by_its_line_or_by_an_option(probe_flow, tmp_path, code):
    text = GOOD.replace(*CHANGES[code][:2])
    rest = ("--ignore", "PF1401") if code == "PF1403" else ()  # then nothing uses the golden side
    line = only(lint(probe_flow, tmp_path, text, "--format", "json"), code)["line"]
    assert lint(probe_flow, tmp_path, text, "--ignore", code, *rest).code == 0
    other = "PF1401" if code != "PF1401" else "PF1402"
    for comment, quiet in ((f"# lint: ignore {code}", 0), ("# lint: ignore", 0), (f"# lint: ignore {other}", 1)):
        lines = text.splitlines()
        lines[line - 1] += f"   {comment}"
        assert lint(probe_flow, tmp_path, "\n".join(lines), *rest).code == quiet
        above = text.splitlines()
        above.insert(line - 1, f"  {comment}")
        assert lint(probe_flow, tmp_path, "\n".join(above), *rest).code == quiet


@pytest.mark.parametrize(
    ("bound", "is_found"),
    [
        ("cosine: '>= 0.99'", False),
        ("cosine: '> 1'", True),
        ("cosine: '>= 1'", False),
        ("cosine: '>= -1'", True),
        ("cosine: '<= 1'", True),
        ("cosine: '== 2'", True),
        ("cosine: '!= 2'", True),
        ("max_abs_err: '< 0'", True),
        ("max_abs_err: '<= 0'", False),
        ("max_abs_err: '>= 0'", True),
        ("max_abs_err: '<= inf'", False),
        ("mean_target: '>= 5'", False),
        ("err_ratio_1e3: '<= 1'", True),
        ("err_ratio_1e3: '< 0.5'", False),
    ],
)
def test_a_bound_is_found_where_every_or_no_value_meets_it(probe_flow, tmp_path, bound, is_found):
    text = GOOD.replace("policy: torchair}", f"policy: [{{pass: {{{bound}}}}}]}}")
    done = lint(probe_flow, tmp_path, text)
    assert done.code == int(is_found), done.err
    assert ("PF1404" in done.err) == is_found


def test_two_dumps_at_one_path_are_one_dump(probe_flow, tmp_path):
    same = GOOD.replace("dump.torchair_ge", "dump.torch").replace("dump.torchair_fx", "dump.torch")
    same = same.replace("match.torchair", "match.name")
    assert lint(probe_flow, tmp_path, same, "--set", "target=a", "--set", "golden=b").code == 0
    done = lint(probe_flow, tmp_path, same, "--set", "target=a", "--set", "golden=a")
    assert "PF1403" in done.err


def test_readers_tell_which_side_judges(probe_flow, tmp_path):
    swapped = GOOD.replace("target: {uses: dump.torchair_ge", "a: {uses: dump.torchair_fx")
    swapped = swapped.replace("golden: {uses: dump.torchair_fx", "b: {uses: dump.torchair_ge")
    swapped = swapped.replace("target: target, golden: golden}", "target: a, golden: b}")
    assert "PF1402" in lint(probe_flow, tmp_path, swapped).err


def test_a_template_that_is_extended_has_its_samples_in_peace(probe_flow, tmp_path):
    text = "version: 1\nname: mine\nextends: template:torchair_ge_vs_fx\nparams:\n  target: {default: a}\n"
    done = lint(probe_flow, tmp_path, text)
    assert done.code == 0, done.err


def test_a_packaged_workflow_is_named_without_its_path(probe_flow):
    for command in ("lint", "validate"):
        assert probe_flow(command, "template:torchair-ge-vs-fx").code == 0
        done = probe_flow(command, "template:torchair_ge_vs_fy")
        assert done.code == 2
        assert "PF1101" in done.err
        assert "did you mean `torchair_ge_vs_fx`" in done.err


@pytest.mark.parametrize("path", sorted((ROOT / "workflows").glob("*.yaml")), ids=lambda path: path.stem)
def test_packaged_workflows_are_clean(probe_flow, path):
    assert probe_flow("lint", path).code == 0


def test_what_is_not_valid_is_shown_as_validate_does(probe_flow, tmp_path):
    done = lint(probe_flow, tmp_path, GOOD.replace("uses: compare", "uses: compar"))
    assert done.code == 2
    assert "PF2002" in done.err
    assert done.out == "w.yaml: not valid\n"
    (tmp_path / "good.yaml").write_text(GOOD)
    assert probe_flow("lint", "good.yaml", "w.yaml", "nowhere.yaml").code == 2
    assert probe_flow("lint", "good.yaml", "--ignore", "PF9999").code == 2


def test_sarif_names_rule_and_place(probe_flow, tmp_path):
    done = lint(probe_flow, tmp_path, GOOD.replace(*CHANGES["PF1404"][:2]), "--format", "sarif")
    assert done.code == 1
    (run,) = done.json["runs"]
    assert done.json["version"] == "2.1.0"
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "PF1404"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "w.yaml"
    assert place["region"]["startLine"] == 10
    clean = lint(probe_flow, tmp_path, GOOD, "--format", "sarif")
    assert (clean.code, clean.json["runs"][0]["results"]) == (0, [])


def test_validate_is_strict_when_asked_to(probe_flow, tmp_path):
    (tmp_path / "w.yaml").write_text(GOOD.replace(*CHANGES["PF1407"][:2]))
    assert probe_flow("validate", "w.yaml").code == 0
    strict = probe_flow("validate", "--strict", "w.yaml")
    assert strict.code == 1
    assert "PF1407" in strict.err
    (tmp_path / "w.yaml").write_text(GOOD)
    assert probe_flow("validate", "--strict", "w.yaml").code == 0
