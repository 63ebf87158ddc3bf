"""Make the dumps of `tests/data/visualization/msprobe_graphs.tar.xz`, whose graphs msprobe drew.

Each case is a target `t`, mostly a golden `g`, and the options that both versions of msprobe were given: ``-oc``,
fuzzy matching, a layer mapping. Version 1.2.1 got the stacks by name of the entry, as it reads no others.
`expected.json` keeps of its ``.vis`` and of the ``.vis.db`` of 26.2.0 what the tests compare. Cases `pt_*` and `dist`
are real dumps of mindstudio-probe. Run: ``python -m tests.generate.graph_cases FOLDER``.
"""

from __future__ import annotations

import copy
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data"
Dump = dict[str, Any]
"""Content of dump.json, construct.json and stack.json by `dump`, `construct` and `stack`."""

BLOCK = "Module.layers.0.Block.forward.0"


def load(folder: Path) -> Dump:
    return {name: json.loads((folder / f"{name}.json").read_text()) for name in ("dump", "construct", "stack")}


def save(dump: Mapping[str, Any], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in dump.items():
        (folder / f"{name}.json").write_text(json.dumps(content))


def stacks_by_entry(dump: Dump) -> dict[str, list[str]]:
    return {entry: frames for entries, frames in dump["stack"].values() for entry in entries}


def renamed(dump: Dump, rename: Callable[[str], str]) -> Dump:
    """Return a dump with other entries."""
    calls = {rename(entry): caller and rename(caller) for entry, caller in dump["construct"].items()}
    data = {rename(entry): value for entry, value in dump["dump"]["data"].items()}
    groups = {key: [[*map(rename, entries)], frames] for key, (entries, frames) in dump["stack"].items()}
    return {"dump": {**dump["dump"], "data": data}, "construct": calls, "stack": groups}


def items(dump: Dump, place: int, *keys: str) -> list[dict[str, Any]]:
    """Return the items with float statistics of the entry at a place."""
    entry = [*dump["dump"]["data"].values()][place]
    found = [item for key in keys for item in entry.get(key, ()) if item]
    return [item for item in found if isinstance(item.get("Max"), float)]


def with_nan(dump: Dump) -> Dump:
    """Return a dump whose 15th entry makes NaN, which every later one passes on."""
    found = copy.deepcopy(dump)
    for place in range(14, len(found["dump"]["data"])):
        for item in items(found, place, *(["output"] if place == 14 else ["input_args", "input", "output"])):
            item.update(dict.fromkeys(("Max", "Min", "Mean", "Norm"), float("nan")))
    return found


def with_infinity(dump: Dump) -> Dump:
    """Return a dump with infinities from the 13th entry on, and a norm that grows in the ninth."""
    found = copy.deepcopy(dump)
    for place in range(12, len(found["dump"]["data"])):
        for item in items(found, place, "output"):
            item["Max"] = item["Mean"] = float("inf")
        for item in items(found, place, "input_args", "input") if place > 14 else ():
            item["Max"] = float("inf")
    for item in items(found, 8, "output"):
        item["Norm"] = 1e9
    return found


def with_extra_call(dump: Dump) -> Dump:
    """Return a dump that calls `leaky_relu` once more before all others, whose numbers are one higher then."""
    name = re.compile(r"(Functional\.leaky_relu\.)(\d+)")
    found = renamed(copy.deepcopy(dump), lambda entry: name.sub(lambda part: f"{part[1]}{int(part[2]) + 1}", entry))
    second = "Functional.leaky_relu.1.forward"
    for content in (found["dump"]["data"], found["construct"]):
        before = {"Functional.leaky_relu.0.forward": copy.deepcopy(content[second])}
        rest = dict(content)
        content.clear()
        for entry, value in rest.items():
            content.update({**before, entry: value} if entry == second else {entry: value})
    return found


def with_calls_at_top(dump: Dump, count: int) -> Dump:
    """Return a dump with calls of `exp` before the first block, in no module."""
    found = copy.deepcopy(dump)
    names = [f"Torch.exp.{number}.forward" for number in range(count)]
    item = found["dump"]["data"]["Functional.leaky_relu.0.forward"]
    found["dump"]["data"] = {**{name: copy.deepcopy(item) for name in names}, **found["dump"]["data"]}
    calls = [*found["construct"].items()]
    place = [entry for entry, _ in calls].index(BLOCK)
    found["construct"] = dict([*calls[:place], *((name, None) for name in names), *calls[place:]])
    return found


def twice(dump: Dump) -> Dump:
    """Return a dump of two passes forward and backward."""
    calls = {"leaky_relu": 2, "linear": 5, "layer_norm": 2, "__add__": 2}

    def second(entry: str) -> str:
        parts = entry.split(".")
        if parts[-1] in ("forward", "backward"):
            parts[-2] = str(int(parts[-2]) + calls.get(parts[1], 1))
        elif parts[-2] in ("forward", "backward"):
            parts[-1] = str(int(parts[-1]) + 1)
        return ".".join(parts)

    found, other = copy.deepcopy(dump), renamed(copy.deepcopy(dump), second)
    found["dump"]["data"] |= other["dump"]["data"]
    found["construct"] |= other["construct"]
    found["stack"] = stacks_by_entry(dump) | stacks_by_entry(other)
    return found


def with_recorded_steps(dump: Dump) -> Dump:
    """Return a dump of two micro steps as Megatron records them."""
    found = twice(dump)
    half = len(found["construct"]) // 2
    calls = {entry: [caller, int(n >= half)] for n, (entry, caller) in enumerate(found["construct"].items())}
    found["construct"] = {**calls, "megatron_micro_step_number": 1}
    return found


def of_mindspore(dump: Dump) -> Dump:
    """Return a dump with MindSpore's names of modules, APIs and types."""

    def named(entry: str) -> str:
        return entry.replace("Module.", "Cell.", 1).replace("Functional.", "MintFunctional.").replace("Torch.", "Mint.")

    found = renamed(copy.deepcopy(dump), named)
    text = json.dumps(found["dump"]).replace("torch.Tensor", "mindspore.Tensor")
    found["dump"] = json.loads(text.replace("torch.float32", "Float32").replace("torch.int64", "Int64"))
    found["dump"]["framework"] = "mindspore"
    return found


def to_repair(dump: Dump) -> Dump:
    """Return a dump with backward calls without parent or with a wrong one, and a caller that is not listed."""
    found = copy.deepcopy(dump)
    for entry in found["construct"]:
        if (entry.endswith(".backward.0") and "fc1" in entry) or (
            "layer_norm" in entry and entry.endswith(".backward")
        ):
            found["construct"][entry] = None
        if entry.startswith("Module.layers.1.fc2.Linear.backward"):
            found["construct"][entry] = "Module.layers.1.norm.LayerNorm.backward.0"
    found["construct"]["Functional.extra.0.forward"] = "Module.ghost.Ghost.forward.0"
    return found


def with_recompute(dump: Dump) -> Dump:
    """Return a dump whose backward pass runs two modules again."""
    found = copy.deepcopy(dump)
    found["stack"] = stacks_by_entry(found)
    frames = ["File /opt/py/site-packages/torch/utils/checkpoint.py, line 1, in recompute_fn, \n fn(*args)"]
    for layer in (0, 1):
        name = f"Module.module.layers.{layer}.norm.deep.LayerNorm"
        found["construct"][f"{name}.forward.0"] = f"Module.layers.{layer}.Block.forward.0"
        found["construct"] |= {f"{name}.forward.1": None, f"{name}.backward.1": None}
        found["stack"][f"{name}.forward.1"] = frames
    return found


def without_values(dump: Dump) -> Dump:
    return {**dump, "dump": {**dump["dump"], "data": {}, "task": "structure"}}


def of_rank(dump: Dump, rank: int) -> Dump:
    """Return a dump of one of three ranks, with every kind of communication."""
    figures = {"Max": 1.0, "Min": 0.0, "Mean": 0.5, "Norm": 1.0, "requires_grad": False}
    tensor = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], **figures}
    world = {"type": "torch.ProcessGroup", "group_ranks": [0, 1, 2], "group_id": "aa"}
    pair = {"type": "torch.ProcessGroup", "group_ranks": [0, 1], "group_id": "bb"}
    ends = (("isend", (rank + 1) % 3), ("irecv", (rank - 1) % 3))
    facts = {"class_type": "torch.distributed.P2POp", "tag": 0, "group_id": "aa", "tensor": tensor}
    operations = [{**facts, "op": op, "peer": peer} for op, peer in ends]
    calls: dict[str, tuple[list[Any], dict[str, Any]]] = {
        "all_reduce.0": ([tensor], {"group": world}),
        "broadcast.0": ([tensor, number(1)], {"group": world}),
        **({"send.0": ([tensor], {"dst": number(1)})} if rank == 0 else {}),
        **({"recv.0": ([tensor], {"src": number(0)}), "isend.0": ([tensor], {"dst": number(2)})} if rank == 1 else {}),
        **({"irecv.0": ([tensor], {"src": number(1)})} if rank == 2 else {}),
        "all_reduce.1": ([tensor], {"group": world}),
        **({"reduce.0": ([tensor, number(0)], {"group": pair})} if rank < 2 else {}),
        "gather.0": ([tensor], {"dst": number(2), "group": world}),
        "all_reduce.2": ([tensor], {}),
        "batch_isend_irecv.0": ([operations], {}),
    }
    found = copy.deepcopy(dump)
    for name, (arguments, keywords) in calls.items():
        output = [operations] if "batch" in name else [tensor]
        entry = {"input_args": arguments, "input_kwargs": keywords, "output": output}
        found["dump"]["data"][f"Distributed.{name}.forward"] = entry
        found["construct"][f"Distributed.{name}.forward"] = "Module.layers.1.Block.forward.0"
    return found


def number(value: int) -> dict[str, Any]:
    return {"type": "int", "value": value}


def cases() -> dict[str, tuple[Dump, Dump | None]]:
    """Return target and golden of each case of one rank that is made of the small net."""
    base, slope, ren = (load(DATA / "visualization" / "inputs" / name) for name in ("st_base", "st_slope", "st_ren"))
    structure = without_values(base)
    return {
        "nan_oc": (with_nan(base), base),
        "inf_oc": (with_infinity(base), base),
        "inf_build_oc": (with_infinity(base), None),
        "slope_fuzzy": (slope, base),
        **dict.fromkeys(("ren_map", "ren_nomap", "ren_fuzzy"), (ren, base)),
        **dict.fromkeys(("extra", "extra_fuzzy"), (with_extra_call(base), base)),
        "toplevel": (with_calls_at_top(base, 3), base),
        "toplevel_fuzzy": (with_calls_at_top(base, 3), with_calls_at_top(base, 2)),
        "toplevel_one": (with_calls_at_top(slope, 3), with_calls_at_top(base, 2)),
        "micro": (twice(base), None),
        "micro_cmp": (twice(slope), twice(base)),
        "micro_uneven": (twice(slope), base),
        "micro_uneven2": (base, twice(slope)),
        "megatron": (with_recorded_steps(base), None),
        "megatron_cmp": (with_recorded_steps(slope), with_recorded_steps(base)),
        "ms": (of_mindspore(slope), of_mindspore(base)),
        "ms_build": (of_mindspore(base), None),
        "ms_pt_map": (of_mindspore(slope), base),
        "repairs": (to_repair(base), None),
        "repairs_cmp": (to_repair(base), base),
        "recompute": (with_recompute(base), None),
        "recompute_cmp": (with_recompute(base), base),
        "structure": (structure, structure),
        "structure_build": (structure, None),
    }


def main(folder: Path) -> None:
    """Write all cases below a folder."""
    for name, sides in cases().items():
        for side, dump in zip("tg", sides, strict=True):
            if dump is not None:
                save(dump, folder / name / side)
    for side, source in (("t", "st_slope"), ("g", "st_base")):
        for rank in range(3):
            save(
                of_rank(load(DATA / "visualization" / "inputs" / source), rank), folder / "links" / side / f"rank{rank}"
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
