"""Tables of aligned columns for the terminal, wide characters counted as they are drawn."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def text_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[str] = (), indent: int = 2
) -> list[str]:
    """Return rows as lines below a header; columns that are empty in every row are left out, none at all without rows.

    Args:
        header: names of the columns.
        rows: printable cells.
        right: names of the columns that are set to the right.
        indent: blanks before each line.
    """
    used = [place for place in range(len(header)) if any(row[place] for row in rows)]
    lines = []
    widths = {place: max(_width(row[place]) for row in (header, *rows)) for place in used}
    for row in (header, *rows) if rows else ():
        cells = (_padded(row[place], widths[place], is_right=header[place] in right) for place in used)
        lines.append((" " * indent + "  ".join(cells)).rstrip())
    return lines


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _padded(text: str, width: int, *, is_right: bool) -> str:
    room = " " * (width - _width(text))
    return room + text if is_right else text + room
