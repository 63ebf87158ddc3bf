"""IR texts of MindSpore: every form that two recorded networks have, and which operators and lines they bind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ir_networks import dumped_operators, unpack_networks

from probe_flow.dumps.mindspore_graph.ir import IrError, read_ir
from probe_flow.dumps.mindspore_graph.ir_code import Code, IrFile, IrIndex, frames_of
from probe_flow.dumps.mindspore_graph.ir_files import read_ir_files
from probe_flow.errors import UsageError


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_networks(tmp_path_factory.mktemp("ir"))


def index_of(networks: Path, *names: str) -> IrIndex:
    texts = networks / "texts"
    return IrIndex([IrFile(texts / name, read_ir(texts / name)) for name in names])


def text_of(tmp_path: Path, text: str, name: str = "net.ir") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_every_definition_of_the_recorded_texts_is_found(networks):
    for path in sorted((networks / "texts").glob("*.ir")):
        text, lines = read_ir(path), path.read_text().splitlines()
        assert len(text.nodes) == sum(bool(re.match(r" +%\d+\(", line)) for line in lines), path.name
        inside = sum(line.startswith("      # In file") for line in lines)
        of_returns = _lines_behind_returns(lines)
        assert sum(len(node.code) for node in text.nodes) == inside - of_returns, path.name
        assert text.cut_in is None
        assert len(text.graphs) == sum("subgraph @" in line and line.endswith("{") for line in lines)


def _lines_behind_returns(lines: list[str]) -> int:
    count, is_behind = 0, False
    for line in lines:
        if line.startswith("  Return("):
            is_behind = True
        elif line.startswith("}"):
            is_behind = False
        count += is_behind and line.startswith("      # In file")
    return count


def test_graphs_and_calls_of_control_flow_are_told_apart(networks):
    text = read_ir(networks / "texts" / "ctrl_backend_pass.ir")
    assert len(text.graphs) == 6
    header = [node for node in text.nodes if node.graph == "94_32_↵2↓__main___Ctrl_construct_320"]
    assert [node.operator for node in header[:5]] == [
        "PrimFunc_ReduceMax", "PrimFunc_Greater", "Partial", "Partial", "Switch",
    ]  # fmt: skip
    assert header[5].operator.startswith("%4[@FuncUnion(@95_33_↻2↓")
    assert (header[5].scope, header[5].arguments) == ("0", ())
    assert header[0].arguments == ("%para3_фa", "()", "Bool(0)")
    assert not text.is_one_graph


def test_constants_over_several_lines_are_one_argument(tmp_path):
    text = read_ir(
        text_of(
            tmp_path,
            "subgraph @a() {\n  %0(CNode_3$a) = PrimFunc_Add(%para1_фx, Tensor(shape=[2], value=\n"
            '[ 1, (2)]), "a\\", (b") '
            '{instance name: add} cnode_primal_attrs: {forward_node_name: "x", forward_unique_id: "7"}\n'
            "      : (<T>) -> (<T>)\n      # Fullname with scope: (Gradients/Default/Add-op0)\n"
            "      # In file /m/n.py:3~4, 1~2/    a(b) = c {/<~~This line is shared./\n  Return(%0)\n"
            "      # In file /m/other.py:1/x/\n}\n",
        )
    )
    (node,) = text.nodes
    assert node.arguments == ("%para1_фx", "Tensor(shape=[2], value=\n[ 1, (2)])", '"a\\", (b"')
    assert (node.variable, node.unique_id, node.forward_id) == ("CNode_3$a", "", "7")
    assert node.code == ("In file /m/n.py:3~4, 1~2/    a(b) = c {/<~~This line is shared.",)


def test_every_dumped_operator_meets_the_scope_of_its_own_name(networks):
    index = index_of(networks, *(f"ctrl_graph_build_{number}.ir" for number in range(6)))
    bound = 0
    for graph, kind, name in dumped_operators(networks, "ctrl"):
        found = index.find(kind, name, graph)
        assert found is not None, name
        if kind == "Parameter":
            assert f"_{name}:" in found.parameter
            continue
        bound += 1
        assert [scope.replace("/", "_") for scope in found.scopes] == [name]
        assert [path.name for path in found.files] == [f"ctrl_graph_build_{graph}.ir"]
        assert all("/opt/model/ctrl.py" in "".join(code.lines) for code in found.codes)
    assert bound == 31


@pytest.mark.parametrize(
    ("text", "dump", "bound", "with_own_code"),
    [
        ("tinynet_graph_build_0.ir", "tinynet", 39, 37),
        ("tinynet_backend_pass.ir", "tinynet", 35, 33),
        ("ctrl_backend_pass.ir", "ctrl", 19, 19),
    ],
)
def test_as_many_operators_are_bound_as_exact_names_allow(networks, text, dump, bound, with_own_code):
    index = index_of(networks, text)
    names = {(kind, name) for _, kind, name in dumped_operators(networks, dump) if kind != "Parameter"}
    found = [each for kind, name in names if (each := index.find(kind, name)) is not None]
    assert len(found) == bound
    assert sum(any(code.inferred_from is None for code in each.codes) for each in found) == with_own_code


def test_no_name_is_searched_for_within_another(tmp_path):
    scopes = ("Default/Add-op1", "Default/Add-op10", "0", "Default/x/Add-op1")
    lines = "".join(
        f"  %{number}(v) = Add(%para1_x)\n      # Fullname with scope: ({scope})\n      # In file /m.py:1/{scope}/\n"
        for number, scope in enumerate(scopes)
    )
    index = IrIndex([IrFile(tmp_path, read_ir(text_of(tmp_path, f"subgraph @a() {{\n{lines}}}\n")))])
    for name, scope in (
        ("Default_Add-op1", scopes[0]),
        ("Default_Add-op10", scopes[1]),
        ("Default_x_Add-op1", scopes[3]),
    ):
        found = index.find("Add", name)
        assert found is not None
        assert found.scopes == (scope,)
    assert index.find("Add", "0") is None
    assert index.find("Add", "Default_Add-op100") is None
    assert index.find("Add", "Add-op1") is None


def test_a_gradient_without_lines_takes_those_of_its_forward_operator(tmp_path):
    text = (
        'subgraph @a() {\n  %0(v) = Mul(%para1_x) cnode_primal_attrs: {unique_id: "5"}\n'
        "      # Fullname with scope: (Default/Mul-op0)\n      # In file /m.py:1, 1~2/x * y/\n"
        '  %1(g) = MulGrad(%para1_x) cnode_primal_attrs: {forward_node_name: "Mul_5", forward_unique_id: "5"}\n'
        "      # Fullname with scope: (Gradients/Default/MulGrad-op0)\n"
        "  %2(a) = AddN(%1)\n      # Fullname with scope: (Gradients/Default/AddN-op0)\n"
        "  %3(z) = Zeros(%para1_x)\n      # Fullname with scope: (Default/Zeros-op0)\n}\n"
    )
    index = IrIndex([IrFile(tmp_path, read_ir(text_of(tmp_path, text)))])
    line = "In file /m.py:1, 1~2/x * y"

    def codes(name: str) -> tuple[Code, ...]:
        found = index.find("", name)
        assert found is not None
        return found.codes

    assert codes("Default_Mul-op0") == (Code((line,)),)
    assert codes("Gradients_Default_MulGrad-op0") == (Code((line,), "Default/Mul-op0"),)
    assert codes("Gradients_Default_AddN-op0") == ()
    assert codes("Default_Zeros-op0") == ()


def test_an_operator_takes_the_lines_of_what_it_reads_where_nothing_else_tells(tmp_path):
    text = (
        "subgraph @a() {\n  %0(v) = Mul(%para1_x)\n      # Fullname with scope: (Default/Mul-op0)\n"
        "      # In file /m.py:1, 1~2/x * y/\n  %1(t) = MakeTuple(%0)\n  %2(a) = AddN(%1)\n"
        "      # Fullname with scope: (Default/AddN-op0)\n}\nsubgraph @b() {\n  %0(v) = Neg(%1)\n"
        "      # Fullname with scope: (Default/Neg-op0)\n}\n"
    )
    index = IrIndex([IrFile(tmp_path, read_ir(text_of(tmp_path, text)))])
    found = index.find("AddN", "Default_AddN-op0")
    assert found is not None
    assert [code.inferred_from for code in found.codes] == ["Default/Mul-op0"]
    other = index.find("Neg", "Default_Neg-op0")
    assert other is not None
    assert other.codes == (), "%1 of another graph is another operator"


def test_the_graph_of_the_dump_is_preferred(tmp_path):
    def file(name: str, line: int) -> IrFile:
        text = (
            f"  %0(v) = Mul()\n      # Fullname with scope: (Default/Mul-op0)\n      # In file /m.py:{line}, 1~2/x/\n"
        )
        return IrFile(tmp_path / name, read_ir(text_of(tmp_path, text, name)))

    index = IrIndex([file("graph_build_0_57.ir", 1), file("ms_output_trace_code_graph_1.ir", 2), file("13_opt.ir", 3)])

    def lines(graph: int | None) -> list[str]:
        found = index.find("Mul", "Default_Mul-op0", graph)
        assert found is not None
        return [re.findall(r":(\d)", line)[0] for code in found.codes for line in code.lines]

    assert lines(0) == ["1"]
    assert lines(1) == ["2"]
    assert lines(2) == lines(None) == ["1", "2", "3"]


def test_lines_become_frames_innermost_first():
    code = Code(
        ("In file /m/n.py:3~4, 1~2/    def construct(self):", "In file /m/n.py:4, 5~9/        x = y"), "Default/Mul-op0"
    )
    assert frames_of(code) == (
        "File /m/n.py, line 4, \n x = y",
        "File /m/n.py, line 3, \n def construct(self):",
        "(inferred: the code of Default/Mul-op0)",
    )


@pytest.mark.parametrize(
    ("content", "what"), [("", "no operator"), ("{}", "no operator"), ("a(b\n" * 9, "no operator")]
)
def test_what_is_no_ir_is_refused(tmp_path, content, what):
    with pytest.raises(IrError, match=what):
        read_ir(text_of(tmp_path, content))


def test_a_text_that_was_cut_off_says_so(networks, tmp_path):
    whole = (networks / "texts" / "tinynet_graph_build_0.ir").read_text()
    text = read_ir(text_of(tmp_path, whole[: len(whole) // 2]))
    assert text.cut_in == "kernel_graph0"
    assert 0 < len(text.nodes) < 64


def test_texts_of_a_folder_that_are_none_are_left_out(networks, tmp_path):
    (tmp_path / "deep").mkdir()
    text_of(tmp_path, "", "empty.ir")
    text_of(tmp_path / "deep", (networks / "texts" / "ctrl_graph_build_1.ir").read_text(), "graph_build_1.ir")
    files, problems = read_ir_files([tmp_path, tmp_path])
    assert [file.graph for file in files] == [1]
    assert {problem.code for problem in problems} == {"PF3461"}


@pytest.mark.parametrize("name", ["none.ir", "empty.ir", "folder"])
def test_a_path_without_ir_is_a_mistake(tmp_path, name):
    text_of(tmp_path, "", "empty.ir")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError) as caught:
        read_ir_files([tmp_path / name])
    assert [problem.code for problem in caught.value.diagnostics] == ["PF3460"]
