from __future__ import annotations

import pytest

from probe_flow.errors import Span
from probe_flow.files.yaml.positions import MAX_DEPTH, Document, parse_yaml


def parse(text: str) -> Document:
    document, problems = parse_yaml(text, "f.yaml")
    assert problems == []
    assert document is not None
    return document


def codes(text: str) -> list[str]:
    return [problem.code for problem in parse_yaml(text, "f.yaml")[1]]


def test_spans_of_keys_and_values_count_from_one_and_end_behind_the_last_character() -> None:
    place = parse("a: one\nbc:\n  - x\n  - {k: 'v w'}\n").place

    assert place.children["a"].key == Span("f.yaml", 1, 1, 1, 2)
    assert place.children["a"].span == Span("f.yaml", 1, 4, 1, 7)
    items = place.children["bc"]
    assert items.key == Span("f.yaml", 2, 1, 2, 3)
    assert items.children[0].span == Span("f.yaml", 3, 5, 3, 6)
    assert items.children[0].key is None
    assert items.children[1].span == Span("f.yaml", 4, 5, 4, 15)
    assert items.children[1].children["k"].span == Span("f.yaml", 4, 9, 4, 14)


def test_block_collections_end_with_their_last_value() -> None:
    place = parse("a:\n  b: 1\n  c: two\n\n\nd: 3\n").place

    assert place.children["a"].span == Span("f.yaml", 2, 3, 3, 9)


def test_columns_count_characters_not_bytes() -> None:
    place = parse("é日: 日本 # text\n").place

    assert place.children["é日"].span == Span("f.yaml", 1, 5, 1, 7)


def test_byte_order_and_line_ends_of_windows_do_not_shift_lines() -> None:
    place = parse("a: 1\r\nb: 2\r\n").place

    assert place.children["b"].span == Span("f.yaml", 2, 4, 2, 5)


def test_alias_has_the_place_of_its_use_and_of_its_definition() -> None:
    document = parse("a: &x [1, 2]\nb: *x\n")

    used = document.place.children["b"]
    assert document.values["b"] == [1, 2]
    assert used.span == Span("f.yaml", 2, 4, 2, 6)
    assert used.definition == Span("f.yaml", 1, 4, 1, 13)
    assert used.children[1].span == Span("f.yaml", 1, 11, 1, 12)


def test_merge_keys_yield_to_written_keys_and_to_earlier_merges() -> None:
    document = parse("a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc: {<<: [*a, *b], x: 3}\n")

    assert document.values["c"] == {"x": 3, "y": 1, "z": 2}
    assert document.place.children["c"].children["z"].span.line == 2


def test_a_quoted_merge_sign_is_an_ordinary_key() -> None:
    assert parse("a: {'<<': 1}\n").values["a"] == {"<<": 1}


def test_whole_numbers_may_be_keys() -> None:
    assert parse("a: {0: x, 012: y}\n").values["a"] == {0: "x", 12: "y"}


def test_number_and_quoted_number_are_different_keys_but_equal_numbers_are_the_same() -> None:
    assert parse("a: {1: x, '1': y}\n").values["a"] == {1: "x", "1": "y"}
    assert codes("a: {1: x, 01: y}\n") == ["PF1003"]


def test_a_key_written_twice_keeps_the_first_value_and_names_both_places() -> None:
    document, problems = parse_yaml("a: 1\nb: 2\na: 3\n", "f.yaml")

    assert document is not None
    assert document.values == {"a": 1, "b": 2}
    assert problems[0].span == Span("f.yaml", 3, 1, 3, 2)
    assert problems[0].related == ((Span("f.yaml", 1, 1, 1, 2), "first written here"),)


def test_duplicate_keys_are_found_at_every_depth_and_all_of_them() -> None:
    assert codes("a: {b: 1, b: 2}\nc: [{d: 1, d: 2, d: 3}]\n") == ["PF1003"] * 3


@pytest.mark.parametrize("text", ["a: 1\n---\nb: 2\n", "---\na: 1\n---\n", "a: 1\n...\n---\nb: 1\n"])
def test_a_second_document_is_an_error(text: str) -> None:
    assert codes(text) == ["PF1002"]


@pytest.mark.parametrize("text", ["---\na: 1\n", "a: 1\n...\n", "%YAML 1.2\n---\na: 1\n", "# c\n\na: 1"])
def test_marks_around_one_document_are_allowed(text: str) -> None:
    assert parse(text).values == {"a": 1}


@pytest.mark.parametrize("text", ["", "# only\n", "---\n", "null\n", "[a]\n", "text\n", "5\n"])
def test_a_root_that_is_no_mapping_is_an_error(text: str) -> None:
    assert codes(text) == ["PF1004"]


@pytest.mark.parametrize("key", ["true", "~", "1.5", "[a]", "{a: b}", "? [a, b]\n"])
def test_keys_of_other_types_are_errors(key: str) -> None:
    assert codes(f"ok: 1\n{key}: x\n") == ["PF1005"]


def test_aliases_expand_to_a_limit() -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 40)]

    assert codes("\n".join(lines)) == ["PF1006"]


def test_a_repeated_small_alias_is_allowed() -> None:
    assert len(parse("a: &a [x, y]\nb: [*a, *a, *a]\n").values["b"]) == 3  # type: ignore[arg-type]


@pytest.mark.parametrize("opening", ["[", "- ", "{a: ", "a:\n"])
def test_nesting_is_limited_without_exhausting_the_stack(opening: str) -> None:
    depth = 20 * MAX_DEPTH
    nested = "".join(" " * i + "a:\n" for i in range(depth)) if opening == "a:\n" else opening * depth

    assert codes("a: " + nested if opening != "a:\n" else nested)[-1] in {"PF1006", "PF1001"}


def test_an_anchor_inside_itself_is_an_error() -> None:
    assert codes("a: &x {b: *x}\n") == ["PF1006"]


def test_an_alias_before_its_anchor_is_an_error() -> None:
    assert codes("a: *x\nb: &x 1\n") == ["PF1001"]


@pytest.mark.parametrize("value", ["!!python/name:os.system x", "!!binary aGk=", "!!set {a}", "!own 1", "!!omap []"])
def test_foreign_tags_are_errors_and_nothing_is_made_of_them(value: str) -> None:
    assert "PF1007" in codes(f"a: {value}\n")


def test_core_tags_are_obeyed() -> None:
    values = parse("a: !!str 12\nb: !!int '12'\nc: !!float 3\nd: !!bool 'true'\ne: !!null ''\nf: ! 12\n").values

    assert values == {"a": "12", "b": 12, "c": 3.0, "d": True, "e": None, "f": "12"}
    assert type(values["c"]) is float
