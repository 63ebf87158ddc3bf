"""Graphs in layout `msprobe` against those that msprobe 1.2.1 and 26.2.0 wrote of the same dumps."""

from __future__ import annotations

import gzip
import json
import sqlite3
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import probe_flow as pf
from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.graphs.compare import ComparedRows, compare_graphs
from probe_flow.graphs.levels import overflow_levels
from probe_flow.graphs.links import with_links
from probe_flow.graphs.tree import build_graphs
from probe_flow.mappings.mapping_file import ClassEntries, read_layer_mapping
from probe_flow.record.stored.reading import read_comparison
from probe_flow.records.model_graph import GraphLayout, GraphPair
from probe_flow.reports.graph_files.msprobe_scores import msprobe_scored
from probe_flow.reports.graph_files.vis import write_vis
from probe_flow.reports.graph_files.vis_db import graph_database
from tests.support.graph_dumps import BASE, DATA, RENAMED, RENAMES, SLOPE
from tests.support.graph_trees import entry, tensor, write_dump

OLD, NEW = GraphLayout.MSPROBE_VIS, GraphLayout.MSPROBE_VIS_DB
NO_ROWS = ComparedRows(())
"""Rows are asked for the measurements of tensors only, and these dumps hold statistics."""

ARCHIVE = DATA / "msprobe_graphs.tar.xz"
with tarfile.open(ARCHIVE) as names:
    CASES = sorted({name.split("/")[1] for name in names.getnames() if name.endswith("/t")})


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graphs")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


def pairs_of(
    target: Path,
    golden: Path | None,
    layout: GraphLayout,
    *,
    is_fuzzy: bool = False,
    mapping: Sequence[ClassEntries] | None = None,
    has_levels: bool = False,
) -> list[GraphPair]:
    """Return the graphs of all ranks, compared where there is a golden."""
    graphs = build_graphs(read_dump_json(target, side="target"), layout=layout)
    if golden is None:
        pairs = [GraphPair(graph) for graph in graphs]
    else:
        theirs = build_graphs(read_dump_json(golden, side="golden"), layout=layout)
        both = zip(graphs, theirs, strict=True)
        pairs = [compare_graphs(NO_ROWS, *graph, is_fuzzy=is_fuzzy, mapping=mapping) for graph in both]
        pairs = [msprobe_scored(pair) for pair in pairs]
    if has_levels:
        found = [[overflow_levels(graph) if graph else {} for graph in (pair.target, pair.golden)] for pair in pairs]
        pairs = [replace(pair, levels=tuple(levels)) for pair, levels in zip(pairs, found, strict=True)]
    return with_links(pairs, has_levels=has_levels) if len(pairs) > 1 else pairs


def facts_of_vis(path: Path) -> dict[str, Any]:
    content = json.loads(path.read_text(encoding="ascii"))
    sides = {side: content[side] for side in ("NPU", "Bench")} if "NPU" in content else {"NPU": content}
    return {
        "micro_steps": content["MicroSteps"],
        "task": content.get("task"),
        "sides": {side: [facts_of_node(node) for node in graph["node"].values()] for side, graph in sides.items()},
    }


def facts_of_node(node: Mapping[str, Any]) -> list[Any]:
    keys = ("id", "node_type", "upnode", "subnodes", "matched_node_link")
    data = node["data"]
    more = data.get("precision_index"), data.get("overflow_level"), node.get("micro_step_id")
    return [*(node[key] for key in keys), *more, node.get("matched_distributed", {})]


def facts_of_database(path: Path) -> dict[str, Any]:
    columns = (
        "data_source || '_' || rank, node_name, node_type, up_node, sub_nodes, matched_node_link, precision_index, "
        "overflow_level, micro_step_id, matched_distributed"
    )
    sides: dict[str, list[Any]] = {}
    with closing(sqlite3.connect(path)) as database:
        query = f"SELECT {columns} FROM tb_nodes ORDER BY rank, data_source DESC, node_order"
        for side, name, kind, up, below, link, *rest, links in database.execute(query):
            inside = json.loads(below) if below else []
            sides.setdefault(side, []).append([name, int(kind), up, inside, json.loads(link), *rest, json.loads(links)])
        steps, task = database.execute("SELECT micro_steps, task FROM tb_config").fetchone()
    return {"micro_steps": steps, "task": task, "sides": sides}


def assert_same(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    assert (found["micro_steps"], found["task"]) == (expected["micro_steps"], expected["task"])
    assert {*found["sides"]} == {*expected["sides"]}
    for side, nodes in expected["sides"].items():
        assert [node[0] for node in found["sides"][side]] == [node[0] for node in nodes], "names and order"
        for mine, theirs in zip(found["sides"][side], nodes, strict=True):
            assert mine[:5] == theirs[:5], "type, parent, children, match"
            assert mine[5] == (None if theirs[5] is None else pytest.approx(theirs[5], abs=1e-5)), mine[0]
            assert mine[6:8] == theirs[6:8], "level and micro step"
            assert mine[8] == theirs[8], "links"


def options_of(cases: Path, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what msprobe wrote, and how it was asked."""
    expected = json.loads((cases / name / "expected.json").read_text())
    given = expected["options"]
    mapping = {None: None, "map_ren": read_layer_mapping(RENAMES)}.get(given.get("map") or None, ())
    mapping = () if given.get("map") == {} else mapping
    return expected, {"is_fuzzy": "fuzzy" in given, "mapping": mapping, "has_levels": "oc" in given}


@pytest.mark.parametrize("name", CASES)
def test_databases_are_those_of_version_26(cases: Path, tmp_path: Path, name: str) -> None:
    expected, options = options_of(cases, name)
    golden = cases / name / "g"
    pairs = pairs_of(cases / name / "t", golden if golden.is_dir() else None, NEW, **options)
    with graph_database(tmp_path / "mine.vis.db", has_levels=options["has_levels"]) as database:
        for pair in pairs:
            database.add(pair)
    assert_same(facts_of_database(tmp_path / "mine.vis.db"), expected["vis_db"])


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith(("megatron", "structure"))])
def test_files_are_those_of_version_1(cases: Path, tmp_path: Path, name: str) -> None:
    expected, options = options_of(cases, name)
    golden = cases / name / "g"
    pairs = pairs_of(cases / name / "t", golden if golden.is_dir() else None, OLD, **options)
    assert len(pairs) == len(expected["vis"])
    for pair in pairs:
        write_vis(pair, tmp_path / "mine.vis", has_levels=options["has_levels"])
        assert_same(facts_of_vis(tmp_path / "mine.vis"), expected["vis"][str(pair.target.execution.rank or 0)])


@pytest.mark.parametrize(
    ("name", "target", "golden", "is_mapped"),
    [
        ("build_stat", BASE, None, False),
        ("cmp_stat", SLOPE, BASE, False),
        ("cmp_ren_nomap", RENAMED, BASE, False),
        ("cmp_ren_map", RENAMED, BASE, True),
    ],
)
def test_every_field_of_a_file_is_that_of_version_1(
    tmp_path: Path, name: str, target: Path, golden: Path | None, is_mapped: bool
) -> None:
    (pair,) = pairs_of(target, golden, OLD, mapping=read_layer_mapping(RENAMES) if is_mapped else None)
    write_vis(pair, tmp_path / "mine.vis")
    mine = json.loads((tmp_path / "mine.vis").read_text(encoding="ascii"))
    theirs = json.loads(gzip.decompress((DATA / "gen1" / f"{name}.vis.gz").read_bytes()))
    assert list(mine) == list(theirs)
    for side in ("NPU", "Bench") if golden else ():
        assert mine[side]["node"] == theirs[side]["node"]
    if golden is None:
        assert mine == theirs
    else:
        bands = [{colour: band["value"] for colour, band in each["Colors"].items()} for each in (mine, theirs)]
        assert bands[0] == bands[1]


@pytest.mark.parametrize(("name", "target", "golden"), [("build_stat", BASE, None), ("cmp_stat", SLOPE, BASE)])
def test_every_column_of_a_database_is_that_of_version_26(
    tmp_path: Path, name: str, target: Path, golden: Path | None
) -> None:
    (pair,) = pairs_of(target, golden, NEW)
    with graph_database(tmp_path / "mine.vis.db") as database:
        database.add(pair)
    theirs = json.loads(gzip.decompress((DATA / "gen2" / f"{name}.tables.json.gz").read_bytes()))
    with closing(sqlite3.connect(tmp_path / "mine.vis.db")) as mine:
        mine.row_factory = sqlite3.Row
        for table in ("tb_nodes", "tb_stack", "tb_config"):
            rows = [dict(row) for row in mine.execute(f"SELECT * FROM {table} ORDER BY rowid")]
            assert len(rows) == len(theirs[table])
            for row, other in zip(rows, theirs[table], strict=True):
                assert list(row) == list(other)
                assert {name: plain(value) for name, value in row.items() if name not in TEXTS} == {
                    name: plain(value) for name, value in other.items() if name not in TEXTS
                }


@pytest.mark.parametrize("layout", [OLD, NEW])
def test_scores_of_tensors_are_those_of_msprobe(cases: Path, tmp_path: Path, layout: GraphLayout) -> None:
    dumps = [DATA.parent / "dump_json" / f"pt_tensorL0_{side}" for side in ("bug", "base")]
    pf.compare(*dumps, output=tmp_path / "run")
    comparison = read_comparison(next((tmp_path / "run").rglob("comparison.msgpack")))
    catalogs = comparison.pairs.target, comparison.pairs.golden
    graphs = [next(build_graphs(catalog, layout=layout)) for catalog in catalogs]
    pair = msprobe_scored(compare_graphs(ComparedRows(comparison.rows), graphs[0], graphs[1]))
    expected = json.loads((cases / "pt_tensor" / "expected.json").read_text())
    assert not pair.problems
    if layout is OLD:
        write_vis(pair, tmp_path / "mine.vis")
        assert_same(facts_of_vis(tmp_path / "mine.vis"), expected["vis"]["0"])
    else:
        with graph_database(tmp_path / "mine.vis.db") as database:
            database.add(pair)
        assert_same(facts_of_database(tmp_path / "mine.vis.db"), expected["vis_db"])


CALLED = {"Module.output.Linear.forward.0": None, "Tensor.mul.0.forward": "Module.output.Linear.forward.0"}
"""A module whose name has the word by which msprobe tells outputs, and a call in it."""


def written(folder: Path, layout: GraphLayout, entries: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Return the node of each of these entries in the file that the comparison with others gives."""
    dumps = [write_dump(folder / side, CALLED, each) for side, each in (("t", entries), ("g", others))]
    (pair,) = pairs_of(*dumps, layout)
    if layout is OLD:
        write_vis(pair, folder / "mine.vis")
        nodes = json.loads((folder / "mine.vis").read_text(encoding="ascii"))["NPU"]["node"]
        return {name: nodes[name] for name in entries}
    with graph_database(folder / "mine.vis.db") as database:
        database.add(pair)
    with closing(sqlite3.connect(folder / "mine.vis.db")) as found:
        found.row_factory = sqlite3.Row
        nodes = {row["node_name"]: row for row in found.execute("SELECT * FROM tb_nodes WHERE data_source = 'NPU'")}
    return {
        name: {
            **{key: json.loads(nodes[name][key]) for key in ("input_data", "output_data")},
            "precision_index": nodes[name]["precision_index"],
        }
        for name in entries
    }


def test_what_is_null_on_one_side_has_no_type_that_could_differ(tmp_path: Path) -> None:
    mine = entry("Tensor.mul.0.forward", [tensor()], [tensor(), tensor()])
    theirs = {**mine, "output": [tensor(), None]}
    node = written(tmp_path, NEW, {"Tensor.mul.0.forward": mine}, {"Tensor.mul.0.forward": theirs})

    item = node["Tensor.mul.0.forward"]["output_data"]["Tensor.mul.0.forward.output.1"]
    assert (item["Result"], item["Err_message"]) == ("pass", "[]")
    assert node["Tensor.mul.0.forward"]["precision_index"] == 0


def test_an_item_that_the_golden_lacks_is_an_error_in_version_26(tmp_path: Path) -> None:
    theirs = entry("Tensor.mul.0.forward", [tensor(requires_grad=True)], [tensor()])
    mine = {**theirs, "input_args": [*theirs["input_args"], tensor(requires_grad=True), {"type": "int", "value": 3}]}
    node = written(tmp_path, NEW, {"Tensor.mul.0.forward": mine}, {"Tensor.mul.0.forward": theirs})

    items = [node["Tensor.mul.0.forward"]["input_data"][f"Tensor.mul.0.forward.input.{place}"] for place in (1, 2)]
    facts = ["The Required_Grad of NPU and Bench are inconsistent", "The dtype of NPU and Bench are inconsistent."]
    facts += ["The shape of NPU and Bench are inconsistent."]
    for item, broken in zip(items, (facts, facts[1:]), strict=True):
        assert (item["Max diff"], item["NormRelativeErr"], item["Requires_grad Consistent"]) == (" ", " ", "False")
        assert (item["Result"], json.loads(item["Err_message"])) == ("error", [f"error: {each}" for each in broken])
    assert node["Tensor.mul.0.forward"]["precision_index"] == 1


def test_a_checksum_of_null_is_another_one_in_version_26(tmp_path: Path) -> None:
    mine = entry("Tensor.mul.0.forward", [tensor(md5="1")], [tensor(md5="2"), tensor(md5="3")])
    theirs = {**mine, "output": [tensor(md5="2"), None]}
    node = written(tmp_path, NEW, {"Tensor.mul.0.forward": mine}, {"Tensor.mul.0.forward": theirs})

    item = node["Tensor.mul.0.forward"]["output_data"]["Tensor.mul.0.forward.output.1"]
    assert item["Err_message"] == '["error: The CRC-32 value of NPU differs from that of the bench."]'


def test_messages_of_one_item_are_a_list_as_python_writes_it(tmp_path: Path) -> None:
    mine = entry("Tensor.mul.0.forward", [tensor(dtype="torch.float16", shape=[3, 2])], [tensor()])
    theirs = entry("Tensor.mul.0.forward", [tensor()], [tensor()])
    node = written(tmp_path, NEW, {"Tensor.mul.0.forward": mine}, {"Tensor.mul.0.forward": theirs})

    item = node["Tensor.mul.0.forward"]["input_data"]["Tensor.mul.0.forward.input.0"]
    texts = (
        "error: The dtype of NPU and Bench are inconsistent.",
        "error: The shape of NPU and Bench are inconsistent.",
    )
    assert item["Err_message"] == f'["{texts[0]}", "{texts[1]}"]'


@pytest.mark.parametrize("layout", [OLD, NEW])
def test_parameters_of_a_module_called_output_come_after_its_outputs(tmp_path: Path, layout: GraphLayout) -> None:
    name = "Module.output.Linear.forward.0"
    call = {name: {**entry(name, [tensor()], [tensor()]), "parameters": {"weight": tensor()}}}
    node = written(tmp_path, layout, call, call)[name]

    assert list(node["input_data"]) == [f"{name}.input.0"]
    assert list(node["output_data"]) == [f"{name}.output.0", f"{name}.parameters.weight"]
    assert ("Max diff" in node["input_data"][f"{name}.input.0"]) == (layout is NEW), "1.2.1 looks among the outputs"


TEXTS = ("tool_tip", "node_colors")
"""They explain in another language."""


def plain(value: object) -> object:
    """Return what JSON says, however it is written."""
    if isinstance(value, str) and value[:1] in ("[", "{"):
        content = json.loads(value)
        return {key: plain_item(item) for key, item in content.items()} if isinstance(content, dict) else content
    return value


def plain_item(item: object) -> object:
    return {key: plain(text) for key, text in item.items()} if isinstance(item, dict) else item
