"""What counts as a crash, and that inputs which end a process are kept too."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

import fuzz.__main__ as command
from fuzz import bad_targets, limits
from fuzz.limits import Crash, Reader, bounded
from fuzz.target import Target
from fuzz.tree import Odd, Place, Tree, packed, tree_of, unpacked
from probe_flow.errors import Diagnostic, FormatError

SEED: Tree = {"a.txt": b"one two\n", "b/c.txt": b"three\n"}


def ending(read: object) -> bool | Crash:
    target = Target("own", lambda: [SEED], read)  # type: ignore[arg-type]
    with bounded(), Reader(target) as reader:
        return reader.read(SEED)


def refuse(_: Path) -> None:
    raise FormatError(Diagnostic("PF3010", "`a.txt` holds nothing", path="a.txt"))


def say_something_unknown(_: Path) -> None:
    raise FormatError(Diagnostic("PF3009", "no such code"))


def fail(folder: Path) -> None:
    {}[folder.name]


def take_memory(_: Path) -> None:
    bytearray(2 * limits.MAX_BYTES)


def take_time(_: Path) -> None:
    while True:
        pass


def wait_for_nothing(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "pipe").read_bytes()


def test_an_input_is_accepted_or_refused():
    assert ending(lambda folder: (folder / "b" / "c.txt").read_bytes()) is True
    assert ending(refuse) is False


@pytest.mark.parametrize(
    ("read", "kind"),
    [(fail, "KeyError"), (take_memory, "MemoryError"), (say_something_unknown, "AssertionError"),
     (take_time, "TooSlowError"), (wait_for_nothing, "TooSlowError")],
)  # fmt: skip
def test_all_else_is_a_crash(read: object, kind: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "MAX_S", 0.2)
    monkeypatch.setattr(limits, "MAX_WAIT_S", 1.0 if read is wait_for_nothing else 60.0)
    found = ending(read)
    assert isinstance(found, Crash)
    assert found.kind.startswith(kind)


def test_afterwards_the_alarm_of_others_goes_on():
    ours = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    ending(lambda _: time.sleep(0.01))
    assert signal.getsignal(signal.SIGALRM) == ours[0]
    assert (signal.getitimer(signal.ITIMER_REAL)[0] > 0) == (ours[1][0] > 0)


def test_what_a_crash_does_without_is_left_out():
    def read(folder: Path) -> None:
        if (folder / "b" / "c.txt").is_file():
            fail(folder)

    with bounded(), Reader(Target("own", lambda: [SEED], read)) as reader:
        found = reader.read(SEED)
        assert isinstance(found, Crash)
        assert reader.smaller(SEED, found.kind) == {"b/c.txt": b"three\n"}


def test_a_place_holds_one_tree_after_another(tmp_path: Path):
    place = Place(tmp_path / "place")
    place.put(SEED)
    place.put({"a.txt": b"", "b": Odd.LOOP, "d/e": Odd.FOLDER, "f": Odd.PIPE})
    assert sorted(path.name for path in place.folder.rglob("*")) == ["a.txt", "b", "d", "e", "f"]
    place.put(SEED)
    assert tree_of(place.folder) == SEED


def test_a_kept_input_is_the_input():
    tree: Tree = {**SEED, "odd": Odd.OUTSIDE}
    assert unpacked(packed(tree)) == tree


def test_the_command_keeps_what_crashes_and_what_ends_its_process(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setattr(command, "REGRESSIONS", tmp_path)
    monkeypatch.setattr(command, "TARGETS", bad_targets.TARGETS)
    paths = os.pathsep.join([*sys.path, *map(str, Path(command.__file__).parents[1:3])])
    settings = {"FUZZ_TARGETS": "fuzz.bad_targets", "FUZZ_SECONDS": "1", "FUZZ_FROM": "70", "PYTHONPATH": paths}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert command.main([]) == 1
    said = capsys.readouterr().out
    assert "KeyError in" in said
    assert "the process ended with -9" in said
    kept = {path.parent.name: unpacked(path.read_bytes()) for path in tmp_path.rglob("*.zip")}
    assert kept == {name: target.input(70) for name, target in bad_targets.TARGETS.items()}
    assert [line.split()[0] for line in said.splitlines()[-4:]] == ["target", "crashes", "ends", "all"]
