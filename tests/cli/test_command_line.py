"""The command line as a whole: its help, what it says to words that it does not know, options that all spell alike."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

from probe_flow.cli.elsewhere import MODES, VERBS
from probe_flow.cli.main import COMMANDS, GROUPS, MORE_GROUPS, group


def test_the_help_fits_a_screen_and_begins_with_an_example(probe_flow, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = probe_flow("--help").out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert lines[0] == "Usage: probe-flow [OPTIONS] COMMAND [ARGS]..."
    examples = [line.split()[1] for line in lines if line.startswith("  probe-flow ")]
    assert examples
    assert set(examples) <= set(COMMANDS)


def test_every_command_stands_in_one_group_of_the_help(probe_flow):
    listed = [name for names in (*GROUPS.values(), *MORE_GROUPS.values()) for name in names]
    assert sorted(listed) == sorted(COMMANDS)
    words = probe_flow("--help").out.replace(",", " ").split()
    assert set(COMMANDS) <= set(words)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_fits_a_screen_and_names_every_option(probe_flow, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "80")
    lines = probe_flow(name, "--help").out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    command = import_module(COMMANDS[name][0]).command
    words = " ".join(lines).replace(",", " ").split()
    shown = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    assert [each.opts for each in shown if not {*each.opts, *each.secondary_opts} & set(words)] == []


def test_all_of_a_long_help_is_told_on_request(probe_flow, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert "Offline models: also show which overflow." not in probe_flow("compare", "--help").out
    assert "`probe-flow compare --help-all` tells" in " ".join(probe_flow("compare", "--help").out.split())
    told = probe_flow("compare", "--help-all")
    assert told.code == 0
    assert "Offline models: also show which overflow." in told.out
    assert "--help-all" not in told.out
    assert probe_flow("version", "--help-all").out == probe_flow("version", "--help").out


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (("start", "", "golden"), "the word after `start`"),
        (("compare", "-tp", "npu", "-gp", ""), "the word after `npu -gp`"),
        (("",), "the first word"),
    ],
)
def test_an_empty_word_is_no_path(probe_flow, words, where):
    done = probe_flow(*words)
    assert done.code == 2
    assert f"{where} is empty; where a variable gives it, is that set?" in done.err


@pytest.mark.parametrize("command", ["run", "validate", "plan"])
def test_a_workflow_that_is_not_there_may_be_a_packaged_one(probe_flow, tmp_path, command):
    for name in ("torchair_ge_vs_fx", "torchair_ge_vs_fx.yaml"):
        done = probe_flow(command, name)
        assert (done.code, "PF1008" in done.err) == (2, True)
        assert "help: `template:torchair_ge_vs_fx` is the packaged workflow of that name" in done.err
    (tmp_path / "mine.yaml").write_text("")
    assert f"help: did you mean `mine.yaml`? (in `{tmp_path}`)" in probe_flow(command, "mien.yaml").err


@pytest.mark.parametrize("command", ["compare", "merge_result"])
def test_the_framework_behind_the_command_is_told_where_it_stands(probe_flow, command):
    done = probe_flow(command, "-f", "pytorch")
    assert done.code == 2
    assert f"`-f FRAMEWORK` stands before `{command}`, as in `probe-flow -f " in done.err
    other = probe_flow(command, "-x", "pytorch").err
    assert "No such option" in other
    assert "FRAMEWORK" not in other


@pytest.mark.parametrize("name", ["mine.yaml", "sub/mine.yml"])
def test_a_copy_of_a_workflow_goes_into_a_folder(probe_flow, tmp_path, name):
    done = probe_flow("init", "pytorch_compare", "-o", name)
    assert (done.code, list(tmp_path.iterdir())) == (2, [])
    assert f"`--output` names a folder, and `{name}` looks like a file" in done.err
    (tmp_path / "odd.yaml").mkdir()
    assert probe_flow("init", "pytorch_compare", "-o", "odd.yaml").code == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("command", ["--help", "templates"])
def test_a_full_disk_behind_the_output_is_no_defect(command):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "probe_flow", command], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 3
    assert done.stderr.startswith("error[PF6011]: the output cannot be written: No space left on device")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("typed", "meant"), [("shwo", "show"), ("acc-check", "acc_check"), ("suggest_mapping", "suggest-mapping")]
)
def test_a_mistyped_command_gets_a_suggestion(probe_flow, typed, meant):
    done = probe_flow(typed, "x")
    assert done.code == 2
    assert f"there is no command `{typed}`; did you mean" in done.err
    assert f"`{meant}`" in done.err


def test_a_word_that_is_like_nothing_is_told_where_the_commands_are(probe_flow):
    assert "`probe-flow --help` lists them" in probe_flow("zzzzzz").err


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_of_msprobe_says_what_does_its_job_here(probe_flow, verb):
    done = probe_flow(verb, "-i", "x")
    assert done.code == 2
    assert f"error[PF2120]: `{verb}` (" in done.err
    assert verb not in COMMANDS
    named = VERBS[verb].instead.split("`probe-flow ")[1:]
    assert all(text.split()[0].rstrip("`,;") in COMMANDS for text in named)


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_of_msprobe_says_what_does_its_job_here(probe_flow, tmp_path, mode):
    for side in ("a", "b"):
        (tmp_path / side).mkdir()
    done = probe_flow("compare", "-tp", "a", "-gp", "b", "-m", mode)
    assert done.code == 2
    assert f"error[PF2120]: `-m {mode}` (" in done.err
    assert "help: " in done.err


def commands(command: click.Command, name: str):
    if isinstance(command, click.Group) and command is not group:
        for inner, found in command.commands.items():
            yield from commands(found, f"{name} {inner}")
    elif command is group:
        for inner in COMMANDS:
            found = group.get_command(click.Context(group), inner)
            assert found is not None
            yield from commands(found, inner)
    else:
        yield name, command


def test_where_results_go_is_spelled_alike_everywhere():
    context = click.Context(group)
    for name, command in commands(group, ""):
        spelled = [set(option.opts) for option in command.get_params(context) if isinstance(option, click.Option)]
        outputs = [options for options in spelled if options & {"-o", "--output", "--output_path", "--out_path"}]
        assert all({"-o", "--output"} <= options for options in outputs), name
