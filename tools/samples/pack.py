"""Pack samples: ``python tools/samples/pack.py FOLDER examples/SCENARIO``.

Every folder in FOLDER becomes a sample in ``examples/SCENARIO/samples.zip``, in place of those that were there. FOLDER
is what a script of this folder wrote, or ``examples/SCENARIO`` itself, after one of its samples was replaced. The same
files give the same archive.
"""

from __future__ import annotations

import argparse
import io
import zipfile
from pathlib import Path

ARCHIVE = "samples.zip"
DATE = (1980, 1, 1, 0, 0, 0)
MODE = 0o100644


def packed(folder: Path) -> bytes:
    """Return the archive of the folders in a folder, hidden ones aside."""
    samples = [each for each in folder.iterdir() if each.is_dir() and not each.name.startswith((".", "_"))]
    names = sorted(
        f"{sample.name}/{path.relative_to(sample.resolve()).as_posix()}"
        for sample in samples
        for path in sample.resolve().rglob("*")
        if path.is_file()
    )
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in names:
            member = zipfile.ZipInfo(name, DATE)
            member.create_system, member.external_attr = 3, MODE << 16
            archive.writestr(member, (folder / name).read_bytes(), zipfile.ZIP_DEFLATED, 9)
    return content.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("scenario", type=Path)
    given = parser.parse_args()
    content = packed(given.folder)
    (given.scenario / ARCHIVE).write_bytes(content)
    print(f"{given.scenario / ARCHIVE}: {len(content):,} bytes")


if __name__ == "__main__":
    main()
