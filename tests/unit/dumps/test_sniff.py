"""Telling what kind of dump lies at a path."""

from __future__ import annotations

from pathlib import Path

import pytest
from om_writer import GoldenFolder, OmFolder, om_tree
from packages_on_path import Site

from probe_flow.dumps import sniff
from probe_flow.dumps.dump_json.head import read_head
from probe_flow.dumps.registry import ARRAYS, DUMP_JSON, MINDSPORE_GRAPH, NPY, OM, READERS, TORCHAIR_FX, TORCHAIR_GE
from probe_flow.dumps.sniff import kind_of_dump
from probe_flow.errors import IncompleteError, UsageError
from probe_flow.stages.base import Select
from probe_flow.stages.dump.adopt_any import adopt_any

ROOT = Path(__file__).parents[3]
TORCHAIR = ROOT / "examples" / "torchair" / "healthy"
GE_RUN = "msprobe_ge_dump/worldsize1_global_rank0/20260101000000"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (TORCHAIR / "msprobe_ge_dump", TORCHAIR_GE),
        (TORCHAIR / GE_RUN, TORCHAIR_GE),
        (TORCHAIR / GE_RUN / "0" / "graph_1_0", TORCHAIR_GE),
        (TORCHAIR / "msprobe_fx_dump", TORCHAIR_FX),
        (ROOT / "tests/data/dump_json/pt_types", DUMP_JSON),
        (ROOT / "tests/data/dump_json/pt_debug/step1", DUMP_JSON),
        (ROOT / "tests/data/dump_json/twin_tensor/step0/proc1000/dump.json", DUMP_JSON),
    ],
)
def test_real_dumps_are_told_apart(path: Path, kind: str) -> None:
    assert kind_of_dump(str(path)) == kind


@pytest.mark.parametrize("name", ["statistic.csv", "Conv2D.Conv2D-op1.0.0.1623124369613540.output.0.DefaultFormat.npy"])
def test_kernel_dumps_of_mindspore_are_told_by_their_folders(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "rank_0" / "Net" / "1" / "0"
    folder.mkdir(parents=True)
    (folder / name).write_bytes(b"")

    assert kind_of_dump(str(tmp_path)) == MINDSPORE_GRAPH
    assert kind_of_dump(str(tmp_path / "rank_0" / "Net")) == MINDSPORE_GRAPH


def test_a_reduced_dump_is_of_the_kind_of_the_dump(tmp_path: Path) -> None:
    (tmp_path / "Conv2D.conv1.3.4.1700000000002000_min_max.npz").write_bytes(b"")
    assert kind_of_dump(str(tmp_path)) == OM


def test_several_kinds_are_named_with_an_example_of_each() -> None:
    with pytest.raises(UsageError) as caught:
        kind_of_dump(str(TORCHAIR))

    assert caught.value.diagnostic.code == "PF3431"
    for word in ("2 kinds", "torchair_ge (`msprobe_ge_dump/", "torchair_fx (`msprobe_fx_dump/"):
        assert word in caught.value.diagnostic.message


def test_nothing_known_lists_what_was_looked_for_and_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    for path, held in ((tmp_path, "it holds `notes.txt`"), (tmp_path / "notes.txt", "it is a file, not a folder")):
        with pytest.raises(UsageError) as caught:
            kind_of_dump(str(path))
        assert caught.value.diagnostic.code == "PF3430"
        assert caught.value.diagnostic.notes[0] == held
        looked_for = caught.value.diagnostic.notes[1:]
        assert [note.split("`")[1] for note in looked_for] == list(READERS.built_in)


@pytest.mark.parametrize(
    ("given", "cure"),
    [
        ("dump/dump_tensor_data", "give the folder above it, `dump`"),
        ("dump.tar.GZ", "unpack it, and give the folder of the dump, not a file"),
        ("notes.txt", "give the folder of the dump, not a file"),
        ("empty", "give the folder of one dump"),
    ],
)
def test_nothing_known_says_where_the_dump_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, cure: str
) -> None:
    for folder in ("dump/dump_tensor_data", "empty"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("dump/dump.json", "dump/dump_tensor_data/Torch.add.0.forward.output.0.pt", "dump.tar.GZ", "notes.txt"):
        (tmp_path / file).write_bytes(b"{}")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(UsageError) as caught:
        kind_of_dump(given)

    assert (caught.value.diagnostic.code, caught.value.diagnostic.help) == ("PF3430", cure)


def test_the_folder_above_is_named_from_inside_of_a_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dump_tensor_data").mkdir()
    (tmp_path / "dump.json").write_text("{}")
    monkeypatch.chdir(tmp_path / "dump_tensor_data")

    with pytest.raises(UsageError) as caught:
        kind_of_dump(".")

    assert caught.value.diagnostic.help == f"give the folder above it, `{tmp_path.resolve()}`"


def test_of_several_kinds_their_folders_are_named_where_each_has_its_own() -> None:
    with pytest.raises(UsageError) as caught:
        kind_of_dump(str(TORCHAIR))

    folders = [f"`{TORCHAIR / name}`" for name in ("msprobe_fx_dump", "msprobe_ge_dump")]
    assert (caught.value.diagnostic.help or "").startswith(f"give {' or '.join(folders)}; ")


def test_a_path_that_is_not_there_names_near_ones(tmp_path: Path) -> None:
    (tmp_path / "step0").mkdir()
    with pytest.raises(UsageError) as caught:
        kind_of_dump(str(tmp_path / "stpe0"))

    cure = f"did you mean `step0`? (in `{tmp_path}`)"
    assert (caught.value.diagnostic.code, caught.value.diagnostic.help) == ("PF3401", cure)


def test_files_of_tensors_are_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "d" / "step0" / "rank0" / "dump_tensor_data"
    folder.mkdir(parents=True)
    (folder / "add-aten.add.INPUT.0.20260101000000000185.npy").write_bytes(b"")
    (folder.parent / "dump.json").write_text("{}")
    monkeypatch.setattr(sniff, "MAX_NAMES", 1)

    assert kind_of_dump(str(tmp_path)) == DUMP_JSON


def test_a_name_that_no_file_can_have_does_not_exist(tmp_path: Path) -> None:
    for path in ("a" * 5000, str(tmp_path / ("b" * 300) / "c")):
        with pytest.raises(UsageError) as caught:
            kind_of_dump(path)
        assert caught.value.diagnostic.code == "PF3401"
        assert read_head(Path(path)) is None


def test_a_folder_that_cannot_be_listed_is_incomplete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(root: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(sniff, "_names", refuse)
    with pytest.raises(IncompleteError) as caught:
        kind_of_dump(str(tmp_path))

    assert caught.value.diagnostic.code == "PF3409"
    assert "right to read" in caught.value.diagnostic.help


def test_device_files_are_of_an_offline_model_unless_something_says_torchair(tmp_path: Path) -> None:
    flat = OmFolder(tmp_path / "flat")
    flat.op("Add", "a/b", at=1, outputs=[[1]])
    OmFolder(om_tree(tmp_path / "run", time="20260101000000", model="net")).op("Add", "a", at=1, outputs=[[1]])
    named = OmFolder(om_tree(tmp_path / "named", time="20260101000000", model="graph_1_0"))
    named.op("Add", "a", at=1, outputs=[[1]])
    beside = OmFolder(om_tree(tmp_path / "beside", time="20260101000000", model="net"))
    beside.op("Add", "a", at=1, outputs=[[1]])
    (tmp_path / "beside" / "dynamo_original_graph_1_rank_0_pid_7_ts_20260101000000000001.txt").write_text("")

    kinds = {name: kind_of_dump(str(tmp_path / name)) for name in ("flat", "run", "named", "beside")}
    assert kinds == {"flat": OM, "run": OM, "named": TORCHAIR_GE, "beside": TORCHAIR_GE}
    assert kind_of_dump(str(named.path)) == TORCHAIR_GE
    assert kind_of_dump(str(tmp_path / "run" / "20260101000000" / "0")) == OM


def test_arrays_of_a_framework_are_told_by_their_names(tmp_path: Path) -> None:
    GoldenFolder(tmp_path / "golden").output("conv/1", 0, [1.0])
    GoldenFolder(tmp_path / "odd").path.joinpath("x.input.0.1.npy").write_bytes(b"")

    assert kind_of_dump(str(tmp_path / "golden")) == NPY
    assert kind_of_dump(str(tmp_path / "odd")) == ARRAYS, "the number is no time, so no framework wrote it"


def test_both_sides_in_one_folder_are_two_kinds(tmp_path: Path) -> None:
    GoldenFolder(tmp_path / "golden").output("conv", 0, [1.0])
    OmFolder(tmp_path / "target").op("Conv2D", "conv", at=1, outputs=[[1]])
    with pytest.raises(UsageError, match=r"npy .*om ") as caught:
        kind_of_dump(str(tmp_path))
    assert caught.value.diagnostic.code == "PF3431"


READER = """
from probe_flow.dumps.registry import ReaderSpec
from probe_flow.records import Catalog
from probe_flow.records.frameworks import Framework


def read(path, *, side, select):
    return Catalog(side, Framework("NAME"), "tensor", path, {}, ())


READER = ReaderSpec("NAME", lambda folders, name: name.endswith(".NAME"), "`*.NAME`", read)
"""


def install_reader(site: Site, name: str, code: str = READER) -> None:
    site.install(f"reader_{name}", "probe_flow.readers", f"{name} = reader_{name}:READER", code.replace("NAME", name))


def test_readers_of_packages_are_asked_where_none_of_ours_knows_the_dump(site: Site, tmp_path: Path) -> None:
    install_reader(site, "acme")
    for name in ("ours/dump.json", "ours/x.acme", "theirs/deep/x.acme"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    assert kind_of_dump(str(tmp_path / "ours")) == DUMP_JSON
    assert site.imported == set()
    assert kind_of_dump(str(tmp_path / "theirs")) == "acme"
    assert kind_of_dump(str(tmp_path / "theirs/deep/x.acme")) == "acme"
    for path, kind in (("theirs", None), ("ours", "acme")):
        catalog = adopt_any(str(tmp_path / path), Select(), side="s", kind=kind)
        assert (catalog.framework.name, catalog.side) == ("acme", "s")


def test_what_two_packages_know_is_of_two_kinds(site: Site, tmp_path: Path) -> None:
    for name in ("acme", "zeta"):
        install_reader(site, name)
        (tmp_path / "d").mkdir(exist_ok=True)
        (tmp_path / "d" / f"x.{name}").write_text("")
    with pytest.raises(UsageError, match=r"acme \(`x.acme`\), zeta \(`x.zeta`\)") as caught:
        kind_of_dump(str(tmp_path / "d"))
    assert caught.value.diagnostic.code == "PF3431"


def test_a_broken_reader_is_a_note_where_nobody_knows_the_dump(site: Site, tmp_path: Path) -> None:
    install_reader(site, "gone", "import no_such_module_of_acme")
    install_reader(site, "raising", READER.replace('name.endswith(".NAME")', "1 / 0"))
    install_reader(site, "acme")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "notes.txt").write_text("")
    with pytest.raises(UsageError) as caught:
        kind_of_dump(str(tmp_path / "d"))
    problem = caught.value.diagnostic
    assert problem.code == "PF3430"
    assert "of `acme` it would hold `*.acme`" in problem.notes
    assert [note.partition(" cannot be used: ")[::2] for note in problem.notes[-2:]] == [
        ("the reader `gone`", "ModuleNotFoundError: No module named 'no_such_module_of_acme'"),
        ("the reader `raising`", "ZeroDivisionError: division by zero"),
    ]
    (tmp_path / "d" / "x.acme").write_text("")
    assert kind_of_dump(str(tmp_path / "d")) == "acme"


def test_a_reader_that_raises_is_named(site: Site, tmp_path: Path) -> None:
    install_reader(site, "acme", READER.replace("return ", "return 1 / 0 or "))
    with pytest.raises(UsageError, match="its `read` raised ZeroDivisionError: division by zero") as caught:
        adopt_any(str(tmp_path), Select(), side="s", kind="acme")
    assert caught.value.diagnostic.code == "PF3432"
    assert ", at reader_acme.py:" in caught.value.diagnostic.message


def test_a_reader_that_gives_no_catalog_is_named(site: Site, tmp_path: Path) -> None:
    install_reader(site, "acme", READER.replace("return ", "return path or "))
    with pytest.raises(UsageError, match="`acme` cannot be used: its `read` gives no `Catalog` but a `str`") as caught:
        adopt_any(str(tmp_path), Select(), side="s", kind="acme")
    assert caught.value.diagnostic.code == "PF3432"
