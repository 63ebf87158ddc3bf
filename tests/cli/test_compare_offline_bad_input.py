"""`compare` for dumps of offline models with files that are wrong: what is told, and which exit code says it."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_file_writer import write_om
from offline_odd import write_odd
from om_writer import GoldenFolder, OmFolder, tensor
from rule_builders import Tree, desc, model, op, write
from run_records import first_divergence

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
NAMES = ("a", "b", "c")


def out(name: str, **given: Any) -> Tree:
    return desc(name, 0, origin_layout="ND", **given)


def ops(names: tuple[str, ...] = NAMES) -> list[Tree]:
    """Return the rules of a chain of operators behind one input."""
    behind = ("x", *names)
    return [
        op("x", "Data", number=0, originals=["x"], outputs=[out("x")]),
        *(
            op(name, "Relu", number=n, originals=[name], outputs=[out(name)], inputs=[f"{behind[n - 1]}:0"])
            for n, name in enumerate(names, start=1)
        ),
    ]


@dataclass
class Chain:
    """Both dumps of a chain of operators that agree, and their rules; a test spoils what it is about."""

    path: Path
    names: tuple[str, ...] = NAMES

    def __post_init__(self) -> None:
        self.target, self.golden = OmFolder(self.path / "target"), GoldenFolder(self.path / "golden")
        self.files = {}
        for at, name in enumerate(self.names, start=1):
            self.files["target", name] = self.target.op("Relu", name, at=at, inputs=[X], outputs=[X])
            self.files["golden", name] = self.golden.output(name, 0, X)
        self.rules(*ops(self.names))

    @property
    def rule(self) -> Path:
        return self.path / "rules.json"

    def rules(self, *items: Tree, **more: Any) -> None:
        write(self.rule, model(*items, **more))

    def device(self, name: str, **content: Any) -> None:
        """Replace an operator of the target."""
        path = self.files["target", name]
        path.unlink()
        self.target.op("Relu", name, at=int(path.name.rpartition(".")[2][-3:]), **content)

    def array(self, name: str, values: object) -> None:
        """Replace an array of the golden."""
        self.files["golden", name].unlink()
        self.golden.output(name, 0, values)


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    return Chain(tmp_path)


@pytest.fixture
def compared(probe_flow, chain):
    def run(*arguments: object):
        rules = ("-fr", chain.rule) if "-fr" not in arguments else ()
        sides = ("-m", "offline_data", "-tp", chain.target.path, "-gp", chain.golden.path)
        return probe_flow("compare", *sides, *rules, *arguments, "-o", chain.path / "out")

    return run


def rows(chain: Chain) -> dict[str, dict[str, Any]]:
    """Return the rows by the names of their target tensors, those of the golden alone by its own."""
    text = (chain.path / "out" / "probe_flow" / "comparison.jsonl").read_text(encoding="utf-8")
    found = [json.loads(line) for line in text.splitlines()]
    alone = {row["golden"]["name"]: row for row in found if row["target"] is None}
    return {**alone, **{row["target"]["name"]: row for row in found if row["target"] is not None}}


def first(chain: Chain) -> str | None:
    record = first_divergence(json.loads((chain.path / "out" / "probe_flow" / "run.json").read_text()))
    return record and record["node"]


def test_the_unspoiled_chain_passes(compared, chain):
    done = compared()
    assert done.code == 0, done.out
    assert sum(row["verdict"] == "pass" for row in rows(chain).values()) == 5


@pytest.mark.parametrize("mode", ["offline_data", "auto"])
def test_legacy_containers_are_a_golden_side(compared, chain, mode):
    for name in NAMES:
        chain.files["golden", name].unlink()
        chain.golden.container(name, 0, tensor(X), ".pb")
    assert compared("-m", mode).code == 0
    assert rows(chain)["c.output.0"]["golden"]["file"].endswith(".pb")


def test_names_that_a_mapping_tells(compared, chain):
    for number, ((side, _), path) in enumerate(chain.files.items()):
        (chain.target if side == "target" else chain.golden).hashed(path, f"12345678901234567{number}")
    assert compared().code == 0
    assert {row["node"] for row in rows(chain).values()} == set(NAMES)


def test_hashed_names_without_a_mapping_are_told(compared, chain):
    chain.target.hashed(chain.files["target", "b"], "123456789012345678")
    (chain.target.path / "mapping.csv").unlink()
    done = compared()
    assert "PF3208" in done.err
    assert "`123456789012345678` is skipped" in done.err
    (table,) = (chain.path / "out").glob("result_*.csv")
    assert '[b] There is no dump file for my output operator ""b"". The type is Relu.' in table.read_text()


# --- rules ------------------------------------------------------------------------------------------------------------


def test_rules_of_another_model(compared, chain):
    chain.rules(*ops(tuple("pqrstuvw")))
    done = compared()
    assert done.code == 3
    assert "PF4403" in done.err
    assert "the rules name 0 of the 3 operators that the device dumped: they are of another model" in done.err
    assert "the device dumped `a`, `b`, `c`" in done.err
    assert "nothing was compared" in done.out
    assert rows(chain)["b.output.0"]["reason"].startswith("no rule file names the device operator `b`")


def test_a_golden_of_another_model(compared, chain):
    for name in NAMES:
        chain.files["golden", name].unlink()
        chain.golden.output(f"other_{name}", 0, X)
    done = compared()
    assert done.code == 3
    assert "PF4410" in done.err
    text = "the golden dump has no output 0 of `b`, the original of output 0 of `b`: dump it"
    assert rows(chain)["b.output.0"]["reason"] == text


@pytest.mark.parametrize(
    ("content", "code", "place"),
    [
        ("", "PF4303", "it is empty"),
        ("hello", "PF4303", ":1:1"),
        ('{"graph": [', "PF4303", "ends in the middle"),
        ("[" * 100_000, "PF4303", "nested too deeply"),
        ("[1, 2]", "PF4304", "no list `graph`"),
        ('{"name": "n"}', "PF4304", "no list `graph`"),
        ('{"name": "n", "graph": {"op": []}}', "PF4304", "no list `graph`"),
        ('{"name": "n", "graph": []}', "PF4304", "no operators"),
        ('{"name": "n", "graph": [{"name": "g"}]}', "PF4304", "no operators"),
        ('{"name": "n", "graph": [{"name": "g", "op": [{"type": "Relu"}]}]}', "PF4305", "/graph/0/op/0/name"),
        ('{"name": "n", "graph": [{"name": "g", "op": [{"name": 5, "type": "T"}]}]}', "PF4305", "the number 5"),
        (
            '{"name": "n", "graph": [{"name": "g", "op": [{"name": "a", "type": "T", "input": "b:0"}]}]}',
            "PF4305",
            "/graph/0/op/0/input",
        ),
    ],
)
def test_rule_files_that_hold_no_rules(compared, chain, content, code, place):
    chain.rule.write_text(content)
    done = compared()
    assert done.code == 2
    assert code in done.err
    assert place in done.err
    assert "Nothing was judged" in done.out


def test_every_rule_file_is_read_as_carefully(compared, chain):
    (chain.path / "quant.json").write_text("{}")
    done = compared("-qfr", chain.path / "quant.json")
    assert done.code == 2
    assert "`quant.json` holds no fusion rules" in done.err


def test_a_folder_without_rules(compared, chain):
    (chain.path / "empty").mkdir()
    done = compared("-fr", chain.path / "empty")
    assert done.code == 2
    assert "PF4409" in done.err


@pytest.mark.parametrize("offset", [58, 300, -5], ids=["header", "table", "end"])
def test_an_offline_model_that_is_cut_off(compared, chain, offset):
    whole = write_om(chain.path / "net.om", model(*ops()))
    whole.write_bytes(whole.read_bytes()[:offset])
    done = compared("-fr", whole)
    assert done.code == 2
    assert "PF4306" in done.err


def test_an_offline_model_that_is_encrypted(compared, chain):
    whole = write_om(chain.path / "net.om", model(*ops()))
    content = bytearray(whole.read_bytes())
    content[80] = 1
    whole.write_bytes(content)
    done = compared("-fr", whole)
    assert done.code == 2
    assert "the offline model `net.om` is encrypted" in done.err


def test_a_whole_offline_model_gives_the_same_as_its_json(compared, chain):
    assert compared("-fr", write_om(chain.path / "net.om", model(*ops()))).code == 0
    assert rows(chain)["c.output.0"]["rule"] == "one_to_one"


@pytest.mark.parametrize("is_other_graph", [False, True])
def test_operators_of_one_name(compared, chain, is_other_graph):
    again = op("b", "Relu", number=9, originals=["c"], outputs=[out("c")])
    chain.rules(*ops(), *([] if is_other_graph else [again]), more=[{"name": "g", "op": [again]}] * is_other_graph)
    done = compared()
    assert done.code == 0
    assert "PF4309" in done.err
    assert rows(chain)["b.output.0"]["golden"]["name"] == "b.output.0"


def test_outputs_that_the_rules_do_not_have(compared, chain):
    given = ops()
    given[2] = op("b", "Relu", number=2, originals=["b"], inputs=["a:7"], outputs=[desc("b", 9)])
    chain.rules(*given)
    compared()
    found = rows(chain)
    assert found["b.input.0"]["reason"].startswith("the rules do not describe output 7 of `a`")
    assert found["b.output.0"]["reason"].startswith("the golden dump has no output 9 of `b`")
    assert found["b.output.0"]["verdict"] == "unmatched_target"


@pytest.mark.parametrize(
    ("text", "reason"),
    [("nobody:0", "its producer `nobody` is not in the rules"), ("a", "the rules say of this input `a` in place of")],
)
def test_inputs_that_lead_nowhere(compared, chain, text, reason):
    given = ops()
    given[2]["input"] = [text]
    chain.rules(*given)
    assert compared().code == 0  # all outputs were compared
    assert rows(chain)["b.input.0"]["reason"].startswith(reason)


# --- names ------------------------------------------------------------------------------------------------------------

ODD_NAMES = ("a b", "a,b;c", "=1+1", "@cmd", "-2", "ü/ö", 'a"b', "a'b", "a\nb", "../../x", "<script>", "n" * 180)


def test_names_of_odd_characters(probe_flow, tmp_path):
    chain = Chain(tmp_path / "odd", ODD_NAMES)
    sides = ("-tp", chain.target.path, "-gp", chain.golden.path, "-fr", chain.rule)
    done = probe_flow("compare", "-m", "offline_data", *sides, "-o", tmp_path / "odd" / "out")
    assert done.code == 0, done.err
    found = {row["node"] for row in rows(chain).values() if row["target"] and row["golden"]}
    assert found == set(ODD_NAMES)
    (path,) = (tmp_path / "odd" / "out").glob("result_*.csv")
    with path.open(encoding="utf-8", newline="") as file:
        table = list(csv.reader(file))
    assert len({len(row) for row in table}) == 1
    assert not [cell for row in table for cell in row if cell[:2] in ("=1", "@c")]


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["array in the target", "device file in the golden", "quantised in the golden"])
def test_kinds_of_files_that_do_not_belong_in_one_folder(compared, chain, kind):
    if kind == "array in the target":
        np.save(chain.target.path / "z.0.1700000000000001.npy", X)
    elif kind == "device file in the golden":
        OmFolder(chain.golden.path).op("Relu", "a", at=1, outputs=[X])
    else:
        chain.golden.container("q", 0, tensor(X), ".quant")
    done = compared()
    assert done.code == 2
    assert "PF3300" in done.err
    assert "` holds files of 2 kinds" in done.err
    assert "put the files of each kind into a folder of their own" in done.err


def test_empty_folders(compared, chain):
    for path in chain.golden.path.iterdir():
        path.unlink()
    done = compared()
    assert done.code == 3
    assert "PF3202" in done.err


@pytest.mark.parametrize(
    ("side", "content", "code"),
    [
        ("target", lambda whole: whole[:30], "PF3011"),
        ("target", lambda whole: (2**60).to_bytes(8, "little") + whole[8:], "PF3011"),
        ("target", lambda _: b"", "PF3010"),
        ("target", lambda _: bytes(64), "PF301"),
        ("golden", lambda _: b"", "PF3020"),
        ("golden", lambda whole: whole[:-9], "PF3022"),
        ("golden", lambda whole: whole.replace(b"(3, 4)", b"(9999999999, 4)").replace(b" " * 10, b"", 1), "PF302"),
    ],
    ids=["cut", "huge header", "no byte", "zeros", "empty array", "cut array", "huge array"],
)
def test_a_damaged_file_costs_its_own_rows(compared, chain, side, content, code):
    path = chain.files[side, "b"]
    path.write_bytes(content(path.read_bytes()))
    done = compared()
    assert done.code == 3
    assert code in done.err
    assert path.name in done.err
    found = rows(chain)
    assert found["a.output.0"]["verdict"] == found["c.output.0"]["verdict"] == "pass"
    assert found["b.output.0"]["verdict"] == "error"


def test_pickled_objects_are_never_loaded(compared, chain):
    np.save(chain.files["golden", "b"], np.array([{"a": 1}], dtype=object), allow_pickle=True)
    compared()
    assert rows(chain)["b.output.0"]["verdict"] == "not_comparable"
    assert "never unpickled" in rows(chain)["b.output.0"]["reason"]


# --- tensors ----------------------------------------------------------------------------------------------------------


def test_other_sizes_are_not_comparable(compared, chain):
    chain.array("b", np.ones(7, np.float32))
    compared()
    row = rows(chain)["b.output.0"]
    assert row["verdict"] == "not_comparable"
    assert "the target has shape (3, 4), the golden (7,)" in row["reason"]


def test_another_shape_of_the_same_size_is_noted(compared, chain):
    chain.array("b", X.reshape(4, 3))
    assert compared().code == 0
    assert rows(chain)["b.output.0"]["reason"] == "shape differs: [3, 4] against [4, 3]"


def test_a_layout_without_conversion(compared, chain):
    chain.device("b", outputs=[tensor(X.reshape(1, 3, 4, 1), format=5)])
    compared()
    row = rows(chain)["b.output.0"]
    assert row["verdict"] == "not_comparable"
    assert "no conversion is known of the storage layout `NC1C0HWPAD`" in row["reason"]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers_begin_at_the_faulty_operator(compared, chain, value):
    bad = X.copy()
    bad[1, 1] = value
    chain.device("b", inputs=[X], outputs=[bad])
    chain.device("c", inputs=[bad], outputs=[bad])
    done = compared()
    assert done.code == 1
    assert first(chain) == "b"
    assert "NaN or infinity begins at the same tensor" in done.out


def test_empty_tensors_and_scalars(compared, chain):
    empty, scalar = np.zeros((0, 4), np.float32), np.array(2.5, np.float32)
    chain.device("b", outputs=[empty])
    chain.array("b", empty)
    chain.device("c", outputs=[scalar])
    chain.array("c", scalar)
    assert compared().code == 0
    found = rows(chain)
    assert (found["b.output.0"]["metrics"]["cosine"], found["c.output.0"]["metrics"]["max_abs_err"]) == (None, 0.0)


def test_the_odd_dump_ends_with_every_row_explained(probe_flow, tmp_path):
    write_odd(tmp_path / "odd")
    sides = ("-tp", tmp_path / "odd" / "target", "-gp", tmp_path / "odd" / "golden")
    done = probe_flow("compare", *sides, "-fr", tmp_path / "odd" / "fusion_rule.json", "-overflow_detection", "-o", "o")
    assert done.code == 3
    assert "outputs were compared" in done.last_line
    lines = (tmp_path / "o" / "probe_flow" / "comparison.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    assert [row for row in found if row["verdict"] != "pass" and not row["reason"]] == []
    by_name = {row["target"]["name"]: row for row in found if row["target"]}
    assert by_name["shape4.output.0"]["verdict"] == "not_comparable"
    assert "(1, 8, 4, 4), the golden (1, 9, 4, 4)" in by_name["shape4.output.0"]["reason"]
