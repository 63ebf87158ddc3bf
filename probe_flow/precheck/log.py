"""The files of a pre-check, which grow call by call: two tables, and the record that they are written from.

Each call becomes a line of the record first, then its rows of the tables. So whatever moment a process is killed at,
the record says what the tables should hold: continuing drops the record's cut line and writes what the tables lack.
A table that holds anything else was changed by somebody, and is not touched.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, ValuesView
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from probe_flow.errors import Diagnostic, IncompleteError, UsageError
from probe_flow.files.atomic import atomic_bytes
from probe_flow.files.opening import open_bytes, read_whole
from probe_flow.precheck.results import ApiResult
from probe_flow.precheck.tables import details_rows, header, headers, result_rows
from probe_flow.records.frameworks import Kernels

RESULT = "accuracy_checking_result_"
DETAILS = "accuracy_checking_details_"
RECORD = "accuracy_checking_record_"

_NAME = re.compile(re.escape(RESULT) + r"(\d{14})\.csv", re.ASCII)
MAX_TABLE_BYTES = 4 << 30
"""Of a table that is read again; larger ones are no tables of ours."""

VERSION = 1


class Terms(Struct, frozen=True):
    """What the results of a pre-check depend on: results of other terms are not continued.

    Args:
        version: of the record.
        dump: digest of the dump.
        options: how calls are checked, as text.
        kernels: of the framework that wrote the dump.
    """

    version: int
    dump: str
    options: str
    kernels: Kernels = Kernels.MINDSPORE


class WrittenResults(Mapping[str, ApiResult]):
    """The results of a record by the names of their calls, each read from its line when it is asked for.

    In memory one takes 3 KB, of which there would be as many as calls; the place of its line takes 0.1.

    Args:
        record: path of the record.
        places: where the lines begin.
    """

    def __init__(self, record: Path, places: Mapping[str, int]) -> None:
        self._record, self._places = record, dict(places)

    def add(self, name: str, place: int) -> None:
        """Take note of a line that was written."""
        self._places[name] = place

    def only(self, names: Iterable[str]) -> WrittenResults:
        """Return some of the results, in this order."""
        return WrittenResults(self._record, {name: self._places[name] for name in names if name in self._places})

    def __getitem__(self, name: str) -> ApiResult:
        return next(self._read([self._places[name]]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def values(self) -> ValuesView[ApiResult]:
        """Return all results, which are read one after the other whenever they are gone through."""
        return _Values(self)

    def read(self) -> Iterator[ApiResult]:
        """Yield all results.

        Raises:
            UsageError: PF6606 the record was changed since they were written.
        """
        return self._read(self._places.values())

    def _read(self, places: Iterable[int]) -> Iterator[ApiResult]:
        decoder = msgspec.json.Decoder(ApiResult)
        try:
            with open_bytes(self._record) as file:
                for place in places:
                    file.seek(place)
                    yield decoder.decode(file.readline())
        except (OSError, msgspec.DecodeError) as error:
            raise _useless(self._record, error) from error


class _Values(ValuesView[ApiResult]):
    _mapping: WrittenResults

    def __iter__(self) -> Iterator[ApiResult]:
        return self._mapping.read()


class CheckLog:
    """The files of one pre-check.

    Args:
        folder: where they are.
        stamp: time of its beginning, part of their names.
        kernels: of the framework, which decides how the tables look.

    Attributes:
        known: results of calls that were checked, by their names.
    """

    def __init__(self, folder: Path, stamp: str, kernels: Kernels = Kernels.MINDSPORE) -> None:
        self.folder, self.stamp, self.kernels = folder, stamp, kernels
        self.known = WrittenResults(self.record, {})
        self._files: list[IO[bytes]] = []

    @property
    def tables(self) -> tuple[Path, Path]:
        """Paths of the table of calls and of that of results."""
        return self.folder / f"{RESULT}{self.stamp}.csv", self.folder / f"{DETAILS}{self.stamp}.csv"

    @property
    def record(self) -> Path:
        """Path of the record."""
        return self.folder / f"{RECORD}{self.stamp}.jsonl"

    def add(self, result: ApiResult) -> None:
        """Write a result to all files.

        Raises:
            IncompleteError: PF6605 if one cannot be written.
        """
        record, details, results = self._files
        with _written(self.folder):
            place = record.tell()
            for file, text in (
                (record, msgspec.json.encode(result) + b"\n"),
                (details, details_rows(result, self.kernels)),
                (results, result_rows(result, self.kernels)),
            ):
                file.write(text)
                file.flush()
        self.known.add(result.name, place)

    def results_of(self, results: Iterable[ApiResult]) -> Iterator[bytes]:
        """Yield the parts of a table of calls."""
        yield header(headers(self.kernels)[0])
        yield from (result_rows(each, self.kernels) for each in results)

    def details_of(self, results: Iterable[ApiResult]) -> Iterator[bytes]:
        """Yield the parts of a table of results."""
        yield header(headers(self.kernels)[1])
        yield from (details_rows(each, self.kernels) for each in results)

    def sort(self, names: Sequence[str], terms: Terms) -> None:
        """Bring all files into the order of the dump; nothing happens where they are in it.

        Args:
            names: of all calls, in that order.
            terms: of the check.
        """
        ordered = self.known.only(names)
        if list(ordered) == list(self.known):
            return
        self.known = ordered
        self.rewrite(terms)

    def rewrite(self, terms: Terms) -> None:
        """Write all files anew, of what is known."""
        line = msgspec.json.encode(terms) + b"\n"
        places, end = {}, len(line)
        with atomic_bytes(self.record) as file:
            file.write(line)
            for each in self.known.values():
                line = msgspec.json.encode(each) + b"\n"
                places[each.name], end = end, end + len(line)
                file.write(line)
        self.known = WrittenResults(self.record, places)
        result, details = self.tables
        for path, parts in ((details, self.details_of), (result, self.results_of)):
            with atomic_bytes(path) as file:
                file.writelines(parts(self.known.values()))

    @contextmanager
    def open(self) -> Iterator[CheckLog]:
        """Hold the files open."""
        result, details = self.tables
        try:
            with _written(self.folder):
                self._files = [path.open("ab") for path in (self.record, details, result)]
            yield self
        finally:
            for file in self._files:
                with suppress(OSError):  # what could not be written was said, and is tried once more here
                    file.close()
            self._files = []


def new_log(folder: Path, stamp: str, terms: Terms) -> CheckLog:
    """Begin the files of a pre-check.

    Raises:
        IncompleteError: PF6605 if one cannot be written.
        UsageError: PF6606 if there are such files already.
    """
    log = CheckLog(folder, stamp, terms.kernels)
    result, details = log.tables
    with _written(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for path in (result, details, log.record):
            if path.exists():
                raise UsageError(
                    Diagnostic("PF6606", f"`{path.name}` is there already", path=str(path), help="name another folder")
                )
        log.record.write_bytes(msgspec.json.encode(terms) + b"\n")
        details.write_bytes(b"".join(log.details_of(())))
        result.write_bytes(b"".join(log.results_of(())))
    return log


def continued_log(result: Path, terms: Terms, calls: Mapping[str, Collection[str]], *, is_forced: bool) -> CheckLog:
    """Continue the files of a pre-check that did not end.

    Args:
        result: its table of calls.
        terms: of this pre-check.
        calls: of this dump, each with its directions: of results of other terms, those of such calls are taken over.
        is_forced: whether results of other terms are continued, and tables that were changed are written anew.

    Raises:
        UsageError: PF6606 it is no such table, PF6607 it is of another dump or other options, PF6608 it was changed.
        IncompleteError: PF6605 if a file cannot be written.
    """
    named = _NAME.fullmatch(result.name)
    if named is None or not result.is_file():
        what = "does not exist" if not result.exists() else f"is not named `{RESULT}<14 digits>.csv`"
        raise UsageError(
            Diagnostic(
                "PF6606",
                f"`{result}` {what}, so that it cannot be continued",
                path=str(result),
                help="name the table of calls that the interrupted check left",
            )
        )
    log = CheckLog(result.parent, named[1], terms.kernels)
    former, places, end = _read_record(log.record)
    if former != terms and not is_forced:
        what = "another dump" if former.dump != terms.dump else "other options"
        raise UsageError(
            Diagnostic(
                "PF6607",
                f"`{result.name}` is of {what}",
                path=str(result),
                help="begin anew without it, or continue all the same with `--force-resume`",
            )
        )
    log.known = WrittenResults(log.record, places)
    _, details = log.tables
    if former != terms:
        log.known = log.known.only(
            each.name for each in log.known.values() if set(calls.get(each.name, ())) == set(each.phases)
        )
        with _written(log.folder):
            log.rewrite(terms)
        return log
    with _written(log.folder):
        os.truncate(log.record, end)
        _mend(details, log.details_of(log.known.values()), is_forced=is_forced)
        _mend(result, log.results_of(log.known.values()), is_forced=is_forced)
    return log


def _read_record(path: Path) -> tuple[Terms, dict[str, int], int]:
    """Return the terms, where the whole line of each call begins, and where they end."""
    places: dict[str, int] = {}
    try:
        with open_bytes(path) as file:
            line = file.readline()
            terms, end = msgspec.json.decode(line, type=Terms), len(line)
            decoder = msgspec.json.Decoder(ApiResult)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                places[decoder.decode(line).name] = end
                end += len(line)
    except (OSError, msgspec.DecodeError) as error:
        raise _useless(path, error) from error
    return terms, places, end


def _useless(record: Path, error: Exception) -> UsageError:
    why = getattr(error, "strerror", None) or error
    return UsageError(
        Diagnostic(
            "PF6606",
            f"`{record.name}`, the record of the check, cannot be used: {why}",
            path=str(record),
            help="it lies beside the tables and says what was checked; without it, begin anew",
        )
    )


def _mend(path: Path, parts: Iterable[bytes], *, is_forced: bool) -> None:
    """Make a table hold these rows in this order, if it holds no others."""
    wanted = b"".join(parts)
    try:
        found = read_whole(path, MAX_TABLE_BYTES)
    except FileNotFoundError:
        found = b""
    if found == wanted:
        return
    is_beginning = wanted.startswith(found)  # cut anywhere, within a mark or a quoted cell too
    if not is_forced and not is_beginning and Counter(_rows(found)) - Counter(_rows(wanted)):
        raise UsageError(
            Diagnostic(
                "PF6608",
                f"`{path.name}` was changed since the check wrote it",
                path=str(path),
                help="put back what was written, or have it written anew with `--force-resume`",
            )
        )
    with atomic_bytes(path) as file:
        file.write(wanted)


def _rows(table: bytes) -> list[tuple[str, ...]]:
    """Return the whole rows of a table: the last one is cut if it lacks its end."""
    text = table[: table.rfind(b"\r\n") + 2].decode("utf-8-sig", "replace")
    return [tuple(row) for row in csv.reader(io.StringIO(text, newline=""))]


@contextmanager
def _written(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        name = Path(error.filename).name if error.filename else folder.name
        raise IncompleteError(
            Diagnostic(
                "PF6605",
                f"`{name}` cannot be written: {error.strerror or error}",
                path=str(error.filename or folder),
                help="free some disk or name another folder; what is checked already is continued with `-csv_path`",
            )
        ) from error
