"""Fusion rules from offline models, on files from a writer that shares no code with the reader."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import model_file_writer as writer
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rule_builders import REAL, attr, desc, model, op, texts, write

from probe_flow.dumps.rules import om_model
from probe_flow.dumps.rules.rule_file import read_rule_file
from probe_flow.errors import FormatError

NET = model(
    op("x", "Data", outputs=(desc(dtype="DT_FLOAT"),), inputs=("",)),
    op(
        "conv1relu1_lxslice0",
        number=4,
        inputs=("x:0", "w:0", "", "y:-1"),
        originals=("conv1", "卷/relu1"),
        outputs=(
            desc("卷/relu1", 0, layout="NC1HWC0", shape=(1, 1, 4, 4, 16), origin_shape=(1, -1, 4, 4)),
            desc(shape=None, dtype="DT_INT32"),
            {"layout": "ND", "shape": {"dim": []}},
        ),
        is_multiop=True,
        l1="2",
        attrs=[
            attr("pass_name", list=texts("A", "B")),
            attr("_is_custom_op", b=False),
            attr("_fe_imply_type", i=-6),
            attr("value", t={}),
            {"key": "aipp_config_path", "value": {"t": {}}},
        ],
        subgraphs=("body",),
    ),
    op("cast", "Cast", number=2**40, originals=(), attrs=[attr("pass_name", s="One")]),
    attrs=(
        attr("atc_cmdline", s="atc --framework=5"),
        attr("framework_type", f=0.5),
        attr("atc_version", list={"val_type": "VT_LIST_BOOL", "b": [True, False]}),
        attr("opp_version", list={"val_type": "VT_LIST_INT", "i": [1, 2**40, -1]}),
        attr("soc_version", list={"val_type": "VT_LIST_FLOAT", "f": [0.25, 4.0]}),
    ),
    more=({"name": "body", "op": [op("b", outputs=(desc("b"),), attrs=[attr("parent_node_index", i=1)])]},),
)


def same(first, second):
    return (first.graphs, dict(first.attrs)) == (second.graphs, dict(second.attrs))


def problem(path: Path):
    with pytest.raises(FormatError) as caught:
        read_rule_file(path)
    return caught.value.diagnostic


def save(tmp_path: Path, raw: bytes) -> Path:
    path = tmp_path / "net.om"
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize("is_wide", [False, True])
@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("version", [0x10000000, writer.NEW_VERSION])
def test_a_model_says_what_its_json_says(tmp_path, is_wide, is_packed, version):
    told = read_rule_file(write(tmp_path / "net.json", NET))
    path = writer.write_om(tmp_path / "net.om", NET, is_wide=is_wide, is_packed=is_packed, version=version)
    found = read_rule_file(path)
    assert same(found, told)
    assert found.graphs[0].ops[1].originals == ("conv1", "卷/relu1")
    assert found.attrs["soc_version"] == (0.25, 4.0)


@pytest.mark.skipif(not REAL.is_dir(), reason="real ATC files may not be copied into the project")
@pytest.mark.parametrize("name", ["fused_132_ops.om.json", "onnx_nms_submodel.om.json"])
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_real_model_says_what_its_json_says(tmp_path, name, is_packed):
    tree = json.loads((REAL / name).read_text())
    told = read_rule_file(write(tmp_path / "net.json", tree))
    assert same(read_rule_file(writer.write_om(tmp_path / "net.om", tree, is_packed=is_packed)), told)


@pytest.mark.parametrize("is_wide", [False, True])
def test_a_single_partition_is_found_in_both_tables(tmp_path, is_wide):
    table = (writer.wide if is_wide else writer.narrow)([(0, writer.definition(NET))])
    raw = writer.header(model_length=len(table) if is_wide else 0)
    found = read_rule_file(save(tmp_path, bytes(raw) + table))
    assert len(found.graphs) == 2


def test_the_hint_of_the_header_may_be_wrong(tmp_path):
    table = writer.wide([(0, writer.definition(NET)), (1, b"weights")])
    found = read_rule_file(save(tmp_path, bytes(writer.header(model_length=0)) + table))
    assert len(found.graphs) == 2


def test_all_models_of_a_file_are_read(tmp_path):
    first, second = model(op("a"), name="one"), model(op("b"), name="two", attrs=(attr("soc_version", s="X"),))
    tables = [writer.narrow([(1, b"weights"), (0, writer.definition(tree))]) for tree in (first, second)]
    found = read_rule_file(save(tmp_path, bytes(writer.header(models=2)) + b"".join(tables)))
    assert [graph.name for graph in found.graphs] == ["one", "two"]
    assert found.attrs == {"soc_version": "X"}


def test_weights_are_not_read(tmp_path):
    """A sparse file of 64 GiB: only header, table and definition are touched."""
    content = writer.definition(NET)
    size = 64 << 30
    table = struct.pack("<II", 2, 0) + struct.pack("<IIQQ", 0, 0, 0, len(content))
    table += struct.pack("<IIQQ", 1, 0, len(content), size)
    path = save(tmp_path, bytes(writer.header(model_length=size)) + table + content)
    with path.open("r+b") as file:
        file.truncate(256 + len(table) + len(content) + size)
    assert len(read_rule_file(path).graphs) == 2


def test_a_model_without_a_definition_holds_no_rules(tmp_path):
    raw = bytes(writer.header(kind=3, model_length=1)) + writer.wide([(6, b"flow")])
    found = problem(save(tmp_path, raw))
    assert (found.code, found.message) == (
        "PF4304",
        "`net.om` holds no fusion rules: it has no model definition with operators",
    )


def test_an_encrypted_model_is_refused(tmp_path):
    raw = bytearray(writer.om_bytes(NET))
    raw[80] = 1
    found = problem(save(tmp_path, bytes(raw)))
    assert (found.code, found.message) == ("PF4307", "the offline model `net.om` is encrypted")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"IMOD" + bytes(20), "it has 24 bytes, its header alone has 256"),
        (bytes(writer.header()), "the table of its partitions does not fit into the file"),
        (bytes(writer.header()) + b"\xff" * 400, "the table of its partitions does not fit into the file"),
        (bytes(writer.header(models=5000)), "its header claims 5000 models"),
        (b"IMOD" + bytes(300), "its header claims to have 0 bytes"),
        (bytes(writer.header(models=2)) + writer.narrow([(0, b"\x0a\x01x")]), "the table of its partitions"),
    ],
)
def test_headers_and_tables_that_do_not_fit_are_refused(tmp_path, raw, message):
    found = problem(save(tmp_path, raw))
    assert found.code == "PF4306"
    assert found.message.startswith("the offline model `net.om` is damaged or cut off: ")
    assert message in found.message


def test_a_damaged_definition_is_told_with_its_byte(tmp_path):
    content = writer.block(7, writer.text(1, "g") + b"\x32\x7fabc")
    found = problem(save(tmp_path, bytes(writer.header()) + writer.narrow([(0, content)])))
    assert found.code == "PF4306"
    assert found.message == ("the offline model `net.om` is damaged or cut off: field 6 claims 127 bytes, 3 are left")
    # header, table of one narrow entry, key and length of the graph, its name, key of the operator
    assert found.fields["offset"] == 256 + 16 + 2 + 3 + 1


def test_operators_need_a_name_and_attributes_their_kind(tmp_path):
    nameless = model({"name": "", "type": "T"})
    assert "an operator has no name or no type" in problem(writer.write_om(tmp_path / "a.om", nameless)).message
    odd = model(op("a", attrs=[attr("_datadump_is_multiop", s="yes")]))
    found = problem(writer.write_om(tmp_path / "b.om", odd))
    assert "of operator `a`, `_datadump_is_multiop` is not true or false" in found.message
    odd = model(op("a", outputs=({"attr": [attr("origin_shape", s="1,2")]},)))
    assert "of an output, `origin_shape`" in problem(writer.write_om(tmp_path / "c.om", odd)).message


def test_lists_longer_than_any_rule_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(om_model, "_MAX_ITEMS", 3)
    few = attr("opp_version", list={"val_type": "VT_LIST_INT", "i": [1, 2, 3]})
    many = attr("opp_version", list={"val_type": "VT_LIST_INT", "i": [1, 2, 3, 4]})
    for is_packed in (False, True):
        path = writer.write_om(tmp_path / "few.om", model(op("a"), attrs=(few,)), is_packed=is_packed)
        assert read_rule_file(path).attrs["opp_version"] == (1, 2, 3)
        path = writer.write_om(tmp_path / "many.om", model(op("a"), attrs=(many,)), is_packed=is_packed)
        assert problem(path).message.endswith("a list has more than 3 items")


def test_shapes_of_more_axes_than_any_tensor_has_are_refused(tmp_path):
    deep = writer.write_om(tmp_path / "deep.om", model(op("a", outputs=(desc(shape=(1,) * 65),))))
    assert problem(deep).message.endswith("a list has more than 64 items")


def test_a_cut_off_model_is_refused_wherever_it_ends(tmp_path):
    raw = writer.om_bytes(NET)
    for size in (*range(4, 256, 41), *range(256, len(raw), 97)):
        assert problem(save(tmp_path, raw[:size])).code == "PF4306"


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_whatever_is_overwritten_the_model_is_read_or_refused(tmp_path_factory, data):
    raw = bytearray(writer.om_bytes(NET, is_wide=data.draw(st.booleans())))
    for _ in range(data.draw(st.integers(1, 6))):
        raw[data.draw(st.integers(4, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path = save(tmp_path_factory.mktemp("om"), bytes(raw))
    try:
        outcome = len(read_rule_file(path).graphs) > 0
    except FormatError as error:
        outcome = error.diagnostic.code
    assert outcome in {True, "PF4302", "PF4304", "PF4306", "PF4307"}
