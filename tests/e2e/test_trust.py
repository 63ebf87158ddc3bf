"""What files, packages and other programs cannot do: promises of docs/explanation/security.md, on the command line."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scheduler_jobs

from e2e.projects import TORCHAIR
from probe_flow.engine.schedulers.processes import ProcessScheduler

WATCHED = """
import json
import sys

events = []


def hear(event, arguments):
    if event in ("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"):
        events.append((event, str(arguments)))


sys.addaudithook(hear)
from probe_flow.cli.main import main

codes = [main(command.split()) for command in sys.argv[1:]]
print(json.dumps([codes, events, [name for name in ("net",) if name in sys.modules]]), file=sys.stderr)
"""
"""Runs commands in one process and says at last: exit codes, connections, and which foreign modules were imported."""

PLAIN = "version: 1\nname: w\nstages:\n  a: {uses: dump.torchair_fx, path: msprobe_fx_dump}\n"


def watched(folder: Path, *commands: str) -> tuple[list[int], list[object], list[str]]:
    """Run commands in a folder, with its modules; return what `WATCHED` says."""
    where = os.pathsep.join(str(each) for each in (folder, *sys.path) if str(each))
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *commands],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": where, "PROBE_FLOW_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    codes, events, imported = json.loads(done.stderr.splitlines()[-1])
    return codes, events, imported


def contents(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_run_writes_its_folder_and_the_cache_and_nothing_else(probe_flow, dumps, tmp_path):
    before = contents(tmp_path)
    assert probe_flow("run", TORCHAIR, *dumps.sets(), output="out", cache="cache").code == 0
    after = contents(tmp_path)
    assert {name: digest for name, digest in after.items() if name in before} == before
    assert {name.partition("/")[0] for name in after.keys() - before.keys()} <= {"out", "cache"}


def test_a_run_opens_no_connection(dumps, tmp_path):
    sets = " ".join(dumps.sets())
    command = f"run {TORCHAIR} {sets} --output out --scheduler"
    codes, events, _ = watched(tmp_path, f"{command} threads", f"{command} processes --workers 2")
    assert codes == [0, 0]
    assert events == []


def test_validate_and_plan_open_no_connection(dumps, tmp_path):
    pytest.importorskip("distributed", reason="the extra `distributed` is not installed")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        (dumps.root / "w.yaml").write_text(
            f'{PLAIN}executor: {{scheduler: distributed, address: "{address}", trust: network}}\n'
        )
        codes, events, _ = watched(dumps.root, "validate w.yaml", "plan w.yaml")
    assert codes == [0, 0]
    assert events == []


def test_a_workflow_with_an_address_that_proves_nothing_is_refused(probe_flow, dumps):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = server.getsockname()[1]
        (dumps.root / "w.yaml").write_text(
            f'{PLAIN}executor: {{scheduler: distributed, address: "tcp://localhost:{port}"}}\n'
        )
        for command in ("validate", "plan", "run"):
            done = probe_flow(command, dumps.root / "w.yaml", output=None)
            assert done.code == 2
            assert "PF6110" in done.err
        with pytest.raises(TimeoutError):
            server.accept()


def test_validate_and_plan_import_no_code_of_the_workflow(dumps):
    (dumps.root / "net.py").write_text("")
    (dumps.root / "w.yaml").write_text(
        f"{PLAIN}  b: {{uses: dump.torchair_fx, model: 'net:build', inputs: 'net:inputs', import_from: .}}\n"
        "  c: {uses: reduce.statistics, path: msprobe_fx_dump, functions: ['net:figure'], output: reduced}\n"
    )
    codes, _, imported = watched(dumps.root, "validate w.yaml", "plan w.yaml")
    assert codes[0] == 0
    assert codes[1] in (0, 2), "2 where there is no torch, which the plan says"
    assert imported == []


@pytest.mark.parametrize(
    "text", ["${__import__('os').mkdir('made')}", "${params.golden.__class__}", "${1 + 1}", "${run.output.parent}"]
)
def test_an_interpolation_is_no_expression(probe_flow, dumps, tmp_path, text):
    (tmp_path / "w.yaml").write_text(
        "version: 1\nname: w\nparams: {golden: {type: str, default: x}}\n"
        f'stages:\n  a: {{uses: dump.torchair_fx, path: "{text}"}}\n'
    )
    assert probe_flow("validate", "w.yaml", output=None).code == 2
    assert not (tmp_path / "made").exists()


def test_worker_processes_are_reached_by_nobody_else():
    ((_, sockets),) = ProcessScheduler(1).run(scheduler_jobs.own_sockets, [0], [1])
    assert len(sockets) == 1, "the one to its parent"
    assert [path for path in sockets.values() if path != ""] == [], "a unix socket without a name"


class Payload:
    """Makes a folder where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self):
        return os.makedirs, (str(self._mark),)


def test_questions_to_a_hostile_run_folder_run_nothing(probe_flow, dumps, tmp_path):
    mark = tmp_path / "mark"
    assert probe_flow("run", TORCHAIR, *dumps.sets()).code == 0
    for array in dumps.golden.rglob("*.npy"):
        np.save(array, np.array([Payload(mark)], dtype=object), allow_pickle=True)
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    for stage in record["stages"]:
        stage["uses"] = {"dump.torchair_fx": "dump.auto"}.get(stage["uses"], stage["uses"])
        stage |= {"model": "os:abort", "functions": ["os:abort"]}
    for given in record["inputs"]:
        given |= {"model": "os:abort", "pickle": pickle.dumps(Payload(mark)).decode("latin-1")}
    (tmp_path / "out" / "run.json").write_text(json.dumps(record))
    shutil.copytree(tmp_path / "out", tmp_path / "copy")
    for question in (["show", "out"], ["show", "out", "--tensor", "add.output.0"], ["diff", "out", "copy"]):
        assert probe_flow(*question, output=None).code in (0, 1, 2, 3)
    assert not mark.exists()
