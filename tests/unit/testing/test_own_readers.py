"""Our own readers pass the tests that packages run on theirs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from small_dumps import WRITERS

from probe_flow.dumps.registry import READERS
from probe_flow.testing.readers import ReaderTests


@pytest.mark.parametrize("name", READERS.built_in)
class TestReaders(ReaderTests):
    @pytest.fixture(autouse=True)
    def _named(self, name: str) -> None:
        assert name in WRITERS, (
            f"no writer of small dumps for the reader `{name}`: add one to tests/support/small_dumps.py"
        )
        self.reader = READERS[name]
        self.write_dump = WRITERS[name]  # type: ignore[method-assign]

    def write_dump(self, folder: Path) -> Mapping[str, object]:
        raise NotImplementedError
