"""The prompt: driven line by line, and in a pseudo-terminal with completion and history."""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stored_runs import node, packaged_run, row, write_run

from probe_flow.api.dumps import asker_of
from probe_flow.cli.main import main
from probe_flow.cli.shell import input as shell_input
from probe_flow.cli.shell.input import completions, history_file
from probe_flow.cli.shell.session import Session, split

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|[=>]|\][^\x07]*\x07)")
WAIT_S = 300


@pytest.fixture(scope="module")
def torchair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packaged_run("torchair_ge_vs_fx", tmp_path_factory.mktemp("shell") / "run")


@pytest.fixture(scope="module")
def mindspore(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packaged_run("mindspore_compare", tmp_path_factory.mktemp("shell") / "run")


@pytest.fixture
def typed(probe_flow, monkeypatch) -> Callable[..., object]:
    def run(folder: Path, *lines: str):
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        return probe_flow("shell", folder)

    return run


def test_verbs_are_questions_of_show(torchair, typed, probe_flow):
    for line, arguments in {
        "origin": ["--origin"],
        "below cosine=0.999 --limit 1": ["--below", "cosine=0.999", "--limit", "1"],
        "at-most cosine=0.999": ["--at-most", "cosine=0.999"],
        "above max_abs_err=0.1": ["--above", "max_abs_err=0.1"],
        "node Gelu_1 --depth 1": ["--node", "Gelu_1", "--depth", "1"],
        "tensor Gelu_1.output.0": ["--tensor", "Gelu_1.output.0"],
        "unmatched --limit 1": ["--unmatched", "--limit", "1"],
        "show --origin": ["--origin"],
    }.items():
        shown = probe_flow("show", torchair, *arguments).out
        asked = typed(torchair, line)
        assert asked.code == 0
        assert shown.startswith(asked.out)
        assert len(asked.out) > 100
    assert typed(torchair, "summary").out == probe_flow("show", torchair).out
    assert (
        typed(torchair, "rows fail --limit 1").out
        == probe_flow("show", torchair, "--verdict", "fail", "--limit", "1").out
    )


def test_nodes_are_read_once(torchair, typed, monkeypatch):
    from probe_flow.runs.queries import stored_nodes

    made = []
    real = stored_nodes.StoredNodes.__init__
    monkeypatch.setattr(stored_nodes.StoredNodes, "__init__", lambda self, run: made.append(1) or real(self, run))
    typed(torchair, "node Gelu_1", "node Gelu", "ni -n Add_1", "ls")
    assert len(made) == 1


@pytest.mark.parametrize("leaves", ["exit", "quit", "q"])
def test_a_word_leaves(torchair, typed, leaves):
    done = typed(torchair, leaves, "origin")
    assert (done.code, done.out) == (0, "")


def test_blank_lines_and_comments_do_nothing(torchair, typed):
    done = typed(torchair, "", "   ", "# origin")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_help_names_every_verb(torchair, typed):
    out = typed(torchair, "help").out
    for verb in ("origin", "below", "node", "tensor", "unmatched", "ac", "vcs", "vc", "ni", "pt", "cp", "ls"):
        assert re.search(rf"^  {verb} ", out, re.MULTILINE)
    assert "-lt" in typed(torchair, "help vc").out
    assert "--depth" in typed(torchair, "node --help").out


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("nod Gelu_1", "did you mean `node`?"),
        ("node", "takes NAME"),
        ("below", "takes METRIC=VALUE"),
        ("below cosine", "PF7203"),
        ("below cosin=1", "PF7202"),
        ("node Gello", "PF7201"),
        ('node "Gelu', "No closing quotation"),
        ("ni", "name what you want to see"),
        ("ni -x Gelu_1", "-x"),
        ("vcs -l many", "-l"),
        ("vcs -f /nowhere", "PF7110"),
        ("cp Gelu_1.output.0", "takes two tensors"),
        ("cp Gelu.output.0 Add_1.output.0", "PF7208"),
        ("cp Gelu gelu", ""),
        ("open /nowhere", "PF7110"),
        ("vc -lt /nowhere", "does not exist"),
        ("\x01\x02", "there is no"),
        ("\u202e\ud83d\ude00 x", "there is no"),
        ("x" * 70_000, "longer than"),
        ("pt " + "a" * 5000, "there is no tensor `aaa"),
        ("vc -lt a\0b", "it holds a NUL character"),
    ],
)
def test_what_goes_wrong_is_told_and_the_next_line_is_done(torchair, typed, line, told):
    done = typed(torchair, line, "ls -t Gelu")
    assert told in done.err + done.out
    assert "[Gelu][] Gelu_1  (target, rank 0, graph 1, step 0)" in done.out
    assert done.code == (0 if line == "cp Gelu gelu" else 2)
    assert "Traceback" not in done.err
    assert "\x1b" not in done.err


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=st.one_of(st.text(max_size=40), st.lists(st.sampled_from(
    ["node", "ni", "below", "vcs", "cp", "ls", "pt", "tensor", "help", "-n", "-s", "-c", "--depth", "A", "B_1", "=",
     "1", "cosine=0.5", "'", "-", "--", "unmatched", "rows", "fail", "origin", "show", "--limit", "0", "--format"]
), max_size=6).map(" ".join)))  # fmt: skip
def test_no_line_ends_the_session(tmp_path_factory, capsys, line):
    folder = tmp_path_factory.getbasetemp() / "any_line"
    if not folder.exists():
        write_run(folder, [row(0, "A_1"), row(1, "B_1", cosine=0.1)], [node("A_1", 0), node("B_1", 1, (0, "A_1", 0))])
    session = Session(asker_of(folder), main)
    try:
        words = split(line)
    except ValueError:
        return
    if words[:1] != ["vc"] and "ac" not in words[:1]:  # these run workflows
        assert session.do(words) in (0, 2, 3)
    capsys.readouterr()


def test_aliases_answer_as_the_other_tool_is_used(torchair, typed):
    out = typed(torchair, "vcs -c 0.999 -l 1").out
    assert "4 of 55 nodes have cosine <= 0.999" in out
    assert "the first 1 of 4 are shown" in out
    assert "Gelu_1 (Gelu)" in typed(torchair, "ac -l 1").out
    out = typed(torchair, "ni -n Gelu_1 -g 1 -a -s 1").out
    assert "    stream_id: 7" in out
    assert "neighbourhood, 1 step each way" in out
    assert "PF7201" in typed(torchair, "ni Gelu_1 -g 99").err
    out = typed(torchair, "pt -n Gelu_1.output.0").out
    assert "target, the first 128 of 256 values" in out
    out = typed(torchair, "ls").out
    assert "target: 55 nodes" in out
    assert re.search(r"^  Transpose +15$", out, re.MULTILINE)
    assert "0 nodes" in typed(torchair, "ls -f NoSuchPass").out
    assert "1 nodes" in typed(torchair, "ls -n Gelu_1 -t Gelu").out


def test_ac_of_a_run_of_statistics_says_that_there_is_no_cosine(mindspore, typed):
    done = typed(mindspore, "ac")
    assert done.code == 0
    assert "the divergence begins at Tensor.__mul__" in done.out
    assert "`cosine` was not measured in this run" in done.out


def test_vcs_of_another_run(torchair, mindspore, typed):
    out = typed(mindspore, f"vcs -f {torchair} -c 0.999").out
    assert "4 of 55 nodes have cosine <= 0.999" in out


def test_open_asks_another_run_from_then_on(torchair, mindspore, typed):
    out = typed(mindspore, f"open {torchair}", "ls -t Gelu").out
    assert "Gelu_1" in out


def test_vc_compares_again_and_asks_the_new_run(torchair, typed):
    before = (torchair / "run.json").read_bytes()
    done = typed(torchair, "vc", "ls -t Gelu")
    again = torchair.with_name("run-2")
    assert (again / "run.json").is_file()
    assert f"asking {again} from now on" in done.out
    assert "Gelu_1" in done.out
    assert (torchair / "run.json").read_bytes() == before


def test_vc_finds_the_workflow_from_another_folder(typed, probe_flow, monkeypatch, tmp_path):
    (tmp_path / "here" / "dump").mkdir(parents=True)
    text = "version: 1\nname: mine\nstages:\n  a: {uses: dump.npy, path: dump}\n"
    (tmp_path / "here" / "mine.yaml").write_text(text)
    monkeypatch.chdir(tmp_path / "here")
    assert probe_flow("run", "mine.yaml", "--output", "run").code == 3
    workflow = json.loads((tmp_path / "here" / "run" / "run.json").read_text())["workflow"]
    assert (workflow["path"], workflow["folder"]) == ("mine.yaml", str(tmp_path / "here"))
    monkeypatch.chdir(tmp_path)
    assert "asking here/run-2 from now on" in typed(Path("here/run"), "vc").out


def test_vc_does_not_run_another_workflow_than_the_command_did(typed, probe_flow, tmp_path):
    onnx = EXAMPLES / "offline" / "onnx"
    rules = onnx / "fusion_rule.json"
    done = probe_flow("compare", "-tp", onnx / "target", "-gp", onnx / "golden", "-fr", rules, "-o", "out")
    assert done.code == 1
    done = typed(tmp_path / "out", "vc")
    assert "the parameter `close_fusion_rule` is not set" in done.err
    assert "give the command that made the run again" in done.err
    assert not (tmp_path / "out" / "probe_flow-2").exists()


def test_vc_gives_every_parameter_as_it_was(typed, tmp_path):
    workflow = tmp_path / "mine.yaml"
    params = {"names": ["a b,c", "ä\\x"], "n": 12, "flag": False, "word": "no", "share": 0.5}
    kinds = {"names": "list", "n": "int", "flag": "bool", "word": "str", "share": "float"}
    declared = "".join(f"  {name}: {{type: {kind}}}\n" for name, kind in kinds.items())
    dump = tmp_path / "dump"
    dump.mkdir()
    workflow.write_text(f"version: 1\nname: mine\nparams:\n{declared}stages:\n  a: {{uses: dump.npy, path: dump}}\n")
    folder = write_run(tmp_path / "run", [], workflow={"name": "mine", "path": str(workflow)}, params=params)
    assert "asking" in typed(folder, "vc").out
    assert json.loads((tmp_path / "run-2" / "run.json").read_text())["params"] == params


def test_cp_compares_tensors_of_both_sides_and_files(torchair, typed, tmp_path):
    out = typed(torchair, "cp Gelu_1.output.0 gelu_1.output.0 -p 2").out
    assert "not all of 256 elements are close" in out
    assert "cosine 0.997513" in out
    np.save(tmp_path / "a.npy", np.ones(6, np.float32))
    np.save(tmp_path / "b.npy", np.ones(6, np.float32))
    np.save(tmp_path / "c.npy", np.ones(8, np.float32))
    out = typed(torchair, f"cp -n {tmp_path}/a.npy {tmp_path}/b.npy -s", f"pt {tmp_path}/a.npy")
    assert "all of 6 elements are close; 0 are not (0 %)" in out.out
    assert (tmp_path / "cp_result.txt").read_text().startswith("all of 6")
    assert "6 elements" in out.out
    assert "has 6 elements" in typed(torchair, f"cp {tmp_path}/a.npy {tmp_path}/c.npy").err


def test_pickled_objects_are_not_loaded(torchair, typed, tmp_path):
    np.save(tmp_path / "evil.npy", np.array([{"a": 1}], object), allow_pickle=True)
    done = typed(torchair, f"pt {tmp_path}/evil.npy")
    assert done.code == 3
    assert "never unpickled" in done.err


def test_a_part_of_a_name_is_not_compared_by_accident(torchair, typed):
    done = typed(torchair, "cp e l")
    assert done.code == 2
    assert "is a part of the names of" in done.err


@pytest.mark.parametrize(
    ("typed_so_far", "offered"),
    [
        ("", "origin"),
        ("vc", "vcs"),
        ("node ", "Gelu_1"),
        ("node gel", "Gelu_1"),
        ("ni -n Gelu", "Gelu_1"),
        ("ni -", "-s"),
        ("node Gelu_1 --de", "--depth"),
        ("tensor Gelu_1.o", "Gelu_1.output.0"),
        ("cp Gelu_1.output.0 gelu_1", "gelu_1.output.0"),
        ("below cos", "cosine="),
        ("show --below cos", "cosine="),
        ("rows f", "fail"),
        ("help vc", "vcs"),
    ],
)
def test_verbs_options_and_names_are_completed(torchair, typed_so_far, offered):
    assert offered in list(completions(Session(asker_of(torchair), main), typed_so_far))


@pytest.mark.parametrize("typed_so_far", ["nonsense x", "exit -", "node Gelu_1 x", "x\x00 ", "  ", "rows z"])
def test_nothing_is_completed_where_nothing_fits(torchair, typed_so_far):
    found = list(completions(Session(asker_of(torchair), main), typed_so_far))
    assert found == [] or typed_so_far == "  "


def test_completion_of_a_damaged_run_is_silent(tmp_path):
    folder = write_run(tmp_path / "run", [row(0, "A_1")], None)
    assert list(completions(Session(asker_of(folder), main), "node A")) == []


def test_history_lies_in_the_users_state(tmp_path):
    assert history_file({"XDG_STATE_HOME": "/s"}) == Path("/s/probe_flow/shell_history")
    assert history_file({"HOME": "/h"}) == Path("/h/.local/state/probe_flow/shell_history")
    assert history_file({}) is None


def test_without_the_extra_lines_are_plain_and_a_note_tells(torchair, monkeypatch):
    monkeypatch.setattr(shell_input, "find_spec", lambda name: None)
    lines, note = shell_input.open_lines(Session(asker_of(torchair), main), history=None, is_terminal=True)
    assert isinstance(lines, shell_input.PlainLines)
    assert note is not None
    assert note.code == "PF7207"


class TestOfATrainingStep:
    """The prompt on `precision_data`, before anything was compared."""

    DATA = EXAMPLES / "tf_training" / "step"

    def test_a_file_of_the_device_is_no_array_and_the_verb_that_decodes_it_is_named(self, typed, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        file = next((self.DATA / "npu" / "debug_0").rglob("TanhGrad.*"))
        done = typed(self.DATA, "ac -c", f"pt {file}", f"cp {file} {file}")
        assert done.err.count("is a dump file of a device, which holds all tensors of an operator") == 2
        assert f"`dc {file} -o FOLDER` writes each as a `.npy` file" in done.err
        assert "wait until the dump is written" not in done.err

    def test_an_earlier_run_is_taken_up(self, typed, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        typed(self.DATA, "ac -c")
        done = typed(self.DATA, "ls", "open probe_flow_runs/step", "vcs -l 1")
        assert "`open RUN` takes up an earlier run" in done.err
        assert "1 node cannot be judged" in done.out

    def test_verbs_say_what_to_do_first_and_ac_compares_and_asks_that_run(self, typed, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        before = sorted(self.DATA.rglob("*"))
        done = typed(self.DATA, "ls", "origin", "ac -c", "vcs -c 0.98 -l 1", "ni dense2/Tanh -s 1 -a", "ls -k te_tanh")

        assert "nothing was compared yet: `ac -c` compares" in done.err
        assert f"probe-flow run {ROOT}/workflows/tf_training.yaml --set data={self.DATA}" in done.out
        assert "asking probe_flow_runs/step from now on" in done.out
        after = done.out.partition("asking probe_flow_runs/step")[2]
        for words in ("gradients/dense2/Tanh_grad/TanhGrad", "te_tanh", "dense2/MatMuldense2/BiasAdd"):
            assert words in after
        assert sorted(self.DATA.rglob("*")) == before

    def test_files_are_shown_compared_and_converted_without_a_run(self, typed, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        for name, factor in (("a", 1.0), ("b", 1.5)):
            np.save(tmp_path / f"{name}.npy", np.full((2, 3), factor, "f4"))
        (file,) = (self.DATA / "npu/debug_0/dump").rglob("TanhGrad.*")
        done = typed(self.DATA, "pt a.npy", "cp a.npy b.npy -p 2", f"dc {file} -o converted")

        assert done.code == 0, done.err
        assert len(list((tmp_path / "converted").glob("TanhGrad.*.npy"))) == 3

    def test_the_dump_of_an_operator_is_converted_by_its_name(self, typed, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        done = typed(self.DATA, "ac -c", "dc gradients/dense2/Tanh_grad/TanhGrad.output.0 -o out", "dc nowhere")
        assert list((tmp_path / "out").glob("TanhGrad.*.output.0.npy"))
        assert done.code == 2

    def test_in_a_terminal_the_greeting_says_how_to_begin(self, tmp_path):
        pytest.importorskip("prompt_toolkit")
        terminal = Terminal(self.DATA, tmp_path)
        try:
            terminal.wait_for("`ac -c` compares `")
            terminal.wait_for("probe-flow>")
            terminal.type("vcs\r")
            terminal.wait_for("nothing was compared yet")
            terminal.type("exit\r")
            assert terminal.end() == 0
        finally:
            terminal.stop()


class Terminal:
    """`probe-flow shell` in a pseudo-terminal."""

    def __init__(self, folder: Path, home: Path, *options: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        environment = {**os.environ, "HOME": str(home), "TERM": "xterm", "COLUMNS": "120", "PROMPT_TOOLKIT_NO_CPR": "1"}
        environment.pop("XDG_STATE_HOME", None)
        self._child = subprocess.Popen(
            [sys.executable, "-m", "probe_flow", "shell", str(folder), *options],
            stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True, close_fds=True,
        )  # fmt: skip
        os.close(slave)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def wait_for(self, pattern: str) -> str:
        """Return what was shown up to a pattern, and forget it."""
        end = time.monotonic() + WAIT_S
        while True:
            plain = _ESCAPE.sub("", self.seen)
            found = re.search(pattern, plain)
            if found:
                self.seen = plain[found.end() :]
                return plain[: found.end()]
            assert time.monotonic() < end, f"no {pattern!r} in {plain[-2000:]!r}"
            self._read()

    def end(self) -> int:
        while self._read():
            pass
        code = self._child.wait(WAIT_S)
        os.close(self._master)
        return code

    def stop(self) -> None:
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGKILL)
            self._child.wait()

    def _read(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], 1.0)
        if not ready:
            return self._child.poll() is None
        try:
            chunk = os.read(self._master, 65536)
        except OSError as error:
            if error.errno == errno.EIO:  # the other end is closed
                return False
            raise
        self.seen += chunk.decode("utf-8", "replace")
        return bool(chunk)


@pytest.fixture
def terminal(torchair, tmp_path) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def open_one(*options: str) -> Terminal:
        opened.append(Terminal(torchair, tmp_path, *options))
        return opened[-1]

    yield open_one
    for each in opened:
        each.stop()


def test_a_session_in_a_terminal_completes_answers_survives_and_remembers(terminal, tmp_path):
    pytest.importorskip("prompt_toolkit")
    first = terminal()
    first.wait_for(r"`help` lists what can be asked")
    first.wait_for("probe-flow>")
    first.type("node Gelu_1 --dep\t 1\r")  # the Tab key completes the option
    first.wait_for(r"neighbourhood, 1 step each way")
    first.wait_for("probe-flow>")
    first.type("node \x1b[31m \x07 nonsense\r")
    first.wait_for(r"PF7201|there is no")
    first.type("\x03")  # drops the line
    first.type("rubbish\r")
    first.wait_for("there is no `rubbish` here")
    first.type("vcs -c 0.999 -l 1\r")
    first.wait_for(r"4 of 55 nodes have cosine <= 0\.999")
    first.wait_for("probe-flow>")
    first.type("\x04")  # end of input
    assert first.end() == 0
    history = (tmp_path / ".local/state/probe_flow/shell_history").read_text()
    assert "+vcs -c 0.999 -l 1" in history
    again = terminal()
    again.wait_for("probe-flow>")
    again.type("\x1b[A\r")  # the line before
    again.wait_for(r"4 of 55 nodes have cosine <= 0\.999")
    again.type("exit\r")
    assert again.end() == 0


def test_no_history_is_kept_where_none_is_wanted(terminal, tmp_path):
    session = terminal("--no-history")
    session.wait_for("probe-flow>")
    session.type("ls -t Gelu\r")
    session.wait_for("2 nodes")
    session.type("quit\r")
    assert session.end() == 0
    assert not (tmp_path / ".local").exists()


def test_input_that_is_no_terminal_is_read_to_its_end(torchair):
    ended = subprocess.run(
        [sys.executable, "-m", "probe_flow", "shell", str(torchair)],
        input=b"ls -t Gelu\n\xff\xfe\x00 garbage\nnode Nothing_9", capture_output=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    assert ended.returncode == 2
    assert b"2 nodes" in ended.stdout
    assert b"probe-flow>" not in ended.stdout
    assert b"Traceback" not in ended.stderr
