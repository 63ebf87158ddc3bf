"""What collectives have to give, computed of what the ranks gave: by hand per API, and faults that allowances hide."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from probe_flow.analysis.communication import FORMS, reaches
from probe_flow.apis.numpy_core import moves
from probe_flow.comparing.asked import Asked, Recompute
from probe_flow.comparing.exchanges import Made, Member, made_of
from probe_flow.comparing.steps import compare_pairs
from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.matching.name.match_name import match_name
from probe_flow.records import FindingKind, Slot, SlotRole
from probe_flow.testing.run_records import run_record
from probe_flow.work import Context, Settings

RANKS = 3
WHOLE = [np.arange(6.0) + 10 * rank for rank in range(RANKS)]
"""What each rank gives where it gives one tensor."""
LISTED = [[np.array([10.0 * rank + 2 * to, 10.0 * rank + 2 * to + 1]) for to in range(RANKS)] for rank in range(RANKS)]
"""The same as a list, with a part for each rank."""


def computed(made: Made, tensors: dict[int, np.ndarray]) -> list[float]:
    given = [tensors[part.row] for part in made.parts]
    ranges = [part.range or (0, each.size) for part, each in zip(made.parts, given, strict=True)]
    make = moves.added if made.is_sum else moves.joined
    size = ranges[0][1] - ranges[0][0] if made.is_sum else sum(stop - start for start, stop in ranges)
    return make(*given, ranges=ranges, shape=(size,)).tolist()


def of_call(api, place, me, *, at, root=-1, listed=False, numel=6, values=None):
    """Return what a result has to be, of `WHOLE` or `LISTED` at position ``at`` of the arguments."""
    tensors, members = {}, []
    for rank in range(RANKS):
        each = {(at, to): LISTED[rank][to] for to in range(RANKS)} if listed else {(at,): WHOLE[rank]}
        rows = {path: (len(tensors) + n, value.size) for n, (path, value) in enumerate(each.items())}
        tensors |= {rows[path][0]: value for path, value in each.items()}
        members.append(Member(rows, values or {}))
    made = made_of(api, place, me, members, root, numel)
    return None if made is None else computed(made, tensors)


SUM = [30.0, 33.0, 36.0, 39.0, 42.0, 45.0]


@pytest.mark.parametrize(
    ("api", "place", "me", "arguments", "due"),
    [
        ("all_reduce", (0,), 1, {"at": 0}, SUM),
        ("reduce", (0,), 2, {"at": 0, "root": 2}, SUM),
        ("reduce", (0,), 1, {"at": 0, "root": 2}, None),
        ("reduce_scatter", (0,), 1, {"at": 1, "listed": True, "numel": 2}, [36.0, 39.0]),
        ("reduce_scatter_tensor", (0,), 2, {"at": 1, "numel": 2}, [42.0, 45.0]),
        ("broadcast", (0,), 2, {"at": 0, "root": 1}, [10.0, 11.0, 12.0, 13.0, 14.0, 15.0]),
        ("scatter", (0,), 2, {"at": 1, "root": 1, "listed": True, "numel": 2}, [14.0, 15.0]),
        ("all_gather", (0, 2), 0, {"at": 1}, [20.0, 21.0, 22.0, 23.0, 24.0, 25.0]),
        ("gather", (1, 2), 1, {"at": 0, "root": 1}, [20.0, 21.0, 22.0, 23.0, 24.0, 25.0]),
        ("gather", (1, 2), 0, {"at": 0, "root": 1}, None),
        ("all_gather_into_tensor", (0,), 0, {"at": 1, "numel": 18}, [*WHOLE[0], *WHOLE[1], *WHOLE[2]]),
        ("all_to_all", (0, 2), 1, {"at": 1, "listed": True, "numel": 2}, [22.0, 23.0]),
        ("all_to_all_single", (0,), 1, {"at": 1}, [2.0, 3.0, 12.0, 13.0, 22.0, 23.0]),
        ("recv", (0,), 0, {"at": 0, "root": 2}, [20.0, 21.0, 22.0, 23.0, 24.0, 25.0]),
        # What is no sum, has parts of several lengths or sizes that do not fit, is given by name, or is no result.
        ("all_reduce", (0,), 1, {"at": 0, "values": {("op",): "RedOpType.MAX"}}, None),
        ("all_reduce", (0,), 1, {"at": 0, "values": {(1,): "RedOpType.AVG"}}, None),
        ("all_to_all_single", (0,), 1, {"at": 1, "values": {(2, 0): 1, (2, 1): 5}}, None),
        ("all_reduce", (0,), 1, {"at": 0, "numel": 5}, None),
        ("all_reduce", (0,), 1, {"at": "tensor"}, None),
        ("all_gather", (1,), 1, {"at": 1}, None),
        ("broadcast", (0,), 1, {"at": 0}, None),
        ("barrier", (0,), 1, {"at": 0}, None),
    ],
)  # fmt: skip
def test_what_a_result_has_to_be(api, place, me, arguments, due):
    assert of_call(api, place, me, **arguments) == due


@pytest.mark.parametrize("place", [(1,), ("src",)])
def test_the_root_is_known_by_its_position_or_its_name(place):
    assert Member({}, {place: 2, ("async_op",): False}).root(FORMS["broadcast"]) == 2
    assert Member({}, {}).root(FORMS["broadcast"]) is None


def tensor(folder: Path, name: str, value: np.ndarray) -> dict[str, object]:
    np.save(folder / "dump_tensor_data" / f"{name}.npy", value)
    wide = value.astype("f8")
    figures = {"Max": wide.max(), "Min": wide.min(), "Mean": wide.mean(), "Norm": np.linalg.norm(wide)}
    return {
        "type": "torch.Tensor", "dtype": f"torch.{value.dtype}", "shape": list(value.shape), **figures,
        "requires_grad": False, "data_name": f"{name}.npy",
    }  # fmt: skip


def scattered(path: Path, dtype: str, *, noise: float = 0.0, wrong: float = 1.0, sent: float = 1.0) -> Path:
    """A dump of four ranks that add up their gradients and keep a part each.

    Args:
        path: for it.
        dtype: of all tensors.
        noise: relative error of what is added up.
        wrong: what the part of the third rank is off by.
        sent: what the gradients of the second rank are off by.
    """
    golden, random = np.random.default_rng(3), np.random.default_rng(4)
    parts = [[golden.standard_normal((64, 32)) for _ in range(4)] for _ in range(4)]
    given = [[(x * (1 + noise * random.standard_normal(x.shape))).astype(dtype) for x in each] for each in parts]
    given[1] = [(x * sent).astype(dtype) for x in given[1]]
    for rank in range(4):
        folder = path / "step0" / f"rank{rank}"
        (folder / "dump_tensor_data").mkdir(parents=True)
        due = sum(each[rank].astype("f8") for each in given) * (wrong if rank == 2 else 1.0)
        data = {}
        for n, x in enumerate(given[rank]):
            call = f"Torch.neg.{n}.forward"
            read, made = (tensor(folder, f"{call}.{end}.0", y) for end, y in (("input", -x), ("output", x)))
            data[call] = {"input_args": [read], "input_kwargs": {}, "output": [made]}
        entry = "Distributed.reduce_scatter.0.forward"
        listed = [tensor(folder, f"{entry}.input.1.{n}", x) for n, x in enumerate(given[rank])]
        result = tensor(folder, f"{entry}.output.0", due.astype(dtype))
        group = {"type": "torch.ProcessGroup", "group_ranks": [0, 1, 2, 3], "group_id": "3f72ac6e"}
        outputs = [result, listed, group]
        data[entry] = {"input_args": [None, listed], "input_kwargs": {"group": group}, "output": outputs}
        dump = {"task": "tensor", "level": "L1", "framework": "pytorch", "data": data}
        dump["dump_data_dir"] = str(folder / "dump_tensor_data")
        (folder / "dump.json").write_text(json.dumps(dump), encoding="utf-8")
    return path


def named(tmp_path: Path, mode: str = "auto", **faults: float) -> list[tuple[str, int | None]]:
    def in_order(function, batches, **_):
        return iter([(number, function(batch)) for number, batch in enumerate(batches)])

    target = read_dump_json(scattered(tmp_path / "t", "float16", noise=4e-4, **faults), side="target")
    golden = read_dump_json(scattered(tmp_path / "g", "float32"), side="golden")
    context = Context(
        stage="compare", output=tmp_path, map=in_order, emit=lambda *_, **__: None, report=lambda _: None,
        settings=Settings(), facts=run_record(), isolate=lambda *_: in_order,
    )  # fmt: skip
    found = compare_pairs(match_name(target, golden), Asked(recompute=Recompute(mode)), context, None).findings
    return [(each.node.name, each.node.execution.rank) for each in found if each.kind is FindingKind.ORIGIN]


def test_a_sum_that_one_rank_gets_wrong_is_named_though_what_was_added_up_explains_as_much(tmp_path):
    assert named(tmp_path / "alone", "never", wrong=1.003) == []
    assert named(tmp_path, wrong=1.003) == [("Distributed.reduce_scatter", 2)]


def test_only_the_parts_for_a_rank_explain_what_it_receives(tmp_path):
    """What the ranks send each other has as much noise, which a third of a per cent more would hide in."""
    assert named(tmp_path, "never", wrong=1.005) == [("Distributed.reduce_scatter", 2)]


@pytest.mark.parametrize(
    ("api", "place", "is_for"),
    [
        ("reduce_scatter", (1, 2), True), ("reduce_scatter", (1, 0), False), ("scatter", (1, 2), True),
        ("all_to_all", (1, 1), False), ("all_gather", (0, 1), True), ("all_reduce", (0,), True),
    ],
)  # fmt: skip
def test_a_part_reaches_one_rank_and_a_whole_all(api, place, is_for):
    assert reaches(f"Distributed.{api}", Slot(SlotRole.INPUT, place), 2) is is_for


@pytest.mark.parametrize("faults", [{}, {"sent": 1.05}])
def test_sums_of_noise_and_of_what_a_rank_sends_wrong_are_right(tmp_path, faults):
    assert ("Distributed.reduce_scatter", 2) not in named(tmp_path, **faults)
