"""Mapping files: entries with their places; every mistake of a file at once, with its line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from probe_flow.errors import UsageError
from probe_flow.errors.render import render
from probe_flow.mappings.api_mapping_file import read_api_mapping
from probe_flow.mappings.mapping_file import Entry, read_flat_mapping, read_layer_mapping

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    monkeypatch.chdir(tmp_path)

    def write_text(text: str) -> Path:
        file = tmp_path / "map.yaml"
        file.write_text(text, encoding="utf-8")
        return file

    return write_text


def cells(path: Path) -> tuple[Entry, ...]:
    return read_flat_mapping(path, what="cell mapping")


def mistakes(read: Callable[[Path], object], path: Path) -> list[tuple[str, str]]:
    with pytest.raises(UsageError) as caught:
        read(path)
    return [(problem.code, str(problem.span or problem.path)) for problem in caught.value.diagnostics]


def test_a_cell_mapping_gives_names_and_lines(write: Write) -> None:
    entries = cells(write("fc2.Dense: fc2.Linear\n# comment\nno: 'on'\n0: 1\n"))

    assert [(entry.target, entry.golden, str(entry.span)) for entry in entries] == [
        ("fc2.Dense", "fc2.Linear", "map.yaml:1:1"),
        ("no", "on", "map.yaml:3:1"),
        ("0", "1", "map.yaml:4:1"),
    ]


def test_a_data_mapping_knows_items_without_partner(write: Write) -> None:
    entries = read_flat_mapping(write("a.0.forward.input.0: N/A\nb: c\n"), what="data mapping")

    assert [entry.golden for entry in entries] == [None, "c"]


def test_n_a_is_a_name_in_a_cell_mapping(write: Write) -> None:
    assert cells(write("a: N/A\n"))[0].golden == "N/A"


def test_a_layer_mapping_cuts_values_at_a_bracket(write: Write) -> None:
    classes = read_layer_mapping(write("TopLayer:\n  net: module(GPT)\nGPT:\n  a.b: c\n"))

    assert [(each.owner, each.span.line) for each in classes] == [("TopLayer", 1), ("GPT", 3)]
    assert [(entry.target, entry.golden) for each in classes for entry in each.entries] == [
        ("net", "module"),
        ("a.b", "c"),
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", [("PF4211", "map.yaml")]),
        ("{}\n", [("PF4211", "map.yaml")]),
        ("- a: b\n", [("PF4211", "map.yaml:1:1")]),
        (
            "a: [b]\nb:\nc: 1.5\nd: true\ne: {f: g}\n",
            [("PF4211", f"map.yaml:{n}:{4 if n != 2 else 3}") for n in range(1, 6)],
        ),
        ("a: b\na: c\n", [("PF1003", "map.yaml:2:1")]),
        ("a: b\n  c: d\n", [("PF1001", "map.yaml:2:4")]),
        ("a: 'b\n", [("PF1001", "map.yaml:1:6")]),
        ("a: b\n---\nc: d\n", [("PF1002", "map.yaml:2:1")]),
        ("a: !!python/object:os.system x\n", [("PF1007", "map.yaml:1:4")]),
        ("a: \x07\n", [("PF1001", "map.yaml:1:4")]),
    ],
)
def test_a_wrong_cell_mapping_is_refused_with_its_line(write: Write, text: str, found: list[tuple[str, str]]) -> None:
    assert mistakes(cells, write(text)) == found


def test_a_layer_mapping_of_plain_names_is_refused(write: Write) -> None:
    assert mistakes(read_layer_mapping, write("dense1: fc1\nMLP:\n  a: [b]\n")) == [
        ("PF4211", "map.yaml:1:9"),
        ("PF4211", "map.yaml:3:6"),
    ]


def test_files_that_cannot_be_read_are_refused(write: Write, tmp_path: Path) -> None:
    latin = write("")
    latin.write_bytes(b"a: b\nc: \xe9\n")

    assert mistakes(cells, latin) == [("PF4210", "map.yaml")]
    assert mistakes(cells, tmp_path / "none.yaml") == [("PF4210", "none.yaml")]
    assert mistakes(cells, tmp_path) == [("PF4210", ".")]


def test_a_huge_file_is_refused_unread(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probe_flow.mappings.mapping_file.MAX_FILE_BYTES", 8)

    assert mistakes(cells, write("a: b\nc: d\n")) == [("PF4210", "map.yaml")]


def test_an_api_mapping_is_one_object_or_a_list(write: Write) -> None:
    text = "ms_api: Functional.dense\npt_api: Functional.linear\nms_args: [0, 1, bias]\npt_args: [0, 2, bias]\n"
    (alone,) = read_api_mapping(write(text))
    (listed,) = read_api_mapping(write("- " + text.replace("\n", "\n  ").rstrip() + "\n"))

    assert (alone.mindspore, alone.pytorch) == (listed.mindspore, listed.pytorch)
    assert alone.maps == listed.maps == {"args": {"0": "0", "1": "2", "bias": "bias"}}
    assert (str(alone.span), str(listed.span)) == ("map.yaml:1:1", "map.yaml:1:3")


@pytest.mark.parametrize("key", ["output", "outputs"])
def test_both_spellings_of_outputs_are_read(write: Write, key: str) -> None:
    text = f"ms_api: A.a\npt_api: B.b\nms_{key}: [0]\npt_{key}: [1]\n"

    assert read_api_mapping(write(text))[0].maps == {"outputs": {"0": "1"}}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ms_api: A.a\npt_api: B.b\nms_arg: [0]\n", [("PF4212", "map.yaml:3:1")]),
        ("- ms_api: A.a\n- pt_api: B.b\n", [("PF4213", "map.yaml:1:3"), ("PF4213", "map.yaml:2:3")]),
        ("ms_api: A.a\npt_api: B.b\nms_args: [0, 1]\npt_args: [0]\n", [("PF4214", "map.yaml:4:1")]),
        ("ms_api: A.a\npt_api: B.b\nms_args: [0]\n", [("PF4214", "map.yaml:3:1")]),
        ("ms_api: A.a\npt_api: B.b\nms_output: [0]\nms_outputs: [0]\npt_output: [0]\n", [("PF4215", "map.yaml:4:1")]),
        ("ms_api: A.a\npt_api: B.b\nms_args: 0\npt_args: []\n", [("PF4211", "map.yaml:3:10")]),
        ("ms_api: A.a\npt_api: B.b\nms_args: [{}]\npt_args: [0]\n", [("PF4211", "map.yaml:3:11")]),
        ("- A.a\n", [("PF4211", "map.yaml:1:3")]),
        ("ms_api: [A.a]\npt_api: B.b\n", [("PF4211", "map.yaml:1:9")]),
        ("[]\n", [("PF4211", "map.yaml")]),
    ],
)
def test_a_wrong_api_mapping_is_refused_with_its_line(write: Write, text: str, found: list[tuple[str, str]]) -> None:
    assert mistakes(read_api_mapping, write(text)) == found


def test_a_mistyped_key_is_shown_with_what_was_meant(write: Write) -> None:
    text = "ms_api: A.a\npt_api: B.b\nms_argz: [0]\n"
    with pytest.raises(UsageError) as caught:
        read_api_mapping(write(text))

    shown = render(caught.value.diagnostic, sources={"map.yaml": text})
    assert "error[PF4212]: unknown key `ms_argz` in an API mapping" in shown
    assert "--> map.yaml:3:1" in shown
    assert "did you mean `ms_args`" in shown
