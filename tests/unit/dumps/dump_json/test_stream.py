"""Reading a dump.json entry by entry: any window, exact places of mistakes, nothing lost at the seams."""

from __future__ import annotations

import json
import math
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peak_memory import peak_bytes

from probe_flow.dumps.dump_json import stream as dump_json_stream
from probe_flow.dumps.dump_json.stream import EntryStream
from probe_flow.dumps.dump_json.text import load_document
from probe_flow.errors import FormatError
from probe_flow.records.frameworks import PYTORCH

DATA = Path(__file__).parents[3] / "data" / "dump_json"
WINDOWS = [1, 2, 7, 64, 4096]


@pytest.fixture(params=WINDOWS)
def window(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(dump_json_stream, "WINDOW_BYTES", request.param)
    return int(request.param)


def stream_of(folder: Path, content: str | bytes) -> EntryStream:
    path = folder / "dump.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return EntryStream(path, "dump.json")


def mistake(stream: EntryStream) -> tuple[str, int, int]:
    with pytest.raises(FormatError) as caught:
        list(stream)
    found = caught.value.diagnostic
    return found.message, found.span.line if found.span else 0, found.span.column if found.span else 0


@pytest.mark.usefixtures("window")
def test_a_real_dump_gives_the_same_entries_in_any_window() -> None:
    path = DATA / "pt_types/step0/proc1000/dump.json"
    stream = EntryStream(path, "dump.json")
    whole = json.loads(path.read_text())

    assert json.dumps(dict(stream)) == json.dumps(whole.pop("data"))
    assert (stream.top, stream.framework, stream.has_entries, stream.repeated) == (whole, PYTORCH, True, ())


@pytest.mark.usefixtures("window")
def test_numbers_words_and_text_are_whole_across_windows(tmp_path: Path) -> None:
    content = (
        '\ufeff{"a": -12.5e-3, "data": {"é\\u00e9": [NaN, -Infinity, true, "\\ud83d\\ude00"], "b": 1234567}, "c": 1e9}'
    )
    stream = stream_of(tmp_path, content)
    (first, listed), second = list(stream)

    assert first == "éé"
    assert isinstance(listed, list)
    assert math.isnan(listed[0])
    assert listed[1:] == [-math.inf, True, "\U0001f600"]
    assert second == ("b", 1234567)
    assert stream.top == {"a": -0.0125, "c": 1e9}


@pytest.mark.parametrize("content", ["12345", '"text"', "[1, [2]]", "null"])
@pytest.mark.usefixtures("window")
def test_a_top_level_that_is_no_object_is_parsed_as_it_is(tmp_path: Path, content: str) -> None:
    stream = stream_of(tmp_path, content)

    assert list(stream) == []
    assert stream.top == json.loads(content)
    assert not stream.has_entries


@pytest.mark.parametrize("data", ["[]", "null", "3"])
def test_data_that_is_no_object_is_a_member_like_others(tmp_path: Path, data: str) -> None:
    stream = stream_of(tmp_path, f'{{"data": {data}}}')

    assert list(stream) == []
    assert stream.top == {"data": json.loads(data)}


@pytest.mark.usefixtures("window")
def test_keys_written_twice_are_found_at_every_level_but_that_of_entries(tmp_path: Path) -> None:
    stream = stream_of(tmp_path, '{"x": 1, "x": 2, "data": {"a": {"k": 1, "k": 2}, "a": 1}, "data": {"b": 1}}')

    assert list(stream) == [("a", {"k": 2}), ("a", 1), ("b", 1)]
    assert stream.repeated == ("x", "k", "data")


BROKEN = [
    '{"data": {"a": 1,\n "b": }}',
    '{"data": {"a": 1\n "b": 2}}',
    '{"data": {"a" 1}}',
    '{"data": {"a": [1,\n\n2,, 3]}}',
    '{"data": {\r\n"a": {"x": 1},\r\n"b": {"y": tru}\r\n}}',
    '{"data": {"a": "new\nline"}}',
    '{"data": {"a": "\\q"}}',
    '{"data": {"a": "\\u12"}}',
    '{"data": {"a": 1}} more',
    '{"data": {"a": 1}, }',
    '{"data": {"a": 1',
    '{"data": {"a": "cut',
    '{"data": {"a": 1}',
    '{"data": {',
    '{"task"',
    '{"task": ',
    "{",
    "",
    "  \n ",
    "{'data': 1}",
    '{"data": {"a": 01}}',
    '{"data": {"a": +1}}',
    '{"data": {"a": 1.}}',
    '{"a": 1 "b"}',
    "[1, 2",
    "nul",
]


@pytest.mark.parametrize("content", BROKEN)
@pytest.mark.usefixtures("window")
def test_mistakes_stand_where_they_stand_in_the_whole_text(tmp_path: Path, content: str) -> None:
    message, line, column = mistake(stream_of(tmp_path, content))
    with pytest.raises(FormatError) as caught:
        load_document(tmp_path / "dump.json", "dump.json")
    whole = caught.value.diagnostic

    assert whole.span is not None
    assert (line, column) == (whole.span.line, whole.span.column)
    assert message == whole.message


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.usefixtures("window")
def test_a_mistake_far_from_the_beginning_has_its_line_and_column(tmp_path: Path, end: str) -> None:
    entries = f",{end}".join(f'  "Torch.é.{number}.forward": {{"output": [null]}}' for number in range(200))
    message, line, column = mistake(stream_of(tmp_path, f'{{"data": {{{end}{entries},{end}  "last": [nil]}}}}'))

    assert (line, column) == (202, 12)
    assert "Expecting value" in message


@pytest.mark.usefixtures("window")
def test_bytes_that_are_no_utf8_are_named_by_their_place(tmp_path: Path) -> None:
    content = '{"data": {"é": "'.encode() + b"\xff" + b'"}}'

    assert f"byte {content.index(0xFF)} is not UTF-8" in mistake(stream_of(tmp_path, content))[0]
    assert "byte 10 is not UTF-8" in mistake(stream_of(tmp_path, b'{"data": {\xe2\x82'))[0]


def test_too_deep_and_too_large_values_are_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "nested too deeply" in mistake(stream_of(tmp_path, '{"data": {"a": ' + "[" * 50_000))[0]

    monkeypatch.setattr(dump_json_stream, "WINDOW_BYTES", 16)
    monkeypatch.setattr(dump_json_stream, "MAX_VALUE_BYTES", 1 << 20)
    content = '{"data": {"a": "' + "x" * (1 << 22) + '"}}'
    assert "one value takes more than 1 MiB" in mistake(stream_of(tmp_path, content))[0]


BOMBS = {
    "lists without elements": ("[],", "takes more than 16 MiB"),
    "objects without keys": ("{},", "takes more than 16 MiB"),
    "nulls": ("null,", "`a` holds more than 250000 values"),
    "lists in lists": ("[[null,null]],", "`a` holds more than 250000 values"),
}


@pytest.mark.parametrize(("part", "why"), BOMBS.values(), ids=BOMBS)
def test_an_entry_of_many_small_values_takes_bounded_memory(tmp_path: Path, part: str, why: str) -> None:
    size = (32 if "16 MiB" in why else 2) << 20
    path = tmp_path / "dump.json"
    path.write_text('{"data": {"a": {"input_args": [' + part * (size // len(part)) + "0]}}}")
    setup = """
from pathlib import Path
from probe_flow.errors import FormatError
from probe_flow.dumps.dump_json.stream import EntryStream
"""
    work = """
try:
    list(EntryStream(Path(sys.argv[1]), "dump.json"))
except FormatError as error:
    message = error.diagnostic.message
assert sys.argv[2] in message, message
"""
    assert peak_bytes(setup, work, path, why) < 600 << 20


def test_many_values_in_the_entries_of_a_file_are_no_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump_json_stream, "MAX_LEAVES", 10)
    entries = {f"e{n}": {"input_args": [None] * 9, "output": [{"type": "x", "shape": [[1] * 99]}]} for n in range(9)}
    for long in (1, 1 << 20):
        monkeypatch.setattr(dump_json_stream, "_LONG", long)
        assert dict(stream_of(tmp_path, json.dumps({"data": entries}))) == entries


@settings(max_examples=50, deadline=None)
@given(
    data=st.dictionaries(
        st.text(max_size=5),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
            max_leaves=8,
        ),
        max_size=6,
    ),
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
    size=st.sampled_from(WINDOWS),
)
def test_any_entries_come_through_any_window(
    tmp_path_factory: pytest.TempPathFactory, data: dict[str, Any], indent: int | None, ascii_only: bool, size: int
) -> None:
    content = json.dumps({"task": "x", "data": data, "end": 1}, indent=indent, ensure_ascii=ascii_only)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dump_json_stream, "WINDOW_BYTES", size)
        stream = stream_of(tmp_path_factory.mktemp("any"), content.encode("utf-8", "surrogatepass"))
        assert list(stream) == list(data.items())
    assert stream.top == {"task": "x", "end": 1}


def test_neither_the_text_nor_the_tree_is_held_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = json.dumps({"output": [{"type": "torch.Tensor", "shape": [1, 2], "Max": 0.5}] * 20})
    content = ",\n".join(f'"Torch.add.{number}.forward": {entry}' for number in range(2000))
    stream = stream_of(tmp_path, f'{{"data": {{{content}}}}}')
    monkeypatch.setattr(dump_json_stream, "WINDOW_BYTES", 1 << 14)
    size = len(content)
    del content
    tracemalloc.start()
    try:
        count = sum(1 for _ in stream)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert count == 2000
    assert peak < size / 4


@pytest.mark.usefixtures("window")
@pytest.mark.parametrize(
    ("entry", "repeated"),
    [
        ('{"a": 1, "a": 2}', ("a",)),
        ('{"a" : 1, "a": 2}', ("a",)),
        ('{"output": [{"Max": 1, "Max": 2}]}', ("Max",)),
        ('{"input_kwargs": {"x": {"p": 0, "p": 1, "q": 2}}}', ("p",)),
        ('{"output": [[[{"deep": 1, "deep": 2}]]]}', ("deep",)),
        ('{"output": [{"a": {"b": 1, "b": 2}}]}', ("b",)),
        ('[{"a": 1, "a": 2}]', ("a",)),
        ('{"a": "x: y: z", "b": ":", "output": [{"c": ":"}]}', ()),
        ('{"a": ":", "b": 1, "b": 2}', ("b",)),
        ('{"a":{"b":[{"c":{"d":1}}]}}', ()),
    ],
)
def test_keys_that_stand_twice_are_found_at_any_depth(tmp_path: Path, entry: str, repeated: tuple[str, ...]) -> None:
    stream = stream_of(tmp_path, f'{{"data": {{"one": {entry}, "two": {{}}}}}}')

    assert dict(stream) == {"one": json.loads(entry), "two": {}}
    assert stream.repeated == repeated


@pytest.mark.usefixtures("window")
@pytest.mark.parametrize("key", ["a\tb", 'a"b', "a\\\\b", "a\\u00e9", "", "a\u2028b", "a\x7fb"])
def test_names_of_entries_are_those_of_json(tmp_path: Path, key: str) -> None:
    text = json.dumps({"data": {key: {"x": 1}, "last": 2}}, ensure_ascii=False, indent=1)

    assert dict(stream_of(tmp_path, text)) == {key: {"x": 1}, "last": 2}


@pytest.mark.parametrize(
    ("entries", "repeated"),
    [
        ('"a": {"output": [1]}, "a": {"output": [2]}', ()),
        ('"a": {"output": [{"type": "x", "p": 1, "p": 2}]}, "b": {"output": []}', ("p",)),
        ('"a": {"output": [{"type": "x", "value": "npu:0"}]}, "b": {"output": [1], "output": [2]}', ("output",)),
        ('"a": {"output": [{"type": "x", "value": "\\u003a", "p": 1, "p": 2}]}, "b": {"input": 0}', ("p",)),
        ('"a": {"output": [{"type": "x", "value": {"q": 0, "q": 1}}]}', ("q",)),
        ('"a": {"output": [{"type": "x", "value": "npu:0"}]}, "b": {"input_kwargs": {"d:": {}}}', ()),
        ('"a": {"output": [1]}, "}, ": {"output": 3}, "x, ": {"input": "}, \\"y\\": {\\"input"}', ()),
        ('"a": {"parameters": {"p": {}, "input": {"input": [0]}, "output": {"output": [7]}}}', ()),
        ('"\\ud800": {"output": ["\\udc00"]}, "b": {"output": [-Infinity, 1e400]}', ()),
        ('"a": {"output": [' + "[" * 300 + "]" * 300 + ']}, "b": {"output": [1]}', ()),
    ],
)
def test_entries_that_are_parsed_together_are_those_that_stand_there(
    tmp_path: Path, entries: str, repeated: tuple[str, ...]
) -> None:
    text = f'{{{entries}, "last": {{"output": [0]}}}}'
    stream = stream_of(tmp_path, f'{{"data": {text}, "end": 1}}')

    assert list(stream) == json.loads(text, object_pairs_hook=_Pairs).entries()
    assert stream.top == {"end": 1}
    assert stream.repeated == repeated


class _Pairs(list[tuple[str, Any]]):
    """The members of an object with all repetitions."""

    def entries(self) -> list[tuple[str, Any]]:
        return [(key, _plain(value)) for key, value in self]


def _plain(value: Any) -> Any:
    if isinstance(value, _Pairs):
        return {key: _plain(each) for key, each in value}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def test_mistakes_between_entries_that_could_be_parsed_together_have_their_place(tmp_path: Path) -> None:
    entries = [f'"Torch.add.{number}.forward": {{"output": [null]}}' for number in range(9)]
    entries[6] = entries[6].replace("null", "nil")

    message, line, column = mistake(stream_of(tmp_path, '{"data": {' + ",\n".join(entries) + "}}"))

    assert (line, column) == (7, entries[6].index("nil") + 1)
    assert "Expecting value" in message
