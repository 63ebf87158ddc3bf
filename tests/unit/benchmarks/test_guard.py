"""The guard of the speed: when it says that a version is slower than an earlier one."""

from __future__ import annotations

import random
import subprocess

import pytest

from benchmarks import guard
from benchmarks.guard import Compared, interval
from benchmarks.timing import Spread


@pytest.mark.parametrize(
    ("count", "first"),
    [
        # The chance that the median lies outside the ends: 2 * sum of C(n, k) below them / 2 ** n.
        (5, 1),  # 2 * 1 / 32 = 0.0625
        (8, 2),  # 2 * (1 + 8) / 256 = 0.070
        (9, 2),  # 2 * (1 + 9) / 512 = 0.039; one further: 0.18
        (13, 4),  # 2 * (1 + 13 + 78 + 286) / 8192 = 0.092
        (3, 1),  # nothing that narrow: all of them
        (1, 1),
    ],
)
def test_the_interval_is_the_narrowest_that_holds_the_median_nine_times_in_ten(count, first):
    values = [float(number) for number in range(1, count + 1)]
    random.Random(1).shuffle(values)
    assert interval(values) == Spread((count + 1) / 2, float(first), float(count + 1 - first))


def test_a_version_falls_short_only_where_all_of_the_interval_is_above_the_limit():
    slower = Compared("A", (1.0, 1.06, 1.07, 1.08, 1.09, 1.1, 1.1, 1.2, 3.0))
    unclear = Compared("A", (1.0, 1.04, 1.07, 1.08, 1.09, 1.1, 1.1, 1.2, 3.0))
    assert (slower.falls_short, unclear.falls_short) == (True, False)
    assert guard.table([slower, unclear]).splitlines() == [
        "command  ratio  90% interval",
        "A        1.090  1.060 to 1.200  falls short: above 1.05",
        "A        1.090  1.040 to 1.200  ok",
    ]


def test_each_version_is_first_in_half_of_the_rounds_and_the_first_round_does_not_count(tmp_path, monkeypatch):
    seen = []
    taken = {guard.ROOT: iter([9.0, 2.0, 3.0]), tmp_path: iter([1.0, 1.0, 2.0])}

    def cpu_of(source, words, scratch):
        seen.append(source)
        return next(taken[source])

    monkeypatch.setattr(guard, "_cpu_of", cpu_of)
    assert guard.compared("A", lambda _: [], tmp_path, tmp_path, 2).ratios == (2.0, 1.5)
    assert seen == [tmp_path, guard.ROOT, guard.ROOT, tmp_path, tmp_path, guard.ROOT]


def test_without_a_release_a_revision_must_be_named(monkeypatch, capsys):
    def no_tag(*_):
        raise subprocess.CalledProcessError(128, "git")

    monkeypatch.setattr(guard, "_git", no_tag)
    with pytest.raises(SystemExit):
        guard.main([])
    assert "there is no tag of a release" in capsys.readouterr().err


def test_a_revision_that_git_does_not_know_is_named(capsys):
    with pytest.raises(SystemExit):
        guard.main(["no-such-revision"])
    assert "git knows no revision `no-such-revision`" in capsys.readouterr().err


def test_the_exit_code_says_whether_any_command_falls_short(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(guard, "_git", lambda *_: "v1")
    monkeypatch.setattr(guard, "commands", lambda _: {"fine": None, "slow": None})
    figures = {"fine": (1.0,) * 9, "slow": (1.3,) * 9}
    monkeypatch.setattr(guard, "compared", lambda name, *_: Compared(name, figures[name]))
    assert guard.main([]) == 1
    figures["slow"] = (1.01,) * 9
    assert guard.main(["v0"]) == 0
    assert "of v1, 9 runs" in capsys.readouterr().out
