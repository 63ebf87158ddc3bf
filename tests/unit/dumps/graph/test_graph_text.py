"""Reading the text print of GE graphs."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peak_memory import peak_bytes
from torchair_builders import Op, graph_text, mul_add_relu, op_text

from probe_flow.dumps.graph import graph_text as ge_graph
from probe_flow.dumps.graph.graph_text import GraphText, parse_ge_graph, read_ge_graph
from probe_flow.files import text_format
from probe_flow.files.text_format import TextFields, unquote
from probe_flow.records import GraphTensor


def parse(text: str | bytes) -> GraphText:
    return parse_ge_graph(io.BytesIO(text.encode() if isinstance(text, str) else text), "graph.txt")


def names(text: str | bytes) -> list[str]:
    return [op.name for op in parse(text).ops]


def test_reads_operators_edges_and_output_facts():
    graph = parse(graph_text(mul_add_relu()))
    add = graph.ops[4]
    assert graph.name == "graph_1"
    assert graph.problem is None
    assert (add.name, add.op_type, add.position) == ("Add", "Add", 4)
    assert add.inputs == (("Mul", 0), ("z", 0))
    assert add.outputs == (GraphTensor("DT_FLOAT", "2,3", "add-aten.add.Tensor.OUTPUT.0"),)


def test_control_edges_are_dropped_and_unconnected_inputs_stay():
    op = parse(
        'op { name: "a" input: "b:2" input: "c:-1" input: "" input: "s/d:e:0" input: "^ctl" input: "bare" }'
    ).ops[0]
    assert op.inputs == (("b", 2), None, ("s/d:e", 0), ("bare", 0))


def test_values_with_colons_and_braces_lose_nothing():
    text = 'op { name: "a" attr { key: "k" value { s: "x: y {" } } }\nop { name: "b }" type: "T: {" }'
    assert names(text) == ["a", "b }"]
    assert parse(text).ops[1].op_type == "T: {"


def test_escapes_and_adjacent_strings_are_resolved():
    text = r"""op { name: "a\"b\\c\'d" 'e' "\303\244\n\x41" type: 'it"s' }"""
    op = parse(text).ops[0]
    assert op.name == "a\"b\\c'deä\nA"
    assert op.op_type == 'it"s'


def test_adjacent_strings_may_stand_on_lines_with_comments_between():
    assert names('op { name: "a"  # first\n "b" }') == ["ab"]


def test_nested_graphs_and_other_top_level_blocks_do_not_count():
    text = """
    name: "graph_1"
    attr { key: "_executor_type" value { s: "op { name: 1 }" } }
    op {
      name: "outer"
      attr { key: "body" value { g { op { name: "inner" type: "Add" input: "x:0" } } } }
      type: "While"
    }
    """
    assert names(text) == ["outer"]
    assert parse(text).ops[0].op_type == "While"


@pytest.mark.parametrize(
    "text",
    [
        'op < name: "a" type: "T" output_desc < dtype: DT_FLOAT shape < dim: 2 dim: 3 > > >',
        'op: { name: "a", type: "T"; output_desc: { dtype: DT_FLOAT, shape: { dim: [2, 3] } } }',
        'op [ { name: "a" type: "T" output_desc [ { dtype: DT_FLOAT shape { dim: [ 2 , 3 ] } } ] } ]',
        'goo.gle/debugonly  op  {  name:  "a"  type:"T"  output_desc{dtype:DT_FLOAT shape{dim:2 dim:3}}}',
        '# a { \nop { # name: "x"\n name: "a" type: "T" output_desc { dtype: DT_FLOAT shape { dim: 2 dim: 3 } } }',
        '\ufeffop {\r\n name: "a"\r\n type: "T"\r\n output_desc { dtype: DT_FLOAT shape { dim: 2 dim: 3 } }\r\n}\r\n',
    ],
)
def test_all_spellings_of_the_text_format_mean_the_same(text):
    graph = parse(text)
    assert graph.problem is None
    assert [(op.name, op.op_type, op.outputs) for op in graph.ops] == [("a", "T", (GraphTensor("DT_FLOAT", "2,3"),))]


def test_inputs_may_be_a_list():
    assert parse('op { name: "a" input: ["b:0", "c:1"] }').ops[0].inputs == (("b", 0), ("c", 1))


def test_an_attribute_named_shape_does_not_hide_the_real_shape():
    text = 'op { name: "a" output_desc { shape { dim: 4 } attr { key: "shape" value { s: "wrong" } } } }'
    assert parse(text).ops[0].outputs == (GraphTensor(shape="4"),)


def test_a_scalar_has_an_empty_shape_and_an_absent_one_none():
    graph = parse('op { name: "a" output_desc { dtype: DT_FLOAT shape { } } output_desc { dtype: DT_FLOAT } }')
    assert graph.ops[0].outputs == (GraphTensor("DT_FLOAT", ""), GraphTensor("DT_FLOAT"))


def test_a_text_that_is_cut_off_keeps_its_complete_operators_and_names_the_line():
    text = graph_text(mul_add_relu())
    cut = text[: text.index('name: "Relu"') + 8]
    graph = parse(cut)
    assert [op.name for op in graph.ops] == ["x", "y", "z", "Mul", "Add"]
    assert graph.problem is not None
    assert graph.problem.code == "PF3220"
    assert graph.problem.span is not None
    assert graph.problem.span.line == cut.count("\n") + 1


@pytest.mark.parametrize(
    ("text", "line"), [('op { name: "a" }\n\n} op { name: "b" }', 3), ('op { name: "a" }\nop name "b"\nop { }', 2)]
)
def test_malformed_text_keeps_what_came_before_and_names_the_line(text, line):
    graph = parse(text)
    assert [op.name for op in graph.ops] == ["a"]
    assert graph.problem is not None
    assert graph.problem.code == "PF3221"
    assert graph.problem.span is not None
    assert graph.problem.span.line == line


def test_deep_nesting_costs_no_stack():
    deep = "a { " * 100_000 + "} " * 100_000
    assert names(f'op {{ name: "a" attr {{ {deep} }} }} op {{ name: "b" }}') == ["a", "b"]


def test_an_empty_file_is_an_empty_graph(tmp_path):
    path = tmp_path / "empty.txt"
    path.write_bytes(b"")
    assert read_ge_graph(path, label="empty.txt") == GraphText("", ())


def test_a_missing_file_is_a_problem(tmp_path):
    graph = read_ge_graph(tmp_path / "none.txt", label="none.txt")
    assert graph.ops == ()
    assert graph.problem is not None
    assert graph.problem.code == "PF3204"


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 7, 64, 1000])
def test_the_size_of_the_blocks_that_are_read_changes_nothing(block_bytes):
    text = "# comment {\n" + graph_text(mul_add_relu()) + r"""op { name: "a\"" 'b' attr { x: "}" } }""" + "\n"
    whole = list(_fields(TextFields(io.BytesIO(text.encode()), "t")))
    assert list(_fields(TextFields(io.BytesIO(text.encode()), "t", block_bytes=block_bytes))) == whole
    assert len(whole) > 50


@pytest.mark.parametrize("skipped_bytes", [2, 3, 16])
@pytest.mark.parametrize("block_bytes", [1, 5, 1000])
def test_the_size_of_the_windows_that_are_tried_changes_nothing(monkeypatch, block_bytes, skipped_bytes):
    long = r'a\\"\n\000' * 30 + "# } { ' " * 20
    text = f"""# {long}
    op {{ name: "b" 'c'  # {"d" * 70}
      "e" {" " * 200} type: T{"," * 100} input: ["x", # "
      "y"] attr {{ k: "{long}" '{long.replace("'", "")}' # {long}
      }} output_desc < dtype:F > }} {"#" * 300}"""
    whole = list(_fields(TextFields(io.BytesIO(text.encode()), "t")))
    assert [(key, raw) for key, _, raw in whole if key in (b"type", b"input", b"dtype")] == [
        (b"type", b"T"), (b"input", b'"x"'), (b"input", b'"y"'), (b"dtype", b"F"),
    ]  # fmt: skip
    monkeypatch.setattr(text_format, "MAX_FIELD_BYTES", 128)
    monkeypatch.setattr(text_format, "_SKIPPED_BYTES", skipped_bytes)
    assert list(_fields(TextFields(io.BytesIO(text.encode()), "t", block_bytes=block_bytes))) == whole


LONG = text_format.MAX_FIELD_BYTES
TOO_LONG = {
    "string": f'op {{\n name: "{"n" * LONG}" }}',
    "escapes": "op {\n name: '" + r"\'" * LONG + "' }",
    "strings": "op {\n name: " + '"a" ' * LONG + "}",
    "word": f"op {{\n type: {'T' * LONG} }}",
    "word of other letters": f"op {{\n type: {'T+é' * LONG} }}",
    "key": f"op {{\n {'n' * LONG}: 1 }}",
    "space in it": f'op {{\n name:{" " * LONG}"a" }}',
    "string in a list": f'op {{\n input: ["{"n" * LONG}"] }}',
    "no end": f'op {{\n name: "{"n" * 3 * LONG}',
}


@pytest.mark.parametrize("text", TOO_LONG.values(), ids=TOO_LONG)
def test_a_field_that_is_too_long_ends_the_text_at_its_line(text):
    graph = parse('op { name: "a" }\n' + text)
    assert [op.name for op in graph.ops] == ["a"]
    assert graph.problem is not None
    assert (graph.problem.code, "is longer than 64 KiB" in graph.problem.message) == ("PF3221", True)
    assert graph.problem.span is not None
    assert graph.problem.span.line == 3


def test_a_field_may_be_nearly_as_long_as_the_limit():
    name = "n" * (LONG - len('name: ""') - 1)
    assert names(f'op {{ name: "{name}" }}') == [name]


def test_a_grammar_mistake_far_from_the_end_is_told_as_one():
    graph = parse('op { name: "a" }\nop name "b"\n' + 'op { name: "c" }\n' * LONG)
    assert [op.name for op in graph.ops] == ["a"]
    assert graph.problem is not None
    assert "is not protobuf text at `op name" in graph.problem.message


def test_parts_of_operators_are_counted(monkeypatch):
    monkeypatch.setattr(ge_graph, "MAX_PARTS", 6)
    for part in ('input: "b"', "output_desc { }", "output_desc { shape { dim: 1 } }"):
        graph = parse(f'op {{ name: "a" }} op {{ {part * 6} }}')
        assert [op.name for op in graph.ops] == ["a"]
        assert graph.problem is not None
        assert "more than 6 operators, inputs" in graph.problem.message


MIB = 1 << 20
BOMBS = {
    "string": b'op { name: "' + b"a" * 4 * MIB + b'" }',
    "string of a constant": b'op { name: "a" attr { value { t { data: "' + rb"\000" * MIB + b'" } } } }',
    "strings": b"op { name: " + b'"a" ' * MIB + b"}",
    "strings of a constant": b'op { name: "a" attr { value { ' + b"''" * 2 * MIB + b" } } }",
    "space": b'op { name: "a"' + b" \n" * 2 * MIB + b" }",
    "separators": b'op { name: "a"' + b",;" * 2 * MIB + b" }",
    "comments": b'op { name: "a"' + b"#\n" * 2 * MIB + b" }",
    "comment": b'op { name: "a" #' + b"c" * 64 * MIB + b"\n}",
    "space before the first field": b" " * 64 * MIB + b'op { name: "a" }',
    "lists in a constant": b'op { name: "a" attr { ' + b"a:[" * MIB + b" } }",
}
READ = """
graph = read_ge_graph(Path(sys.argv[1]), label="g")
assert [op.name for op in graph.ops] == ["a"] or "longer than 64 KiB" in graph.problem.message, graph.problem
"""


@pytest.mark.parametrize("content", BOMBS.values(), ids=BOMBS)
def test_a_text_takes_little_memory_however_long_a_part_of_it_is(tmp_path, content):
    path = tmp_path / "graph.txt"
    path.write_bytes(content)
    setup = "from pathlib import Path\nfrom probe_flow.dumps.graph.graph_text import read_ge_graph"
    assert peak_bytes(setup, READ, path) < 48 * MIB


def _fields(fields: TextFields):
    while (found := fields.next()) is not None:
        if found[0] == b"attr" and found[1] == "open":
            fields.skip()
        yield found


TEXTS = st.text(alphabet=st.characters(blacklist_categories=("Cs",)), max_size=12)


def escaped(text: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in text.encode())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS, st.lists(st.integers(0, 2**40), max_size=4)), max_size=5))
def test_any_names_types_and_shapes_survive(operators):
    text = graph_text(Op(escaped(name), escaped(kind), (), [(escaped(name), shape)]) for name, kind, shape in operators)
    graph = parse(text)
    assert graph.problem is None
    assert [(op.name, op.op_type, op.outputs[0].shape) for op in graph.ops] == [
        (name, kind, ",".join(map(str, shape))) for name, kind, shape in operators
    ]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_texts_never_raise_and_keep_a_prefix_of_the_operators(data):
    text = graph_text(mul_add_relu()).encode()
    at = data.draw(st.integers(0, len(text)))
    damage = data.draw(st.binary(max_size=8))
    graph = parse(text[:at] + damage + text[at + len(damage) :])
    assert len(graph.ops) <= 7
    whole = parse(text).ops
    before = text[:at].count(b"\n}\n")
    assert graph.ops[:before] == whole[:before]


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="op{}<>[]:,\"'# \n\\name1", max_size=80))
def test_noise_never_raises(text):
    assert isinstance(parse(text), GraphText)


def test_unquote_masks_large_octals_and_keeps_unknown_escapes():
    assert unquote(rb'"\777\q"') == "\\xffq"


def test_real_graph_texts_are_read_whole(torchair_case: Callable[[str], Path]):
    for case, count in (("ge_fx_old", 125), ("new_layout", 125), ("healthy", 125)):
        path = next((torchair_case(case) / "msprobe_ge_dump").glob("dynamo_original_graph_*.txt"))
        graph = read_ge_graph(path, label=path.name)
        assert graph.problem is None
        assert len(graph.ops) == count
        # An independent count: operators are the only blocks that begin at the start of a line.
        assert len(graph.ops) == path.read_text().count("\nop {")


def test_op_text_of_the_builder_is_one_block():
    assert op_text(Op("a", "T")).count("op {") == 1
