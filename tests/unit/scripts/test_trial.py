"""Scripts are tried below one process: what each may do to itself, and what is said of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from probe_flow.scripts.trials.trial import Limits, try_scripts

GOOD = """
import json, sys
assert __name__ == "__main__"
with open(sys.argv[sys.argv.index("--json") + 1], "w") as file:
    json.dump({"status": "reproduced", "relative_error": 0.5, "why": "told"}, file)
print("this goes nowhere")
sys.exit(1)
"""


def script(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.py"
    path.write_text(text)
    return path


def tried(*scripts: Path, modules: tuple[str, ...] = (), seconds: float = 60.0, memory: int = 0) -> list[dict]:
    return try_scripts(list(scripts), modules, python=sys.executable, limits=Limits(seconds, memory))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "it ended its process with SIGSEGV"),
        ("import os\nos._exit(1)", "it wrote no result"),
        ("raise ValueError('as it is')", "ValueError: as it is"),
        ("import sys\nsys.exit('said at the end')", "it wrote no result"),
        ("this is no Python", "SyntaxError: invalid syntax"),
    ],
)
def test_a_script_that_breaks_takes_no_other_along(tmp_path, text, why):
    first, bad, last = (script(tmp_path, name, each) for name, each in (("a", GOOD), ("repro_b", text), ("c", GOOD)))
    found = tried(first, bad, last)
    assert [each["status"] for each in found] == ["reproduced", "undecided", "reproduced"]
    assert found[1]["why"] == why
    assert json.loads((tmp_path / "repro_b.json").read_text()) == {"entry": "b", **found[1]}


def test_a_script_that_hangs_is_ended(tmp_path):
    hangs = script(tmp_path, "hangs", "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nsignal.pause()")
    found = tried(hangs, script(tmp_path, "good", GOOD), seconds=1.0)
    assert [(each["status"], each["why"]) for each in found] == [
        ("undecided", "it took more than 1 s"),
        ("reproduced", "told"),
    ]


def test_a_script_that_wants_too_much_memory_is_told_why(tmp_path):
    greedy = script(tmp_path, "greedy", "bytearray(100 * 2**30)")
    (found,) = tried(greedy, memory=2**30)
    assert (found["status"], found["why"]) == ("undecided", "MemoryError")


def test_a_hundred_scripts_share_one_import(tmp_path, monkeypatch):
    log = tmp_path / "imports"
    script(
        tmp_path, "slow_framework", f"import os\nopen({str(log)!r}, 'a').write(f'{{os.getpid()}}\\n')\nprint('noise')"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    text = f"import slow_framework\n{GOOD}"
    found = tried(*(script(tmp_path, f"s{number}", text) for number in range(100)), modules=("slow_framework",))
    assert [each["status"] for each in found] == ["reproduced"] * 100
    assert len(log.read_text().splitlines()) == 1


def test_neighbours_of_our_own_are_not_imported_by_chance(tmp_path):
    text = f"import sys\nassert not any(path.endswith('scripts') for path in sys.path), sys.path\n{GOOD}"
    assert tried(script(tmp_path, "a", text))[0]["status"] == "reproduced"


def test_without_the_framework_nothing_runs_and_the_reason_is_told(tmp_path):
    good = script(tmp_path, "repro_good", GOOD)
    (tmp_path / "repro_good.json").write_text('{"status": "reproduced"}')  # of an earlier try
    (found,) = tried(good, modules=("no_such_framework",))
    assert (found["status"], found["versions"]) == ("not_run", {})
    assert found["why"] == (
        f"{sys.executable} does not import `no_such_framework`: ModuleNotFoundError: No module named "
        "'no_such_framework'"
    )
    assert json.loads((tmp_path / "repro_good.json").read_text())["status"] == "not_run"


@pytest.mark.parametrize(
    ("python", "why"),
    [
        ("/no/such/python", "`/no/such/python` cannot be run: No such file or directory"),
        ("/bin/false", "the process that tries scripts ended"),
        ("/bin/true", "the process that tries scripts ended"),
    ],
)
def test_an_interpreter_that_is_none_runs_nothing(tmp_path, python, why):
    (found,) = try_scripts([script(tmp_path, "a", GOOD)], (), python=python, limits=Limits())
    assert (found["status"], found["why"]) == ("not_run", why)


def test_a_framework_that_ends_the_process_is_told(tmp_path, monkeypatch):
    script(
        tmp_path,
        "broken_framework",
        "import os, sys\nsys.stderr.write('no such processor\\n')\nsys.stderr.flush()\nos._exit(2)",
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (found,) = tried(script(tmp_path, "a", GOOD), modules=("broken_framework",))
    assert (found["status"], found["why"]) == ("not_run", "the process that tries scripts ended: no such processor")
