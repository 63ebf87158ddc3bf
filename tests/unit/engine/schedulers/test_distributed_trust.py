"""Who may talk to whom: addresses without proof, listeners that do harm, and the own cluster's ports."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import hostile_listeners
import pytest
import scheduler_jobs
from dask_clusters import Certificates, cluster, write_certificates
from processes_seen import children

from probe_flow.engine.schedulers import own_cluster
from probe_flow.engine.schedulers.choice import make_scheduler
from probe_flow.errors import UsageError

pytest.importorskip("distributed", reason="the extra `distributed` is not installed")
pytest.importorskip("cryptography", reason="the extra `distributed` is not installed")

UNTRUSTED = ["tcp://127.0.0.1:{}", "127.0.0.1:{}", "ws://127.0.0.1:{}", "TLS://127.0.0.1:{}", "inproc://127.0.0.1:{}"]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return write_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def configured(certificates: Certificates) -> Iterator[None]:
    """Certificates in Dask's configuration, as a file or the environment would bring them."""
    with configuration(certificates):
        yield


def configuration(certificates: Certificates) -> AbstractContextManager[object]:
    import dask

    return dask.config.set(
        {
            "distributed.comm.tls.ca-file": str(certificates.authority),
            "distributed.comm.tls.client.cert": str(certificates.member),
            "distributed.comm.tls.client.key": str(certificates.key),
        }
    )


def refusal(address: str, trust: str | None = None) -> str:
    """Return the code of what is said against an address, on one line with its next step."""
    with pytest.raises(UsageError) as caught:
        make_scheduler("distributed", address=address, trust=trust)
    (diagnostic,) = caught.value.diagnostics
    assert address in diagnostic.message
    assert diagnostic.help
    return diagnostic.code


@pytest.mark.parametrize("address", UNTRUSTED)
def test_an_address_without_proof_is_refused_before_any_connection(address):
    with hostile_listeners.listener(hostile_listeners.say_nothing) as found:
        assert refusal(address.format(found.port)) == "PF6110"
    assert found.connections == 0


def test_the_payload_of_a_hostile_listener_runs_where_the_network_is_trusted(tmp_path):
    """What consent means; and the proof that the listener of the tests below is hostile."""
    with hostile_listeners.scheduler_with_payload(tmp_path / "mark") as address:
        assert refusal(address, "network") == "PF6101"
    assert (tmp_path / "mark").exists()


@pytest.mark.usefixtures("configured")
def test_the_payload_of_a_hostile_listener_does_not_run_without_consent(tmp_path):
    with hostile_listeners.scheduler_with_payload(tmp_path / "mark") as address:
        assert refusal(address) == "PF6110"
        assert refusal(address.replace("tcp://", "tls://")) == "PF6101"
    assert not (tmp_path / "mark").exists()


@pytest.mark.usefixtures("configured")
def test_the_payload_of_a_listener_with_a_certificate_of_another_authority_does_not_run(tmp_path):
    other = write_certificates(tmp_path / "other")
    with hostile_listeners.scheduler_with_payload(tmp_path / "mark", other) as address:
        assert address.startswith("tls://")
        assert refusal(address) == "PF6101"
    assert not (tmp_path / "mark").exists()


def test_the_payload_of_a_listener_with_the_right_certificate_would_run(tmp_path, certificates):
    """The control of the test above: only the authority makes the difference."""
    hostile = hostile_listeners.scheduler_with_payload(tmp_path / "mark", certificates)
    with configuration(certificates), hostile as address:
        refusal(address)
    assert (tmp_path / "mark").exists()


@pytest.mark.parametrize("scheme", ["tcp", "tls"])
@pytest.mark.parametrize(
    "answer",
    [
        hostile_listeners.say_nothing,
        hostile_listeners.close_at_once,
        hostile_listeners.speak_another_language,
        hostile_listeners.announce_much,
    ],
    ids=lambda answer: answer.__name__,
)
@pytest.mark.usefixtures("configured")
def test_what_is_no_scheduler_is_refused(scheme, answer):
    with hostile_listeners.listener(answer) as found:
        assert refusal(f"{scheme}://127.0.0.1:{found.port}", "network") == "PF6101"
    assert found.connections > 0


def test_a_tls_address_needs_certificates():
    with hostile_listeners.listener(hostile_listeners.say_nothing) as found:
        assert refusal(f"tls://127.0.0.1:{found.port}") == "PF6111"
    assert found.connections == 0


def test_certificates_that_cannot_be_used_are_named(tmp_path, certificates):
    missing = Certificates(tmp_path / "none.pem", certificates.member, certificates.key)
    for wrong in (missing, Certificates(certificates.authority, certificates.member, certificates.authority)):
        with configuration(wrong), hostile_listeners.listener(hostile_listeners.say_nothing) as found:
            assert refusal(f"tls://127.0.0.1:{found.port}") == "PF6111"
        assert found.connections == 0


def test_a_cluster_with_certificates_runs_every_batch(tmp_path, certificates):
    with cluster(tmp_path, workers=1, certificates=certificates) as found, configuration(certificates):
        assert found.address.startswith("tls://")
        scheduler = make_scheduler("distributed", address=found.address)
        batches = list(range(5))
        assert sorted(scheduler.run(scheduler_jobs.square, batches, batches)) == [(n, n * n) for n in batches]


def test_a_cluster_is_refused_by_one_whose_authority_it_does_not_know(tmp_path, certificates):
    other = write_certificates(tmp_path / "other")
    with cluster(tmp_path, workers=0, certificates=certificates) as found, configuration(other):
        assert refusal(found.address) == "PF6101"


@pytest.fixture
def seen_inside(tmp_path, monkeypatch):
    """Run an own cluster with a wide-open umask and look around while it works; give what was seen, and the folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen: dict[str, object] = {}
    other_ports = set(_ports_of_us())  # a test before may have left a listener, such as the driver of a browser
    former = os.umask(0)
    try:
        results = make_scheduler("distributed", 2).run(scheduler_jobs.shown, [1, 2, 3, 4, 5], [1] * 5)
        first = next(results)[1]
        seen["shown"] = first
        seen["folders"] = {
            path.name: (stat.S_IMODE(path.stat().st_mode), list(path.rglob("*"))) for path in tmp_path.iterdir()
        }
        seen["keys"] = [path for path in tmp_path.rglob("*") if path.is_file() and b"PRIVATE" in path.read_bytes()]
        seen["ports"] = [port for port in _ports_of_us() if port not in other_ports]
        seen["answers"] = {port: (_plain_answer(port), _tls_answer(port)) for _, port in seen["ports"]}
        results.close()
    finally:
        os.umask(former)
    return seen


def test_an_own_cluster_listens_on_the_loopback_only_and_answers_nobody_without_its_certificate(seen_inside):
    ports = seen_inside["ports"]
    assert {host for host, _ in ports} == {"127.0.0.1"}
    assert len(ports) == 5, "a scheduler, and a nanny and a worker each for two workers: no HTTP server"
    assert set(seen_inside["answers"].values()) == {(b"", b"")}


def test_the_key_of_an_own_cluster_is_nowhere_to_be_read(seen_inside):
    _pid, environment, command = seen_inside["shown"]
    assert seen_inside["keys"] == []
    assert "PRIVATE" not in command + "".join(environment.values())


def test_the_files_of_an_own_cluster_lie_in_a_private_folder_that_goes_with_it(seen_inside, tmp_path):
    ((name, (mode, files)),) = seen_inside["folders"].items()
    assert "probe_flow" in name
    assert mode == 0o700
    assert files
    assert list(tmp_path.iterdir()) == []


def test_an_own_cluster_opens_where_no_socket_could_be_named_by_its_path(tmp_path, monkeypatch):
    place = tmp_path / ("deep" * 30)
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    assert sorted(make_scheduler("distributed", 1).run(scheduler_jobs.square, [2, 3], [1, 1])) == [(0, 4), (1, 9)]
    assert list(place.iterdir()) == []


def _ports_of_us() -> list[tuple[str, int]]:
    """Return address and port of what this process and those that it started listen at."""
    return [port for pid in _with_descendants(os.getpid()) for port in listening_ports(pid)]


def _with_descendants(pid: int) -> list[int]:
    return [pid, *(each for child in children(pid) for each in _with_descendants(child))]


def listening_ports(pid: int) -> list[tuple[str, int]]:
    import psutil  # distributed needs it

    found = psutil.Process(pid).net_connections("inet")
    return [(each.laddr.ip, each.laddr.port) for each in found if each.status == psutil.CONN_LISTEN]


def _plain_answer(port: int) -> bytes:
    """Return what a listener answers to a web browser."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        return _asked(connection)


def _tls_answer(port: int) -> bytes:
    """Return what a listener answers to somebody who speaks TLS, but has no certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        try:
            with context.wrap_socket(connection) as secured:
                return _asked(secured)
        except ssl.SSLError:
            return b""


def _asked(connection: socket.socket) -> bytes:
    try:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return connection.recv(100)
    except OSError:
        return b""


def test_a_server_of_forks_that_a_signal_ended_begins_again_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of Python's own there is gone before Python removes it, which prints a traceback."""
    server: Any = forkserver._forkserver
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with own_cluster._one_process_to_fork(str(tmp_path)):
        ended = server._forkserver_pid
        os.kill(ended, signal.SIGKILL)
        for _ in range(1000):
            server.ensure_running()
            if server._forkserver_pid != ended:
                break
            time.sleep(0.01)
        assert server._forkserver_pid != ended
        assert [each.name for each in tmp_path.iterdir() if not each.is_socket()] == []
