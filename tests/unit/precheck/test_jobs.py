"""Which calls of a dump are checked, in which order, and dumps from which nothing can be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from api_dumps import backward, forward, read_dump, small_net, tensor, write_dump

from probe_flow.errors import ProbeFlowError, UsageError
from probe_flow.metrics.accumulators.registry import MeasureOptions
from probe_flow.precheck.checked import TENSOR_METHODS, UNSUSPECTED, Choice, why_not
from probe_flow.precheck.jobs import Found, How, data_folder, find_calls, jobs_of
from probe_flow.precheck.results import Status
from probe_flow.records import Framework
from probe_flow.records.frameworks import MINDSPORE, MINDTORCH, PYTORCH
from probe_flow.testing import builders

DATA = Path(__file__).parents[2] / "data" / "precheck"
HOW = How("float64_rounded", "per_slot", 1e-4, None, None, 1 << 40, MeasureOptions())


def found_in(folder: Path, data: dict[str, Any], **top: Any) -> Found:
    return find_calls(read_dump(write_dump(folder, data, **top)))


def refusal(path: Path, **select: Any) -> Any:
    with pytest.raises(UsageError) as caught:
        find_calls(read_dump(path, **select))
    return caught.value.diagnostic


def test_calls_come_in_the_order_of_their_first_appearance(tmp_path: Path) -> None:
    found = found_in(tmp_path, small_net())
    names = [
        "Mint.mul.0",
        "Mint.add.0",
        "Primitive.Custom.net.0",
        "Mint.fail.0",
        "Mint.rot.0",
        "Mint.max.0",
        "Mint.mul.1",
    ]
    assert list(found.nodes) == names
    assert list(found.entries) == [name for name in names if not name.startswith("Primitive")]
    assert [list(phases) for phases in found.nodes.values()][:2] == [["forward", "backward"], ["forward"]]


def test_a_backward_entry_may_come_first(tmp_path: Path) -> None:
    data = {"Mint.b.0.backward": backward(), "Mint.a.0.forward": forward(), "Mint.b.0.forward": forward()}
    found = found_in(tmp_path, data)
    assert list(found.nodes) == ["Mint.b.0", "Mint.a.0"]
    (first, _) = jobs_of(found, HOW)
    assert json.loads(first.entries) == {"backward": backward(), "forward": forward()}


def test_a_job_has_the_parts_of_its_name_and_its_entries(tmp_path: Path) -> None:
    call = forward(tensor(Max=1.5), dim={"type": "int", "value": 1})
    found = found_in(tmp_path, {"Mint.nn.functional.relu.12.forward": call})
    (job,) = jobs_of(found, HOW)
    assert (job.name, job.kind, job.api) == ("Mint.nn.functional.relu.12", "Mint", "nn.functional.relu")
    assert json.loads(job.entries) == {"forward": call}


def test_literals_that_are_no_json_travel(tmp_path: Path) -> None:
    found = found_in(tmp_path, {"Mint.exp.0.forward": forward(tensor(Max=float("inf"), Min=float("nan")))})
    (job,) = jobs_of(found, HOW)
    element = json.loads(job.entries)["forward"]["input_args"][0]
    assert (str(element["Max"]), str(element["Min"])) == ("inf", "nan")


def test_numbers_of_calls_may_be_written_with_zeros(tmp_path: Path) -> None:
    found = found_in(tmp_path, {"Mint.exp.007.forward": forward(tensor()), "Mint.sin.0.forward": forward(tensor())})
    assert list(found.nodes) == list(found.entries) == ["Mint.exp.7", "Mint.sin.0"]


def test_each_call_of_a_real_dump_is_checked_or_refused_with_a_reason() -> None:
    found = find_calls(read_dump(DATA / "net_dump_statistics.json"))
    assert len(found.nodes) == 76
    assert set(found.entries) | set(found.refused) == set(found.nodes)
    assert not set(found.entries) & set(found.refused)
    assert {name.rsplit(".", 1)[0] for name in found.refused} == {"Tensor.__add__", "Tensor.__mul__"}
    peer = (DATA / "net_result.csv").read_text("utf-8-sig").splitlines()[1:]
    names = {line.split(",")[0] for line in peer if line.startswith(("Mint", "Tensor"))}
    assert set(found.entries) == names, "msprobe drops the others without a word"


def test_a_call_that_is_not_checked_is_skipped_in_each_of_its_directions(tmp_path: Path) -> None:
    data = {"Cell.a.0.forward": forward(), "Cell.a.0.backward": backward(), "Mint.exp.0.forward": forward()}
    found = found_in(tmp_path, data)
    (result,) = found.skipped()
    assert result.name == "Cell.a.0"
    assert [(phase, each.status, each.is_expected) for phase, each in result.directions()] == [
        ("forward", Status.SKIP, True),
        ("backward", Status.SKIP, True),
    ]
    assert result.forward is not None
    assert result.forward.reason == "calls of kind `Cell` are not checked"


def test_only_chosen_calls_are_checked(tmp_path: Path) -> None:
    catalog = read_dump(write_dump(tmp_path, small_net()))
    (run,) = catalog.executions
    found = find_calls(catalog, Choice(only={(run.identity, "Mint.mul")}))
    assert list(found.entries) == ["Mint.mul.0", "Mint.mul.1"]
    assert found.left_out["Mint.add.0"] == UNSUSPECTED
    assert "Primitive" in found.refused["Primitive.Custom.net.0"], "it would not be checked in any case"
    assert list(find_calls(catalog, Choice(only=set())).entries) == []


def test_lists_of_apis_choose_too(tmp_path: Path) -> None:
    catalog = read_dump(write_dump(tmp_path, small_net()))
    found = find_calls(catalog, Choice(listed=frozenset({"mul", "max"}), unlisted=frozenset({"max"})))
    assert list(found.entries) == ["Mint.mul.0", "Mint.mul.1"]
    assert found.left_out["Mint.add.0"] == "`add` is not on the white list"
    assert found.left_out["Mint.max.0"] == "`max` is on the black list"


def test_a_dump_of_several_executions_is_refused_until_one_is_chosen(tmp_path: Path) -> None:
    for rank in (0, 1):
        write_dump(tmp_path / "step0" / f"rank{rank}", small_net())
    found = refusal(tmp_path)
    assert found.code == "PF6601"
    assert "2 dump.json files" in found.message
    assert len(find_calls(read_dump(tmp_path, ranks=[1])).nodes) == 7


@pytest.mark.parametrize(
    ("data", "top", "code", "words"),
    [
        ({"Mint.exp.forward.0": forward(tensor())}, {}, "PF6602", "records no call"),
        ({"Cell.net.Net.forward.0": forward()}, {"level": "L0"}, "PF6602", "records no call"),
        ({"Mint.exp.0.forward": forward(tensor(md5="1f"))}, {"task": "md5"}, "PF6603", "task `md5`"),
        ({"Mint.exp.0.forward": {}}, {"task": "structure"}, "PF6603", "task `structure`"),
    ],
)
def test_dumps_with_nothing_to_check(
    data: dict[str, Any], top: dict[str, Any], code: str, words: str, tmp_path: Path
) -> None:
    found = refusal(write_dump(tmp_path, data, **top))
    assert (found.code, words in found.message) == (code, True)
    assert found.help


def test_a_dump_of_another_kind_is_none_of_calls() -> None:
    with pytest.raises(UsageError) as caught:
        find_calls(builders.catalog([builders.tensor("a")]))
    assert caught.value.diagnostic.code == "PF6603"


@pytest.mark.parametrize("framework", [None, "tensorflow"])
def test_a_dump_without_a_known_framework_goes_by_its_tensors(framework: str | None, tmp_path: Path) -> None:
    data = {"Mint.exp.0.forward": forward(tensor()), "Torch.exp.0.forward": forward(tensor())}
    found = found_in(tmp_path, data, framework=framework)
    assert list(found.entries) == ["Mint.exp.0"], "kinds of MindSpore"


def test_a_dump_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    path = write_dump(tmp_path, small_net())
    catalog = read_dump(path)
    path.write_bytes(path.read_bytes()[:900])
    with pytest.raises(ProbeFlowError) as caught:
        find_calls(catalog)
    assert caught.value.diagnostic.code != "PF9001"


def test_tensors_lie_beside_the_dump(tmp_path: Path) -> None:
    path = write_dump(tmp_path, {"Mint.exp.0.forward": forward()}, task="tensor", dump_data_dir="/gone")
    assert data_folder(read_dump(path)) == str(tmp_path / "dump_tensor_data")
    assert data_folder(read_dump(write_dump(tmp_path / "other", {"Mint.exp.0.forward": forward()}))) is None


@pytest.mark.parametrize(
    ("framework", "kind", "api", "is_checked"),
    [
        (MINDSPORE, "Mint", "anything", True),
        (MINDSPORE, "MintFunctional", "anything", True),
        (MINDSPORE, "Tensor", "view_as", True),
        (MINDSPORE, "Tensor", "__add__", False),
        (MINDSPORE, "Tensor", "sum", False),
        (MINDSPORE, "Functional", "flash_attention_score", True),
        (MINDSPORE, "Functional", "relu", False),
        (MINDSPORE, "Torch", "add", False),
        (MINDSPORE, "Distributed", "all_reduce", False),
        (MINDTORCH, "Torch", "anything", True),
        (MINDTORCH, "Functional", "relu", True),
        (MINDTORCH, "Tensor", "__add__", True),
        (MINDTORCH, "Tensor", "new_empty", False),
        (MINDTORCH, "Mint", "add", False),
        (MINDTORCH, "Aten", "add", False),
        (PYTORCH, "Torch", "add", True),
        (PYTORCH, "Torch", "empty_like", False),
        (PYTORCH, "Tensor", "sum", True),
        (PYTORCH, "Distributed", "all_reduce", False),
    ],
)
def test_kinds_that_are_checked(framework: Framework, kind: str, api: str, is_checked: bool) -> None:
    assert (why_not(framework, kind, api) is None) is is_checked


def test_the_methods_of_tensors_are_the_59_of_the_documentation() -> None:
    assert len(TENSOR_METHODS) == 59
    assert {"add_", "numel", "zero_", "is_contiguous"} <= TENSOR_METHODS
