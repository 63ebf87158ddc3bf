"""Dask clusters of `dask scheduler` and `dask worker` on the loopback, and their certificates."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from processes_seen import wait_until

TESTS = Path(__file__).parent


@contextmanager
def ending(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=3)
        except subprocess.TimeoutExpired:  # a batch still runs there
            process.kill()
            process.wait(timeout=300)


def dask(*arguments: object, path: Path) -> subprocess.Popen[bytes]:
    """Start `dask ARGUMENTS` with modules from a folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "dask", *(str(argument) for argument in arguments)],
        cwd=path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(path), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@dataclass
class Cluster:
    """A running cluster: its address and its processes."""

    address: str
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)


@contextmanager
def cluster(
    folder: Path, *, workers: int, path: Path | None = None, certificates: Certificates | None = None
) -> Iterator[Cluster]:
    """Run a Dask scheduler and workers without nannies: a worker that ends is not replaced.

    Args:
        folder: for the file that names the address.
        workers: their number.
        path: where the workers find modules first.
        certificates: for a cluster that speaks TLS.
    """
    file = folder / "scheduler.json"
    places = ["--host", "127.0.0.1", "--no-dashboard", *(certificates.options if certificates else ())]
    protocol = ["--protocol", "tls"] if certificates else []
    with ExitStack() as stack:
        scheduler = dask("scheduler", "--port", 0, "--scheduler-file", file, *places, *protocol, path=TESTS)
        stack.enter_context(ending(scheduler))
        wait_until(lambda: file.exists() and file.stat().st_size > 0)
        found = Cluster(json.loads(file.read_text())["address"], scheduler)
        for _ in range(workers):
            worker = dask("worker", found.address, "--nthreads", 1, "--no-nanny", *places, path=path or TESTS)
            found.workers.append(stack.enter_context(ending(worker)))
        if workers:
            _wait_for_workers(found.address, workers, certificates)
        yield found


def _wait_for_workers(address: str, count: int, certificates: Certificates | None) -> None:
    from distributed import Client
    from distributed.security import Security

    security = Security(**certificates.security, require_encryption=True) if certificates else None
    with Client(address, timeout=300, set_as_default=False, security=security) as client:
        client.wait_for_workers(count, timeout=300)


@dataclass(frozen=True)
class Certificates:
    """Files of one authority and of one member of a cluster that it knows."""

    authority: Path
    member: Path
    key: Path

    @property
    def options(self) -> tuple[object, ...]:
        """For `dask scheduler` and `dask worker`."""
        return "--tls-ca-file", self.authority, "--tls-cert", self.member, "--tls-key", self.key

    @property
    def security(self) -> Mapping[str, str]:
        """For a client."""
        member, key = str(self.member), str(self.key)
        return {"tls_ca_file": str(self.authority), "tls_client_cert": member, "tls_client_key": key}

    @property
    def environment(self) -> Mapping[str, str]:
        """What names them to a client in the environment of its process."""
        head = "DASK_DISTRIBUTED__COMM__TLS__"
        return {
            f"{head}CA_FILE": str(self.authority),
            f"{head}CLIENT__CERT": str(self.member),
            f"{head}CLIENT__KEY": str(self.key),
        }


def write_certificates(folder: Path) -> Certificates:
    """Write a new authority, and a member with its key that the authority signed."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    def certificate(
        name: str, key: ec.EllipticCurvePrivateKey, issuer: str, signer: ec.EllipticCurvePrivateKey
    ) -> bytes:
        begin = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=1)
        built = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
            .add_extension(x509.BasicConstraints(ca=name == issuer, path_length=None), critical=True)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(begin + datetime.timedelta(days=10))
            .sign(signer, hashes.SHA256())
        )
        return built.public_bytes(serialization.Encoding.PEM)

    folder.mkdir(parents=True, exist_ok=True)
    authority, member = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    found = Certificates(folder / "authority.pem", folder / "member.pem", folder / "member.key")
    found.authority.write_bytes(certificate("authority", authority, "authority", authority))
    found.member.write_bytes(certificate("member", member, "authority", authority))
    found.key.write_bytes(
        member.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return found
