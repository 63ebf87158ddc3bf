"""The passes of a fusion_result.json, in each form that compilers leave."""

from __future__ import annotations

import json

import pytest

from probe_flow.dumps.rules.fusion_result import PassEffect, read_fusion_result
from probe_flow.errors import FormatError

ONE = {
    "session_and_graph_id": "0_11",
    "graph_fusion": {"A": {"effect_times": "2", "match_times": "3"}, "Idle": {"effect_times": "0", "match_times": "1"}},
    "ub_fusion": {"B": {"effect_times": 1}},
}
TWO = {"graphId": 21, "graph_fusion": {"A": {"effect_times": "4"}}}
FOUND = (PassEffect("A", "GraphFusion", "0_11", 2), PassEffect("B", "UBFusion", "0_11", 1))


@pytest.mark.parametrize("form", ["object", "list", "concatenated", "lines"])
def test_every_form_gives_the_passes_that_took_effect(tmp_path, form):
    texts = [json.dumps(ONE), json.dumps(TWO)]
    content = {
        "object": texts[0], "list": f"[{texts[0]}, {texts[1]}]", "concatenated": "".join(texts),
        "lines": "\n,".join(texts) + "\n",
    }[form]  # fmt: skip
    path = tmp_path / "fusion_result.json"
    path.write_text(content)
    more = () if form == "object" else (PassEffect("A", "GraphFusion", "21", 4),)
    assert read_fusion_result(path) == (*FOUND, *more)


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[1]", b'{"a": 1}', b"\xff", b'{"graph_fusion": 3}', b'{"graph_fusion": {"A": 3}}', b"[" * 100_000,
     b'{"graph_fusion": {"A": {"effect_times": "many"}}}'],
    ids=range(9),
)  # fmt: skip
def test_other_files_are_told(tmp_path, raw):
    path = tmp_path / "fusion_result.json"
    path.write_bytes(raw)
    with pytest.raises(FormatError) as caught:
        read_fusion_result(path)
    assert (caught.value.diagnostic.code, bool(caught.value.diagnostic.help)) == ("PF4312", True)
