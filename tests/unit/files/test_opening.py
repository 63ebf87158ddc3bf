"""Opening files for reading: what is refused, and how long a line may be. Pipes: tests/cli/test_special_files.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from peak_memory import peak_bytes

from probe_flow.files.opening import MAX_LINE_BYTES, lines_of, open_text, read_whole

MIB = 1 << 20


def test_lines_keep_their_ends(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text("a\n\nb" + "c" * (MAX_LINE_BYTES - 1))
    with open_text(path) as file:
        assert [line[:2] for line in lines_of(file)] == ["a\n", "\n", "bc"]


def test_a_line_that_is_too_long_is_an_error_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text("a\n" + "b" * (MAX_LINE_BYTES + 1))
    with open_text(path) as file, pytest.raises(OSError, match="a line is longer than 1 MiB"):
        list(lines_of(file))


def test_a_file_that_is_too_large_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(bytes(2 * MIB))
    assert len(read_whole(path, 2 * MIB)) == 2 * MIB
    with pytest.raises(OSError, match="it is larger than 1 MiB"):
        read_whole(path, MIB)


READERS = {
    "ir": "from probe_flow.dumps.mindspore_graph.ir import *\ndef read(path): read_ir(path)",
    "py": "from probe_flow.dumps.torchair.graph_files import *\ndef read(path): read_source_lines(path)",
    "csv": "from probe_flow.dumps.file_names import *\ndef read(path): read_name_mapping(path, 'm')",
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_a_text_of_one_line_is_read_in_little_memory(tmp_path: Path, reader: str) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"a" * 60 * MIB)
    work = "try:\n    read(Path(sys.argv[1]))\nexcept ValueError as error:\n    print(error)"
    assert peak_bytes(f"from pathlib import Path\n{reader}", work, path) < 32 * MIB
