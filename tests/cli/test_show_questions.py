"""Questions to runs of packaged workflows: elements (TorchAir), statistics (PyTorch, MindSpore), a reduced dump."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from stored_runs import node, packaged_run, write_run
from stored_runs import row as made_row

WORKFLOWS = {
    "torchair": "torchair_ge_vs_fx",
    "pytorch": "pytorch_compare",
    "mindspore": "mindspore_compare",
    "reduced": "torchair_minmax",
    "offline": "offline_om_vs_onnx",
}
ORIGINS = {
    "torchair": "Gelu_1",
    "pytorch": "Tensor.__mul__",
    "mindspore": "Tensor.__mul__",
    "reduced": "Gelu_1",
    "offline": "fc",
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the folder of the run of a scenario; leave it as it is."""
    made: dict[str, Path] = {}

    def run(name: str) -> Path:
        if name not in made:
            made[name] = packaged_run(WORKFLOWS[name], tmp_path_factory.mktemp("runs") / name)
        return made[name]

    return run


def rows_of(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "comparison.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("scenario", WORKFLOWS)
def test_the_origin_is_told_with_its_rows(runs, probe_flow, scenario):
    shown = probe_flow("show", runs(scenario), "--origin")
    assert shown.code == 0
    assert shown.out.startswith(f"the divergence begins at {ORIGINS[scenario]}")
    found = probe_flow("show", runs(scenario), "--origin", "--format", "json").json
    assert found["first_divergence"]["node"] == ORIGINS[scenario]
    assert {row["node"] for row in found["rows"]} == {ORIGINS[scenario]}
    assert found["inherited"] == sum(row["role"] == "inherited" for row in rows_of(runs(scenario)))


@pytest.mark.parametrize(
    ("scenario", "option", "metric", "bound"),
    [
        ("torchair", "--below", "cosine", 0.999),
        ("torchair", "--above", "relative_euclidean_distance", 0.01),
        ("pytorch", "--above", "l2norm_diff_rel", 0.05),
        ("mindspore", "--above", "max_diff_rel", 0.1),
        ("offline", "--below", "cosine", 0.9999),
    ],
)
def test_nodes_beyond_a_threshold_are_those_of_the_rows(runs, probe_flow, scenario, option, metric, bound):
    found = probe_flow("show", runs(scenario), option, f"{metric}={bound}", "--limit", "0", "--format", "json").json
    expected = []
    for row in rows_of(runs(scenario)):
        value = row["metrics"].get(metric)
        value = float(value) if value is not None else None
        beyond = value is not None and (value < bound if option == "--below" else value > bound)
        if beyond and row["target"] and row["golden"]:
            expected.append((row["node"], row["call"], row["phase"]))
    assert [(node["node"], node["call"], node["phase"]) for node in found["nodes"]] == list(dict.fromkeys(expected))
    assert found["found"] == len(found["nodes"]) > 0


def test_the_bound_itself_is_listed_by_at_most_only(runs, probe_flow):
    row = next(row for row in rows_of(runs("torchair")) if row["role"] == "origin")
    bound = f"cosine={row['metrics']['cosine']!r}"
    below = probe_flow("show", runs("torchair"), "--below", bound, "--format", "json").json
    at_most = probe_flow("show", runs("torchair"), "--at-most", bound, "--format", "json").json
    assert at_most["found"] > below["found"]
    assert "Gelu_1" not in {node["node"] for node in below["nodes"] if node["part"] == "suspect"}
    assert {"Gelu_1"} <= {node["node"] for node in at_most["nodes"] if node["part"] == "suspect"}


def test_nodes_beyond_a_threshold_have_the_names_of_their_entries(runs, probe_flow):
    folder = runs("pytorch")
    found = probe_flow("show", folder, "--above", "l2norm_diff_rel=0.05", "--format", "json").json["nodes"]
    head, *lines = probe_flow("show", folder, "--above", "l2norm_diff_rel=0.05").out.splitlines()[2:]
    assert head.split()[:4] == ["node", "[in", "the", "dump]"]
    named = [f"[{node['name']}]" if node["name"] != node["node"] else "" for node in found]
    assert any(named)
    assert all(name in line for name, line in zip(named, lines, strict=False))
    assert "[in the dump]" not in probe_flow("show", runs("torchair"), "--below", "cosine=0.999").out


def test_a_limit_of_nodes_leaves_the_count_true(runs, probe_flow):
    shown = probe_flow("show", runs("torchair"), "--below", "cosine=0.999", "--limit", "2")
    assert "4 of 55 nodes have cosine < 0.999" in shown.out
    assert "the first 2 of 4 are shown, `--limit 0` shows all" in shown.out


@pytest.mark.parametrize("scenario", WORKFLOWS)
def test_what_has_no_counterpart_adds_up(runs, probe_flow, scenario):
    found = probe_flow("show", runs(scenario), "--unmatched", "--limit", "0", "--format", "json").json
    alone = [row for row in rows_of(runs(scenario)) if row["target"] is None or row["golden"] is None]
    assert found["unmatched"] == len(alone)
    assert sum(group["count"] for group in found["groups"]) == len(alone)
    assert {row["order"] for group in found["groups"] for row in group["rows"]} == {row["order"] for row in alone}


@pytest.mark.parametrize("scenario", WORKFLOWS)
def test_every_node_can_be_asked_for_by_its_name(runs, probe_flow, scenario):
    names = [json.loads(line) for line in (runs(scenario) / "nodes.jsonl").read_text().splitlines()]
    for record in names[:: max(1, len(names) // 7)]:
        found = probe_flow("show", runs(scenario), "--node", record["node"], "--format", "json").json
        assert record["node"] in {node["node"] for node in found["nodes"]}


def test_a_node_is_told_in_full(runs, probe_flow):
    shown = probe_flow("show", runs("torchair"), "--node", "Gelu_1", "--depth", "2", "--attrs").out
    for line in (
        "Gelu_1 (Gelu)  [target, rank 0, graph 1, step 0]",
        "  it is        wrong here (row rule: fail)",
        "    stream_id: 7",
        "  fed by       input 0 <- Add_9 (Add) output 0  [row rule: fail]",
        "  feeds        output 0 -> MatMulV2_7 (MatMulV2) input 0  [carries it on (row rule: fail)]",
        "      +2  Add_10 (Add)  [carries it on (row rule: fail)]",
    ):
        assert line in shown.splitlines()


def test_a_fused_node_names_its_originals(runs, probe_flow):
    shown = probe_flow("show", runs("torchair"), "--node", "Mul_1Add_2").out
    assert "  originals    Mul_1, Add_2" in shown


def test_a_node_of_a_dump_without_flow_tells_what_ran_before_and_after(runs, probe_flow):
    shown = probe_flow("show", runs("mindspore"), "--node", "Tensor.__mul__.0.forward").out
    assert "  in the dump  Tensor.__mul__.0.forward" in shown
    assert "after Functional.matmul (matmul), before Functional.softmax (softmax)" in shown
    assert "scalar argument is 0.125, golden 0.35355339059327373" in shown


def test_a_part_of_a_name_lists_what_it_means(runs, probe_flow):
    shown = probe_flow("show", runs("pytorch"), "--node", "linear").out
    assert shown.startswith("25 nodes have `linear` in their names\n")
    assert "21 more nodes: Functional.linear#4" in shown
    everything = probe_flow("show", runs("pytorch"), "--node", "linear", "--limit", "0", "--format", "json").json
    assert (len(everything["nodes"]), everything["others"]) == (25, [])


def test_a_drawing_is_one_file_that_fetches_nothing(runs, probe_flow, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))  # no graphviz
    done = probe_flow("show", runs("torchair"), "--node", "Add_1", "--svg", "near.svg")
    assert "drawn in layers" in done.err
    svg = (tmp_path / "near.svg").read_text()
    texts = list(ElementTree.fromstring(svg).itertext())
    assert "Add_1" in texts
    assert "href" not in svg
    assert svg.count("://") == 1  # the name space


def test_graphviz_draws_where_it_is_installed(runs, probe_flow, tmp_path, monkeypatch):
    program = tmp_path / "bin" / "dot"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\n[ "$1" = -Tsvg ] || exit 9\n/bin/cat > got.dot\necho "<svg>drawn</svg>"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    done = probe_flow("show", runs("torchair"), "--node", "Add_1", "--depth", "1", "--svg", "near.svg")
    assert "drawn by graphviz" in done.err
    assert (tmp_path / "near.svg").read_text() == "<svg>drawn</svg>\n"
    assert (tmp_path / "got.dot").read_text().startswith("digraph neighbourhood {")
    probe_flow("show", runs("torchair"), "--node", "Add_1", "--depth", "1", "--svg", "near.gv")
    assert (tmp_path / "near.gv").read_text() == (tmp_path / "got.dot").read_text()


def test_graphviz_that_fails_is_done_without(runs, probe_flow, tmp_path, monkeypatch):
    program = tmp_path / "bin" / "dot"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    assert "drawn in layers" in probe_flow("show", runs("torchair"), "--node", "Add_1", "--svg", "near.svg").err


def test_a_tensor_is_read_from_both_dumps(runs, probe_flow):
    found = probe_flow("show", runs("torchair"), "--tensor", "Gelu_1.output.0", "--format", "json").json
    (tensor,) = found["tensors"]
    record = json.loads((runs("torchair") / "run.json").read_text())
    roots = {each["stage"]: Path(each["path"]) for each in record["inputs"]}
    golden = np.load(roots["golden"] / tensor["row"]["golden"]["file"])
    assert {side["source"] for side in tensor["sides"].values()} == {"dump"}
    shown = tensor["sides"]["golden"]
    assert shown["values"] == golden.ravel()[:128].astype(float).tolist()
    assert sum(shown["histogram"]["counts"]) == golden.size
    worst = tensor["worst"][0]
    assert worst["error"] == pytest.approx(tensor["row"]["metrics"]["max_abs_err"], rel=1e-9)
    assert worst["golden"] == float(golden.ravel()[worst["index"]])


def test_an_operator_that_is_compared_with_itself_is_read_from_the_target(runs, probe_flow):
    found = probe_flow("show", runs("torchair"), "--tensor", "trans_TransData_25.output.0", "--format", "json").json
    (tensor,) = found["tensors"]
    assert tensor["row"]["rule"] == "self"
    assert {side["source"] for side in tensor["sides"].values()} == {"dump"}
    assert tensor["sides"]["golden"]["values"] == tensor["sides"]["target"]["values"]
    assert (tensor["worst"], tensor["no_worst"]) == ([], None)


def test_a_private_layout_is_read_as_the_framework_means_it(runs, probe_flow):
    found = probe_flow("show", runs("offline"), "--tensor", "fc.output.0", "--format", "json").json
    (tensor,) = found["tensors"]
    assert tensor["row"]["target"]["layout"] == "FRACTAL_NZ"
    assert tensor["sides"]["target"]["source"] == "dump"
    assert (tensor["sides"]["target"]["numel"], tensor["worst"][0]["index"]) == (10, 3)
    assert found["matching_rows"] > 1


def test_channels_of_a_golden_come_first_where_the_run_took_them_so(probe_flow, tmp_path):
    run = packaged_run("offline_om_vs_tensorflow", tmp_path / "run")
    found = probe_flow("show", run, "--tensor", "pool1.output.0", "--format", "json").json
    (tensor,) = found["tensors"]
    assert tensor["row"]["transform"] == ["golden:nhwc_to_nchw"]
    roots = {each["stage"]: Path(each["path"]) for each in json.loads((run / "run.json").read_text())["inputs"]}
    golden = np.load(roots["golden"] / tensor["row"]["golden"]["file"]).transpose(0, 3, 1, 2)
    assert tensor["shape"] == list(golden.shape)
    assert tensor["sides"]["golden"]["values"] == golden.ravel()[:128].astype(float).tolist()
    worst = tensor["worst"][0]
    assert worst["error"] == pytest.approx(tensor["row"]["metrics"]["max_abs_err"], rel=1e-9)
    assert worst["golden"] == float(golden.ravel()[worst["index"]])
    place = tuple(map(int, np.unravel_index(worst["index"], golden.shape)))
    shown = probe_flow("show", run, "--tensor", "pool1.output.0").out
    assert ", axes NHWC taken channels first\n" in shown
    assert str(place).replace(" ", "") in shown.partition("largest errors, from the dumps")[2]


def test_a_tensor_whose_dump_is_gone_is_told_from_the_record(runs, probe_flow, tmp_path):
    moved = shutil.copytree(runs("torchair"), tmp_path / "moved")
    record = json.loads((moved / "run.json").read_text())
    for given in record["inputs"]:
        given["path"] = "/nowhere/" + given["stage"]
    (moved / "run.json").write_text(json.dumps(record))
    shown = probe_flow("show", moved, "--tensor", "Gelu_1.output.0").out
    assert "from the record: there is no dump at `/nowhere/target`" in shown
    assert "values around the largest error, from the record" in shown
    assert "how the errors spread, from the record" in shown


def test_a_dump_that_moved_is_found_where_it_is_said_to_be(runs, probe_flow, tmp_path):
    record = json.loads((runs("torchair") / "run.json").read_text())
    target = next(each["path"] for each in record["inputs"] if each["stage"] == "target")
    copy = shutil.copytree(target, tmp_path / "elsewhere")
    arguments = ["show", runs("torchair"), "--tensor", "Gelu_1.output.0", "--format", "json"]
    found = probe_flow(*arguments, "--dump", f"target={copy}").json["tensors"][0]
    assert found["sides"]["target"]["source"] == "dump"
    file = copy / found["row"]["target"]["file"]
    file.write_bytes(file.read_bytes()[:-512] + bytes(512))
    changed = probe_flow(*arguments, "--dump", f"target={copy}").json["tensors"][0]["sides"]["target"]
    assert changed["source"] == "record"
    assert "it has changed since" in changed["why"]


@pytest.mark.parametrize(
    ("scenario", "why"),
    [("pytorch", "the dump holds statistics only"), ("mindspore", "the dump holds statistics only")],
)
def test_a_tensor_of_statistics_says_that_there_are_no_elements(runs, probe_flow, scenario, why):
    row = next(row for row in rows_of(runs(scenario)) if row["kind"] == "statistics" and row["golden"])
    found = probe_flow("show", runs(scenario), "--tensor", row["target"]["name"], "--format", "json").json
    side = found["tensors"][0]["sides"]["target"]
    assert (side["source"], side["why"]) == ("record", why)
    assert side["statistics"]["max"] == row["target"]["max"]


def test_rows_are_narrowed_by_place(runs, probe_flow):
    everything = probe_flow("show", runs("torchair"), "--rank", "0", "--limit", "1", "--format", "json").json
    nothing = probe_flow("show", runs("torchair"), "--graph", "7", "--format", "json").json
    assert everything["matching"] == everything["total"]
    assert nothing["matching"] == 0


@pytest.mark.parametrize("question", [[], ["--origin"], ["--unmatched"], ["--below", "cosine=0.9"]])
@pytest.mark.parametrize(("place", "words"), [(["--rank", "9"], "rank 9"), (["--step", "7"], "step 7")])
def test_a_rank_or_step_that_was_not_compared_is_not_answered_as_if_it_were_well(
    runs, probe_flow, question, place, words
):
    done = probe_flow("show", runs("torchair"), *question, *place)
    assert (done.code, "PF7201" in done.err, "it has rank: 0; step: 0" in done.err) == (2, True, True), done.out
    assert f"this run compared nothing of {words}" in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--below", "cosine"], 2, "PF7203"),
        (["--below", "cosin=0.9"], 2, "did you mean `cosine`"),
        (["--below", "rmse=1", "--origin"], 2, "PF7205"),
        (["--origin", "--verdict", "fail"], 2, "PF7205"),
        (["--node", "Gelu_1", "--tensor", "x"], 2, "PF7205"),
        (["--depth", "2"], 2, "`--depth` belongs to `--node NAME`"),
        (["--node", "Gelu*", "--svg", "x.svg"], 2, "`--svg` belongs to `--node NAME`"),
        (["--node", "Add_1", "--svg", "x.png"], 2, "`x.png`: a drawing is SVG, as in `x.svg`, or with `.dot`"),
        (["--origin", "--dump", "target=x"], 2, "`--dump` belongs to `--tensor NAME`"),
        (["--node", "Gello"], 2, "did you mean `Gelu"),
        (["--tensor", "nothing_like_it"], 2, "PF7201"),
        (["--tensor", "Gelu_1.output.0", "--dump", "npu=/x"], 2, "PF7206"),
        (["--below", "cosine=0.9", "--comparison", "reslt"], 2, "PF7114"),
        (["--node", "Gelu_1", "--comparison", "reslt"], 2, "PF7114"),
        (["--depth", "-1"], 2, "--depth"),
    ],
)
def test_mistakes_are_told(runs, probe_flow, arguments, code, told):
    done = probe_flow("show", runs("torchair"), *arguments)
    assert done.code == code
    assert told in done.err


def test_a_name_that_no_file_can_have_holds_no_run_and_no_dump(runs, probe_flow):
    name = "a" * 5000
    assert "error[PF7110]" in probe_flow("show", name).err
    assert probe_flow("diff", runs("torchair"), name).code == 2
    assert "error[PF7001]" in probe_flow("baseline", "accept", runs("torchair"), "--output", name).err
    shown = probe_flow("show", runs("torchair"), "--tensor", "Gelu_1.output.0", "--dump", f"target={name}")
    assert shown.code == 0
    assert f"there is no dump at `{name}`" in shown.out


def test_the_stage_of_a_run_with_one_comparison_may_be_named(runs, probe_flow):
    for question in (["--node", "Gelu_1"], ["--origin"], ["--below", "cosine=0.999"], ["--tensor", "Gelu_1"]):
        assert probe_flow("show", runs("torchair"), *question, "--comparison", "result").code == 0


def test_quiet_leaves_the_last_line_of_an_answer(runs, probe_flow):
    out = probe_flow("show", runs("torchair"), "--origin", "--quiet").out
    assert out.startswith(
        "FAIL Gelu_1 (Gelu) output 0, rank 0, graph 1, step 0: 25.5 x rounding, scale +2.15% | 10 inherit"
    )
    assert out.count("\n") == 1


@pytest.mark.parametrize(
    "question", [["--node", "Odd"], ["--tensor", "Odd"], ["--below", "cosine=1"], ["--unmatched"], []]
)
def test_names_of_any_kind_reach_the_screen_and_programs(probe_flow, tmp_path, question):
    name = "Odd_\udcff_\x1b[31m_\u202e_\u6c49"
    folder = write_run(
        tmp_path / "run",
        [made_row(0, name, cosine="nan"), made_row(1, name, "input", cosine=0.5, golden=None)],
        [node(name, 0, attributes={"bound": "inf"})],
    )
    shown = probe_flow("show", folder, *question)
    assert shown.code == 0
    assert "\x1b" not in shown.out
    assert "\u202e" not in shown.out
    assert probe_flow("show", folder, *question, "--format", "json").json["folder"] == str(folder)


def test_half_a_run_folder_still_answers_from_its_rows(runs, probe_flow, tmp_path):
    half = shutil.copytree(runs("torchair"), tmp_path / "half")
    (half / "nodes.jsonl").unlink()
    assert probe_flow("show", half, "--below", "cosine=0.999").code == 0
    done = probe_flow("show", half, "--node", "Gelu_1")
    assert done.code == 3
    assert "PF7204" in done.err
    assert "2 of 272 rows match" in done.out
    (half / "comparison.jsonl").unlink()
    assert probe_flow("show", half, "--origin").code == 3
    assert "PF7113" in probe_flow("show", half, "--tensor", "Gelu").err


def test_a_run_of_an_older_version_is_refused(runs, probe_flow, tmp_path):
    old = shutil.copytree(runs("torchair"), tmp_path / "old")
    record = json.loads((old / "run.json").read_text())
    (old / "run.json").write_text(json.dumps({**record, "schema": "probe_flow.run/0"}))
    done = probe_flow("show", old, "--below", "cosine=0.9")
    assert done.code == 2
    assert "the older format `probe_flow.run/0`" in done.err


def test_closer_looks_are_written_as_their_schema_says(runs):
    import jsonschema

    from probe_flow.record.schemas import schema

    lines = (runs("torchair") / "details.jsonl").read_text().splitlines()
    for line in lines:
        jsonschema.validate(json.loads(line), schema("details"))
    assert len(lines) > 10
    assert "details.jsonl" in json.loads((runs("torchair") / "run.json").read_text())["artifacts"]


def test_stages_of_any_name_are_told_apart_by_what_they_hold(runs, probe_flow, tmp_path):
    renamed = shutil.copytree(runs("torchair"), tmp_path / "renamed")
    record = json.loads((renamed / "run.json").read_text())
    golden = next(each["path"] for each in record["inputs"] if each["stage"] == "golden")
    changed = shutil.copytree(golden, tmp_path / "other")  # the same names, and values that are nearly the same
    for file in changed.rglob("gelu_1-*.npy"):
        np.save(file, np.load(file) * np.float32(1 + 1e-6))
    record["inputs"] = [
        {**record["inputs"][0], "stage": "b", "path": str(changed)},
        {**record["inputs"][0], "stage": "c", "path": golden},
        *({**each, "stage": "a"} for each in record["inputs"] if each["stage"] == "target"),
    ]
    (renamed / "run.json").write_text(json.dumps(record))
    (tensor,) = probe_flow("show", renamed, "--tensor", "Gelu_1.output.0", "--format", "json").json["tensors"]
    assert {side["source"] for side in tensor["sides"].values()} == {"dump"}
    file = Path(golden) / tensor["row"]["golden"]["file"]
    assert tensor["sides"]["golden"]["values"] == np.load(file).ravel()[:128].astype(float).tolist()
