"""The dumps of the benchmark of pre-checks, and how it finds the interpreter of the peer."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.prechecks import CALLS, COPIES, TINY, interpreter, write_equal, write_net
from probe_flow.precheck.jobs import find_calls
from probe_flow.stages.base import Select
from probe_flow.stages.dump.adopt_any import adopt_any


def test_each_call_of_the_dump_is_checked_forward_and_backward(tmp_path: Path) -> None:
    found = find_calls(adopt_any(str(write_net(tmp_path, COPIES)), Select(), side="source"))
    assert len(found.entries) == COPIES * len(CALLS) == 70
    assert not found.refused
    assert {tuple(phases) for phases in found.nodes.values()} == {("forward", "backward")}


def test_equal_calls_differ_by_their_number_alone(tmp_path: Path) -> None:
    found = find_calls(adopt_any(str(write_equal(tmp_path, 3, TINY)), Select(), side="source"))
    assert list(found.entries) == ["Torch.add.0", "Torch.add.1", "Torch.add.2"]
    assert len(set(found.entries.values())) == 1


def test_the_interpreter_is_that_of_the_script_or_of_the_one_that_it_hands_over_to(tmp_path: Path) -> None:
    script, wrapper, other = tmp_path / "msprobe", tmp_path / "wrapper", tmp_path / "other"
    script.write_text(f"#!{sys.executable}\nimport re\n")
    wrapper.write_text(f'#!/usr/bin/env bash\nexport A=b\nexec "{script}" "$@"\n')
    other.write_text("#!/usr/bin/env bash\necho nothing\n")
    for path in (script, wrapper, other):
        path.chmod(0o755)
    assert interpreter((str(script),)) == interpreter((str(wrapper),)) == sys.executable
    assert interpreter((str(other),)) is None
    assert interpreter(()) is None
