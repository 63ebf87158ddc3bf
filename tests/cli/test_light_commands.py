"""validate, templates, init, schema, explain, version, and how the group turns errors into exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest
from corpus_cases import CORPUS
from packages_on_path import Site

from probe_flow.cli import main as cli
from probe_flow.cli.terminal.console import wants_color
from probe_flow.errors import CODES, Diagnostic, IncompleteError

INVALID = CORPUS / "invalid"
VALID = CORPUS / "valid"


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CORPUS)


def test_help_lists_every_command_without_loading_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert set(cli.COMMANDS) <= set(out.replace(",", " ").split())


def test_summaries_in_the_table_are_true_of_the_commands() -> None:
    for name, (module, summary) in cli.COMMANDS.items():
        command = import_module(module).command
        assert isinstance(command, click.Command)
        assert command.name == name
        assert command.help
        assert summary.endswith(".")


@pytest.mark.parametrize("arguments", [["nope"], ["validate"], ["validate", "--nope"], ["explain", "PF0000"], []])
def test_usage_errors_exit_with_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 2
    assert "Usage" in capsys.readouterr().err


def test_validate_accepts_several_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["validate", "valid/minimal.yaml", "valid/matrix.yaml"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "valid/minimal.yaml: ok, 5 stages\nvalid/matrix.yaml: ok, 9 stages\n"
    assert captured.err == ""


def test_a_command_loads_no_plugin_of_pydantic(site: Site) -> None:
    site.install("loud_plugin", "pydantic", "loud = loud_plugin:PLUGIN", "raise SystemExit('here I am')")
    path = os.pathsep.join([str(site.root), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-m", "probe_flow", "validate", "valid/minimal.yaml"],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert (done.returncode, done.stderr, site.imported) == (0, "", set())


def test_validate_shows_mistakes_on_stderr_and_exits_with_two(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["validate", "valid/minimal.yaml", "invalid/unknown_stage.yaml"]) == 2
    captured = capsys.readouterr()
    assert captured.out.endswith("invalid/unknown_stage.yaml: 1 mistake\n")
    expected = (INVALID / "unknown_stage.expected.txt").read_text(encoding="utf-8")
    assert captured.err == expected.replace("unknown_stage.yaml", "invalid/unknown_stage.yaml")


def test_validate_passes_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["validate", "invalid/unset_parameter.yaml", "--set", "golden=fx"]) == 0
    assert cli.main(["validate", "invalid/unset_parameter.yaml", "--set", "goldn=fx"]) == 2
    assert "--set goldn=fx" in capsys.readouterr().err


def test_a_parameter_to_be_set_when_the_file_runs_is_no_mistake_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["validate", "invalid/unset_parameter.yaml"]) == 0
    assert capsys.readouterr().out == "invalid/unset_parameter.yaml: ok; running it needs --set golden=...\n"
    assert cli.main(["validate", "invalid/unset_parameter.yaml", "--format", "json"]) == 0
    assert capsys.readouterr().out == ""
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(
        Path("invalid/unset_parameter.yaml").read_text(encoding="utf-8") + "nonsense: 1\n", encoding="utf-8"
    )
    assert cli.main(["validate", str(wrong)]) == 2
    shown = capsys.readouterr()
    assert "1 mistake" in shown.out
    assert "PF1302" not in shown.err


@pytest.mark.parametrize("sets", [["golden"], ["=x"], ["a=1", "a=2"]])
def test_malformed_sets_are_usage_errors(sets: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["validate", "valid/minimal.yaml", *(part for each in sets for part in ("--set", each))]
    assert cli.main(arguments) == 2
    assert "--set" in capsys.readouterr().err


def test_validate_as_json_prints_one_object_a_line_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["validate", "--format", "json", "invalid/many_mistakes.yaml", "valid/minimal.yaml"]) == 2
    captured = capsys.readouterr()
    forms = [json.loads(line) for line in captured.out.splitlines()]
    assert captured.err == ""
    assert [form["code"] for form in forms] == ["PF1203", "PF1204", "PF2002", "PF1203", "PF1202", "PF2004", "PF2003"]
    assert forms[2] == {
        "code": "PF2002",
        "severity": "error",
        "message": "there is no stage type `dump.torchair_g`",
        "file": "invalid/many_mistakes.yaml",
        "line": 6,
        "column": 18,
        "end_line": 6,
        "end_column": 33,
        "path": None,
        "help": forms[2]["help"],
        "notes": [],
        "stage": "target",
        "tensor": None,
    }


def test_warnings_alone_exit_with_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["validate", "valid/unused_parameter.yaml"]) == 0
    assert "warning[PF1310]" in capsys.readouterr().err


def test_a_missing_file_exits_with_two(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["validate", "none.yaml"]) == 2
    assert "error[PF1008]: workflow file `none.yaml` cannot be read" in capsys.readouterr().err


def test_explain_prints_a_code_and_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "pf1203"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("PF1203: Unknown key\n")
    assert "Cure: " in page
    assert cli.main(["explain"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == sorted(CODES)


def test_templates_lists_names_and_descriptions(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["templates"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(
        line.split(maxsplit=1)[0] == "torchair_ge_vs_fx" and "Compare a TorchAir GE dump" in line for line in lines
    )


@pytest.mark.parametrize("name", ["torchair_ge_vs_fx", "torchair-ge-vs-fx"])
def test_init_copies_a_workflow_that_validates(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["init", name, "--output", str(tmp_path)]) == 0
    assert "--set target=DIR --set golden=DIR" in capsys.readouterr().out
    assert cli.main(["validate", str(tmp_path / "torchair_ge_vs_fx.yaml")]) == 0
    assert cli.main(["init", name, "--output", str(tmp_path)]) == 2
    assert "--force" in capsys.readouterr().err
    assert cli.main(["init", name, "--output", str(tmp_path), "--force"]) == 0


def test_init_takes_the_name_by_which_run_and_extends_know_a_template(tmp_path: Path) -> None:
    for name, folder in (("pytorch_compare", "one"), ("template:pytorch_compare", "other")):
        assert cli.main(["init", name, "--output", str(tmp_path / folder)]) == 0
    one, other = ((tmp_path / folder / "pytorch_compare.yaml").read_bytes() for folder in ("one", "other"))
    assert one == other


def test_init_with_sample_copies_data_whose_paths_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["init", "torchair_ge_vs_fx", "-o", str(tmp_path), "--with-sample"]) == 0
    assert f"next: probe-flow run {tmp_path / 'torchair_ge_vs_fx.yaml'}\n" in capsys.readouterr().out
    assert (tmp_path / "sample" / "torchair" / "faulty" / "msprobe_ge_dump").is_dir()
    assert (tmp_path / "sample" / "torchair" / "faulty" / "msprobe_fx_dump").is_dir()


@pytest.mark.parametrize("mine", ["old", None], ids=["a link to a file", "a link to nothing"])
def test_init_replaces_a_link_and_not_what_it_leads_to(
    mine: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere, output = tmp_path / "elsewhere.yaml", tmp_path / "here"
    output.mkdir()
    if mine is not None:
        elsewhere.write_text(mine)
    (output / "torchair_ge_vs_fx.yaml").symlink_to(elsewhere)
    assert cli.main(["init", "torchair_ge_vs_fx", "-o", str(output)]) == 2
    assert "--force" in capsys.readouterr().err
    assert cli.main(["init", "torchair_ge_vs_fx", "-o", str(output), "--force"]) == 0
    assert not (output / "torchair_ge_vs_fx.yaml").is_symlink()
    assert (elsewhere.read_text() if elsewhere.exists() else None) == mine


@pytest.mark.parametrize("link", ["sample", "sample/torchair", "sample/torchair/faulty/msprobe_ge_dump"])
def test_init_copies_no_sample_through_a_link(link: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere, output = tmp_path / "elsewhere", tmp_path / "here"
    elsewhere.mkdir()
    (output / link).parent.mkdir(parents=True)
    (output / link).symlink_to(elsewhere)
    assert cli.main(["init", "torchair_ge_vs_fx", "-o", str(output), "--with-sample", "--force"]) == 2
    assert f"`{output / link}` is a link" in capsys.readouterr().err
    assert list(elsewhere.iterdir()) == []
    assert list(output.iterdir()) == [output / "sample"]


def test_init_replaces_links_among_the_samples(tmp_path: Path) -> None:
    arguments = ["init", "torchair_ge_vs_fx", "-o", str(tmp_path / "here"), "--with-sample", "--force"]
    assert cli.main(arguments) == 0
    mine = tmp_path / "mine"
    mine.write_text("mine")
    file = next(path for path in (tmp_path / "here" / "sample").rglob("*") if path.is_file())
    copied = file.read_bytes()
    file.unlink()
    file.symlink_to(mine)
    assert cli.main(arguments) == 0
    assert (mine.read_text(), file.read_bytes(), file.is_symlink()) == ("mine", copied, False)


def test_init_tells_where_it_cannot_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    for option in ((), ("--with-sample",)):
        assert cli.main(["init", "torchair_ge_vs_fx", "-o", str(tmp_path / "file" / "in"), *option]) == 2
        assert f"cannot be written to `{tmp_path / 'file' / 'in'}`: Not a directory" in capsys.readouterr().err


def test_init_prints_a_snippet_of_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["init", "--snippet", "torchair"]) == 0
    printed = capsys.readouterr().out
    compile(printed, "snippet", "exec")
    assert "from probe_flow.dumpers import torchair_fx_backend" in printed


@pytest.mark.parametrize("arguments", [[], ["torchair_ge_vs_fx", "--snippet", "torchair"], ["--snippet", "nothing"]])
def test_init_takes_a_workflow_or_a_snippet(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["init", *arguments]) == 2
    assert "snippet" in capsys.readouterr().err


def test_init_of_an_unknown_template_suggests(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["init", "torchair_ge_vs_fy"]) == 2
    assert "did you mean `torchair_ge_vs_fx`" in capsys.readouterr().err


def test_schema_is_printed_or_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["schema"]) == 0
    printed = capsys.readouterr().out
    assert json.loads(printed)["title"] == "probe_flow workflow"
    assert cli.main(["schema", "--write", str(tmp_path / "new")]) == 0
    assert (tmp_path / "new" / "workflow.schema.json").read_text(encoding="utf-8") == printed


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["version"]) == 0
    assert cli.main(["--version"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == lines[-1]


_TAKE_FRAMEWORKS = {
    "compare": "pytorch",
    "merge_result": "pytorch",
    "acc_check": "pytorch",
    "multi_acc_check": "pytorch",
    "run_overflow_check": "pytorch",
    "api_precision_compare": "pytorch",
    "op_generate": "pytorch",
    "code_mapping": "mindspore",
    "graph": "pytorch",
    "graph_visualize": "pytorch",
    "overflow_check": "pytorch",
}
"""Commands that take ``-f`` in the order of the help, each with a framework that it takes."""


def test_commands_that_take_a_framework_are_those_that_declare_it(capsys: pytest.CaptureFixture[str]) -> None:
    for name in cli.COMMANDS:
        assert cli.main([name, "--help"]) == 0
        assert ("-f FRAMEWORK" in capsys.readouterr().out) == (name in _TAKE_FRAMEWORKS), name
        assert cli.main(["-f", _TAKE_FRAMEWORKS.get(name, "pytorch"), name, "--help"]) == (
            0 if name in _TAKE_FRAMEWORKS else 2
        )
        err = capsys.readouterr().err
        refused = f"`{name}` takes no `-f`; it belongs to "
        *names, last = (f"`{each}`" for each in _TAKE_FRAMEWORKS)
        refused += f"{', '.join(names)} and {last}"
        assert (refused in err) == (name not in _TAKE_FRAMEWORKS)


@pytest.mark.parametrize("name", _TAKE_FRAMEWORKS)
@pytest.mark.parametrize(
    ("end", "help_text"),
    [("x", "did you mean `{}`?"), ("", "`{}`; `-f` may be left out")],
)
def test_an_unknown_framework_is_refused_with_those_there_are(
    name: str, end: str, help_text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    own = _TAKE_FRAMEWORKS[name]
    framework = f"{own}{end}" if end else "jax"
    assert cli.main(["-f", framework, name, "--help"]) == 2
    err = capsys.readouterr().err
    assert f"error[PF2120]: `-f {framework}` is not part of this version" in err
    assert help_text.format(own) in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-f",), "Option '-f' requires an argument"),
        (("-f", "pytorch"), "Missing command"),
        (("-f", "compare", "-tp", "a"), "`-f` needs a framework before the command `compare`"),
        (("--debug", "-f", "version"), "`-f` needs a framework before the command `version`"),
        (("compare", "-f", "pytorch", "-tp", "a", "-gp", "b"), "`-f FRAMEWORK` stands before `compare`"),
        (("version", "-f", "pytorch"), "No such option"),
    ],
)
def test_a_framework_that_is_missing_or_stands_elsewhere(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(list(words)) == 2
    assert message in capsys.readouterr().err


def test_a_framework_loads_the_command_alone(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom probe_flow.cli.main import main\ncode = main(['-f', 'pytorch', 'merge_result', '--help'])\n"
        "others = ('probe_flow.cli.peer.compare', 'probe_flow.cli.run', 'numpy')\n"
        "print(code, [name for name in others if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "0 []", done.stderr


def _failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def main(*_args: object, **_options: object) -> int:
        raise error

    monkeypatch.setattr(cli.group, "main", main)


@pytest.mark.parametrize(
    ("error", "code"),
    [(KeyboardInterrupt(), 130), (IncompleteError(Diagnostic("PF3001", "gone")), 3), (KeyError("x"), 3)],
)
def test_exit_codes_of_errors(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _failing(monkeypatch, error)
    assert cli.main(["version"]) == code
    assert capsys.readouterr().err


def test_a_defect_asks_for_a_report_and_shows_where(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _failing(monkeypatch, KeyError("x"))
    cli.main(["version"])
    err = capsys.readouterr().err
    assert "error[PF9001]" in err
    assert "report it" in err
    assert "Traceback" in err
    assert "KeyError" in err


def test_a_traceback_of_a_users_mistake_only_with_debug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _failing(monkeypatch, IncompleteError(Diagnostic("PF3001", "gone")))
    cli.main(["version"])
    assert "Traceback" not in capsys.readouterr().err
    cli.main(["--debug", "version"])
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("environment", "is_terminal", "expected"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_colour_only_on_a_terminal_that_wants_it(
    environment: dict[str, str], is_terminal: bool, expected: bool
) -> None:
    assert wants_color(environment, is_terminal=is_terminal) is expected


def test_the_installed_program_prints_diagnostics_and_exits_with_two() -> None:
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from probe_flow.cli.main import main; sys.exit(main())",
            "validate",
            "invalid/cycle.yaml",
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=CORPUS,
    )

    assert ended.returncode == 2
    assert ended.stdout == "invalid/cycle.yaml: 2 mistakes\n"
    assert "error[PF2005]" in ended.stderr
    assert "\x1b" not in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("command", [["diff", "a", "b"], ["baseline", "check", "a", "b"]])
def test_a_tolerance_is_a_number(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*command, "--tolerance", "nan"]) == 2
    assert "nan is not a number that can be compared with" in capsys.readouterr().err


@pytest.mark.parametrize(("closed", "arguments", "code"), [
    ("<&-", "version", 0), (">&-", "explain PF1203", 0), ("2>&-", "explain PF0000", 2), ("<&- >&- 2>&-", "doctor", 0),
])  # fmt: skip
def test_closed_standard_streams_change_no_exit_code(closed: str, arguments: str, code: int) -> None:
    program = "import sys; from probe_flow.cli.main import main; sys.exit(main(sys.argv[1:]))"
    words = ["bash", "-c", f'"{sys.executable}" -c "{program}" {arguments} {closed}']
    ended = subprocess.run(words, capture_output=True, text=True, check=False, cwd=CORPUS)
    assert (ended.returncode, "Traceback" in ended.stderr) == (code, False)


def test_a_closed_pipe_is_no_defect() -> None:
    program = "import sys; from probe_flow.cli.main import main; sys.exit(main(['explain']))"
    ended = subprocess.run(
        ["bash", "-c", f'"{sys.executable}" -c "{program}" | true'],
        capture_output=True,
        text=True,
        check=False,
        cwd=CORPUS,
    )

    assert ended.stderr == ""


@pytest.mark.parametrize("folder", ["/dev/null", "9" * 300, "/proc/here"])
def test_a_schema_that_cannot_be_written_is_told(folder, capsys):
    assert cli.main(["schema", "--write", folder]) == 2
    said = capsys.readouterr().err
    assert folder in said
    assert "PF9001" not in said


def test_whoever_waited_for_the_end_of_the_process_before_a_command_began_is_told(tmp_path: Path) -> None:
    """Collectors of coverage and of profiles do."""
    script = f"""
import atexit, sys
atexit.register(lambda: open({str(tmp_path / "last")!r}, "a").write("handler"))
from probe_flow.cli.main import main
sys.argv = ["probe-flow", "explain", "PF1"]
sys.exit(main())
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ended.returncode, (tmp_path / "last").read_text()) == (2, "handler")
