"""doctor and completion, and what the commands have in common: formats, colours, quiet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import fake_stages
import pytest
from fake_stages import write_project

from probe_flow.cli.main import COMMANDS, group
from probe_flow.engine.environment import EXTRAS, Check, State
from probe_flow.errors import Diagnostic, IncompleteError


def test_doctor_shows_facts_by_section_and_exits_with_0(probe_flow):
    done = probe_flow("doctor")
    assert done.code == 0
    assert done.last_line == "Everything needed is there."
    sections = [line for line in done.out.splitlines() if line and not line.startswith(" ")]
    assert sections[:3] == ["program", "libraries", "machine"]


def test_doctor_speaks_json(probe_flow):
    found = probe_flow("doctor", "--format", "json").json
    assert found["healthy"] is True
    assert {"section", "name", "state", "value", "note"} == set(found["checks"][0])


def test_doctor_says_what_each_extra_adds():
    text = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    section = text.partition("[project.optional-dependencies]\n")[2].partition("\n[")[0]
    extras = {line.partition(" = [")[0] for line in section.splitlines() if " = [" in line and line[0].isalpha()}
    assert EXTRAS.keys() == extras - {"all", "dev"}


def test_doctor_exits_with_3_when_something_needed_is_broken(probe_flow, monkeypatch):
    broken = [
        Check("libraries", "h5py", State.BROKEN, "3.16.0", "does not load: install it again"),
        Check("machine", "CPUs", State.OK, "2"),
    ]
    monkeypatch.setattr("probe_flow.engine.environment.examine", lambda _environ, _cwd: broken)
    done = probe_flow("doctor", "--quiet")
    assert done.code == 3
    assert done.out == (
        "libraries\n  broken  h5py  3.16.0: does not load: install it again\n\n"
        "Something that every command needs is broken.\n"
    )
    assert probe_flow("doctor", "--format", "json").json["healthy"] is False


def test_doctor_compiles_first_when_asked_to(probe_flow, monkeypatch):
    done = []
    monkeypatch.setattr("probe_flow.metrics.backends.warm_up.compile_now", lambda tell: done.append(tell(0, 42)))
    found = probe_flow("doctor", "--warm-up", "--format", "json")
    assert (found.code, found.err, found.json["healthy"]) == (0, "", True)
    assert len(done) == 1


def test_doctor_ends_where_compiling_fails(probe_flow, monkeypatch):
    def fail(_tell):
        raise IncompleteError(Diagnostic("PF5120", "machine code cannot be compiled ahead: the disk is full"))

    monkeypatch.setattr("probe_flow.metrics.backends.warm_up.compile_now", fail)
    found = probe_flow("doctor", "--warm-up")
    assert (found.code, found.out) == (3, "")
    assert "error[PF5120]: machine code cannot be compiled ahead: the disk is full" in found.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(probe_flow, shell):
    done = probe_flow("completion", shell)
    assert done.code == 0
    assert f"_PROBE_FLOW_COMPLETE={shell}_complete" in done.out


def complete(*words: str, number: int) -> list[str]:
    """Ask the program as the bash script does."""
    asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(number), "_PROBE_FLOW_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from probe_flow.cli.main import main; main(sys.argv[1:])"],
        env={**os.environ, **asked}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_completion_knows_commands_options_and_choices():
    assert complete("probe-flow", "sho", number=1) == ["show"]
    assert complete("probe-flow", "--deb", number=1) == ["--debug"]
    assert "--verdict" in complete("probe-flow", "show", "x", "--ver", number=3)
    assert complete("probe-flow", "show", "x", "--role", "in", number=4) == ["inherited"]


def test_completing_a_command_loads_none(monkeypatch):
    monkeypatch.setattr("probe_flow.cli.main.import_module", lambda name: pytest.fail(f"{name} is loaded"))
    items = group.shell_complete(group.make_context("probe-flow", [], resilient_parsing=True), "")
    assert [item.value for item in items] == list(COMMANDS)


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="no bash")
def test_the_script_is_one_that_bash_takes(probe_flow):
    script = probe_flow("completion", "bash").out
    done = subprocess.run(["/bin/bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_run_prints_annotations_before_its_summary_when_asked(probe_flow, tmp_path, monkeypatch):
    monkeypatch.setattr("probe_flow.workflow.loading.loader.STAGES", fake_stages.STAGES)
    write_project(tmp_path, target="1 2 4")
    plain = probe_flow("run", "demo.yaml", "--output", "out", "--quiet")
    assert "::" not in plain.out
    noted = probe_flow("run", "demo.yaml", "--output", "out", "--quiet", "--annotations", "github")
    verdict, *others = noted.out.splitlines()
    line = plain.last_line.rpartition(" | ")[0]
    dumps = "target fake dump `target.txt`, 3 tensors | golden fake dump `golden.txt`, 3 tensors"
    assert verdict == f"::error title=probe_flow%3A FAIL::{line}%0A{dumps}"
    assert others == [
        "::error title=probe_flow%3A origin::n2 (Fake), output 0, rank 0, graph 1, step 0: differs",
        plain.last_line,
    ]


def test_a_failed_stage_is_annotated_once(probe_flow, tmp_path, monkeypatch):
    monkeypatch.setattr("probe_flow.workflow.loading.loader.STAGES", fake_stages.STAGES)
    write_project(tmp_path, on_result="trouble: incomplete")
    done = probe_flow("run", "demo.yaml", "--output", "out", "--quiet", "--annotations", "github")
    assert done.code == 3
    assert done.out.count("the dump is empty") == 2, "as an annotation, and in the last line"
    assert "::error title=probe_flow%3A PF3999::the dump is empty" in done.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["version"], ["templates"], ["explain"], ["explain", "PF1203"], ["doctor"], ["show", "out"],
        ["plan", "demo.yaml"], ["run", "demo.yaml", "--output", "again"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_json_is_all_that_stdout_gets_and_colours_never_get_in(probe_flow, tmp_path, monkeypatch, arguments):
    monkeypatch.setattr("probe_flow.workflow.loading.loader.STAGES", fake_stages.STAGES)
    write_project(tmp_path)
    probe_flow("run", "demo.yaml", "--output", "out")
    done = probe_flow(*arguments, "--format", "json")
    assert done.code == 0
    assert done.json
    assert "\x1b" not in done.out


def test_every_command_that_prints_results_speaks_json():
    context = group.make_context("probe-flow", [], resilient_parsing=True)
    commands = {name: group.get_command(context, name) for name in COMMANDS}
    flags = {
        name: {flag for each in command.params for flag in each.opts}
        for name, command in commands.items()
        if not isinstance(command, click.Group)
    }
    # `schema` is JSON anyway; the others write files, a script or pages, or speak the syntax of another tool.
    assert {name for name in flags if "--format" not in flags[name]} == {
        *("schema", "init", "completion", "docs", "compare", "merge_result", "suggest-mapping", "reduce", "shell"),
        *("acc_check", "multi_acc_check", "run_overflow_check", "api_precision_compare", "overflow_check"),
        *("graph", "graph_visualize", "code_mapping", "op_generate", "repro", "start", "tf_dump", "offline_dump"),
    }


@pytest.mark.parametrize(
    "arguments", [["show", "out"], ["doctor"], ["run", "demo.yaml", "--output", "again"]], ids=" ".join
)
@pytest.mark.parametrize(("no_color", "is_colored"), [("", True), ("1", False)])
def test_a_terminal_gets_colours_unless_no_color_is_set(
    probe_flow, tmp_path, monkeypatch, arguments, no_color, is_colored
):
    monkeypatch.setattr("probe_flow.workflow.loading.loader.STAGES", fake_stages.STAGES)
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", "xterm")
    write_project(tmp_path)
    probe_flow("run", "demo.yaml", "--output", "out")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert ("\x1b[" in probe_flow(*arguments).out) is is_colored


def test_annotations_and_json_exclude_each_other(probe_flow, tmp_path, monkeypatch):
    monkeypatch.setattr("probe_flow.workflow.loading.loader.STAGES", fake_stages.STAGES)
    write_project(tmp_path)
    done = probe_flow("run", "demo.yaml", "--annotations", "github", "--format", "json")
    assert done.code == 2
    assert "stdout" in done.err
