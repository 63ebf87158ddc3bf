"""Which entries are recorded: by scope, by texts, by what an API does."""

from __future__ import annotations

from typing import Any

from probe_flow.dumpers.dump_json.callers import CallTree
from probe_flow.dumpers.dump_json.options import checked_options
from probe_flow.dumpers.dump_json.selection import Selection


def selection(**options: Any) -> Selection:
    return Selection(checked_options(options), {"view", "to"})


def test_calls_that_change_a_shape_are_left_out_unless_asked_for() -> None:
    plain, asked = selection(), selection(include=["view"])
    names = ["Tensor.view.0.forward", "Tensor.add.0.forward", "Module.a.View.forward.0"]
    assert [plain.takes(name) for name in names] == [False, True, True]
    assert [asked.takes(name) for name in names] == [True, False, False]


def test_a_scope_of_calls_holds_both_ends() -> None:
    found = selection(level="L1", scope=["Torch.b.0.forward", "Torch.d.0.forward"])
    names = [f"Torch.{letter}.0.forward" for letter in "abcde"]
    assert [found.takes(name) for name in names for _ in range(1)] == [False, True, True, True, False]


def test_a_scope_of_modules_begins_and_ends_with_them() -> None:
    found = selection(level="L0", scope=["Module.b.B.forward.0", "Module.c.C.forward.0"])
    taken = {}
    for name in ("Module.a.A.forward.0", "Module.b.B.forward.0", "Module.c.C.forward.0", "Module.d.D.forward.0"):
        found.begin_module(name)
        taken[name] = found.takes(name)
        found.end_module(name)
    assert list(taken.values()) == [False, True, True, False]


def test_at_level_mix_a_module_takes_what_runs_in_it() -> None:
    mix, calls = selection(level="mix", include=["attn"]), selection(level="L1", include=["attn"])
    for each in (mix, calls):
        each.begin_module("Module.attn.Attention.forward.0")
    assert mix.takes("Torch.softmax.0.forward")
    assert not calls.takes("Torch.softmax.0.forward")
    mix.end_module("Module.attn.Attention.forward.0")
    assert not mix.takes("Torch.softmax.1.forward")
    assert mix.takes_gradient_of("Module.attn.Attention")
    assert not mix.takes_gradient_of("Module.mlp.Dense")


def test_callers_of_modules() -> None:
    tree = CallTree()
    tree.begin("Module.a.A.forward.0")
    assert tree.current() == "Module.a.A.forward.0"
    tree.begin("Module.a.b.B.forward.0")
    tree.begin("Module.a.b.c.C.forward.0")
    tree.end("Module.a.b.B.forward.0")
    assert tree.current() == "Module.a.A.forward.0", "what is in a module ends with it"
    tree.end("Module.a.A.forward.0")
    assert tree.current() is None
    assert _told(tree) == {
        "Module.a.A.forward.0": None,
        "Module.a.b.B.forward.0": "Module.a.A.forward.0",
        "Module.a.b.c.C.forward.0": "Module.a.b.B.forward.0",
    }
    tree.begin("Module.d.D.forward.0")
    assert _told(tree) == {"Module.d.D.forward.0": None}, "each is told once"


def _told(tree: CallTree) -> dict[str, str | None]:
    parents: dict[str, str | None] = {}
    tree.tell(parents)
    return parents


def test_a_module_of_another_thread_belongs_to_the_open_module_above_it() -> None:
    import threading

    tree = CallTree()
    tree.begin("Module.a.A.backward.0")
    thread = threading.Thread(target=tree.begin, args=("Module.a.b.B.backward.0",))
    thread.start()
    thread.join(60)
    assert _told(tree)["Module.a.b.B.backward.0"] == "Module.a.A.backward.0"
