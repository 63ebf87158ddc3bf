"""Rules from the text of a graph are those of its JSON; texts that are cut, damaged or without attributes say so."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import suppress

import graph_text_writer as texts
import pytest
import rule_builders as rules
from hypothesis import given
from hypothesis import strategies as st
from rule_builders import REAL, attr, desc, model, op

from probe_flow.dumps.rules import rule_text
from probe_flow.dumps.rules.rule_file import read_rule_file, read_rule_files
from probe_flow.errors import FormatError


@pytest.fixture(autouse=True, params=["short", "long"], scope="module")
def _both_ways(request: pytest.FixtureRequest) -> Iterator[None]:
    """What nobody wants is parsed in the beginning of a text, and passed over by a pattern further on."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rule_text, "FEW_ITEMS", 0 if request.param == "long" else rule_text.FEW_ITEMS)
        yield


FUSED = op(
    "dense/Relu",
    "MatMul",
    number=12,
    inputs=["x:0", "w:0", "late:-1"],
    originals=["dense/MatMul", "dense/BiasAdd", "dense/Relu"],
    outputs=[
        desc("dense/Relu", 0, origin_shape=(4, 5)),
        desc(dtype="DT_BF16", layout="FRACTAL_NZ", shape=(1, 1, 16, 16)),
    ],
    is_multiop=True,
    l1="3",
    attrs=[
        attr("pass_name", list=rules.texts("MatmulReluPass", "Second")),
        attr("dense/Relu_kernelname", s="te_matmul"),
        attr("_is_custom_op", b=False),
        attr("ratio", f=0.5),
        attr("_tvm_text", s='a { b \\" } c'),
        attr("nothing"),
    ],
    subgraphs=["body"],
)
NET = model(op("x", "Data"), FUSED, name="ge_default_20260101000000_11", attrs=[attr("soc_version", s="Ascend910")])


def problem(path):
    with pytest.raises(FormatError) as caught:
        read_rule_file(path)
    return caught.value.diagnostic


def same(tmp_path, tree, **how):
    """Return the rules of the text, which are those of the JSON."""
    found = read_rule_file(texts.write(tmp_path / "ge_proto_00000012_Build.txt", tree, **how))
    wanted = read_rule_file(rules.write(tmp_path / "net.json", tree))
    assert (found.graphs, found.attrs) == (wanted.graphs, wanted.attrs)
    return found


@pytest.mark.parametrize("is_one_line", [False, True])
def test_text_and_json_of_one_graph_give_equal_rules(tmp_path, is_one_line):
    found = same(tmp_path, NET, is_one_line=is_one_line)
    fused = found.graphs[0].ops[1]

    assert (fused.passes, fused.id, fused.inputs) == (("MatmulReluPass", "Second"), 12, ("x:0", "w:0"))
    assert fused.outputs[1].layout == "FRACTAL_NZ"
    assert fused.attrs["_kernelname"] == "te_matmul"


@pytest.mark.parametrize("name", ["fused_132_ops", "onnx_nms_submodel"])
def test_text_and_json_of_real_graphs_give_equal_rules(tmp_path, name):
    path = REAL / f"{name}.om.json"
    if not path.is_file():
        pytest.skip(f"`{path.name}` is not at hand")
    found = same(tmp_path, texts.of_json(path))
    assert sum(len(graph.ops) for graph in found.graphs) > 10


def test_a_text_of_one_graph_without_a_model_around_it_is_read(tmp_path):
    path = texts.write(tmp_path / "graph.txt", NET["graph"][0])
    (graph,) = read_rule_file(path).graphs
    assert (graph.name, [each.name for each in graph.ops]) == ("ge_default_20260101000000_11", ["x", "dense/Relu"])


def test_names_before_and_behind_the_operators_count_the_same(tmp_path):
    tree = {"graph": [{"op": [FUSED], "name": "net"}]}
    assert read_rule_file(texts.write(tmp_path / "net.txt", tree)).graphs[0].ops[0].graph == "net"


@pytest.mark.parametrize(
    ("old", "new", "code", "word"),
    [
        ("id: 12", 'id: "12"', "PF3221", "not a whole number"),
        ("id: 12", "id: 1e99", "PF3221", "not a whole number"),
        ("id: 12", "id: 99999999999999999999", "PF3221", "64 bits"),
        ('type: "MatMul"', "type: MatMul", "PF3221", "not a quoted text"),
        ('type: "MatMul"', "", "PF3221", "without a type"),
        ('name: "dense/Relu"', 'name: "dense\\qRelu"', "PF3221", "escape"),
        ('name: "dense/Relu"', 'name: "dense\\xRelu"', "PF3221", "escape"),
        ("b: true", "b: maybe", "PF3221", "true or false"),
        ('s: "dense/BiasAdd"', "i: 3", "PF3221", "`_datadump_original_op_names` is not a list of texts"),
        ("dim: 4\n", 'dim: "4"\n', "PF3221", "not a whole number"),
        ("input:", "} }\ninput:", "PF3221", ""),
        ('key: "_is_custom_op"', "value { b: true }", "PF3221", "does not begin with its key"),
    ],
)
def test_a_wrong_value_is_told_with_its_line(tmp_path, old, new, code, word):
    text = texts.printed(NET)
    at = text.index(old, text.index('name: "dense/Relu"') if old != 'name: "dense/Relu"' else 0)
    path = tmp_path / "ge_proto_1_Build.txt"
    path.write_text(text[:at] + new + text[at + len(old) :])
    found = problem(path)

    assert (found.code, found.path) == (code, str(path))
    assert word in found.message
    assert found.span.line > 1
    assert "DUMP_GE_GRAPH=2" in found.help


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.999])
def test_a_text_that_is_cut_off_is_told(tmp_path, share):
    text = texts.printed(NET)
    path = tmp_path / "ge_proto_1_Build.txt"
    path.write_text(text[: int(len(text) * share)])
    assert problem(path).code in ("PF3220", "PF3221")


def test_ten_thousand_nested_braces_cost_no_stack(tmp_path):
    path = tmp_path / "ge_proto_1_Build.txt"
    deep = "x {" * 10_000 + "}" * 10_000
    path.write_text(texts.printed(NET).replace("id: 12", f"id: 12\n{deep}"))
    assert read_rule_file(path).graphs[0].ops[1].id == 12
    path.write_text(texts.printed(NET).replace("id: 12", "id: 12\n" + "x {" * 10_000))
    assert problem(path).code == "PF3220"


def test_text_without_attributes_is_refused_in_words(tmp_path):
    plain = model({"name": "a", "type": "Add", "input": ["x:0"], "id": 3})
    found = problem(texts.write(tmp_path / "ge_proto_00000003_Build.txt", plain))

    assert found.code == "PF4311"
    assert "text without attributes (DUMP_GE_GRAPH=3)" in found.message


def test_a_text_without_operators_holds_no_rules(tmp_path):
    assert problem(texts.write(tmp_path / "empty.txt", {"name": "a", "graph": [{"name": "b"}]})).code == "PF4304"


def test_of_a_folder_the_texts_of_the_last_phase_count_by_their_numbers(tmp_path):
    for number in (10, 9, 2):
        text = texts.write(
            tmp_path / f"ge_proto_{number:02d}_Build.txt", model(op("a", attrs=[attr("k")]), name=f"g{number}")
        )
        rules.write(tmp_path / f"{text.name}.json", model(op("a"), name=f"g{number}"))
    texts.write(tmp_path / "ge_proto_00000001_PreRunAfterBuild.txt", model(op("a")))
    texts.write(tmp_path / "ge_proto_00000001_graph_7_Build.txt", model(op("a", attrs=[attr("k")]), name="g1"))
    (tmp_path / "notes.txt").write_text("x")
    rules.write(tmp_path / "other.json", model(op("a"), name="other"))
    files, is_folder = read_rule_files(tmp_path)

    assert is_folder
    assert [file.graphs[0].name for file in files] == ["g1", "g2", "g9", "g10", "other"]


def test_a_folder_of_other_phases_is_no_folder_of_rules(tmp_path):
    texts.write(tmp_path / "ge_proto_00000001_PreRunAfterBuild.txt", NET)
    with pytest.raises(FormatError, match="holds no rule file") as caught:
        read_rule_files(tmp_path)
    assert "ge_proto_00000001_PreRunAfterBuild.txt" in caught.value.diagnostic.notes[0]
    assert "ge_proto_*_Build.txt" in str(caught.value.diagnostic.help)


def test_memory_is_a_fraction_of_the_text(tmp_path):
    text = texts.printed({"graph": [{"name": "net", "op": [FUSED] * 400}]})
    padded = text.replace('key: "ratio"', 'key: "ratio' + "o" * 2000 + '"')
    path = tmp_path / "ge_proto_1_Build.txt"
    path.write_text(padded)
    tracemalloc.start()
    try:
        read_rule_file(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The window of the reader is a few MiB, whatever the size of the text.
    assert peak < (6 << 20) + len(padded)


@given(st.data())
def test_no_text_breaks_the_reader(tmp_path_factory, data):
    text = texts.printed(NET)
    at = data.draw(st.integers(0, len(text)))
    noise = data.draw(st.text(alphabet='{}[]<>"\\#:;,a0\n ', max_size=40))
    cut = data.draw(st.integers(0, 60))
    path = tmp_path_factory.mktemp("text") / "ge_proto_1_Build.txt"
    path.write_text(text[:at] + noise + text[at + cut :])
    ops = []
    with suppress(FormatError):
        ops = [op for graph in read_rule_file(path).graphs for op in graph.ops]
    assert all(isinstance(text, str) for op in ops for text in (op.name, op.op_type))
