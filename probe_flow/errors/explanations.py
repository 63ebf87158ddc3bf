"""What `probe-flow explain` says of each diagnostic code: `CODES`, read from `codes/*.yaml` when a text is asked for.

A file of `codes/` is named after the start of its range and holds the codes up to the next file's, in order. Raising or
showing a diagnostic takes none of these texts, so a command that explains nothing reads no file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from probe_flow.errors.diagnostics import Diagnostic, InternalError

FOLDER = Path(__file__).with_name("codes")

FILES = (
    "PF1000_workflow_file",
    "PF2000_plan",
    "PF3000_tensor_files",
    "PF3200_dump_folders",
    "PF3400_framework_dumps",
    "PF4000_pairing",
    "PF4300_rule_files",
    "PF5000_comparing",
    "PF6000_running",
    "PF6300_making_dumps",
    "PF6400_tensor_views",
    "PF6600_prechecks",
    "PF7000_reports",
    "PF7200_questions_and_baselines",
    "PF7400_next_steps",
    "PF9000_defects",
)
"""The data files in order, listed so that one that an installation lacks is missed."""

_FIELDS = ["title", "cause", "example", "cure"]


class Code(Struct, frozen=True):
    """What `probe-flow explain` says of a code.

    Args:
        id: ``PFnnnn``; never reused, never changes meaning.
        title: the problem in a few words.
        cause: how it comes about.
        example: input or output that shows it.
        cure: what to do.
    """

    id: str
    title: str
    cause: str
    example: str
    cure: str


class _Codes(Mapping[str, Code]):
    """Every code in order; looking one up reads its own file only."""

    def __getitem__(self, code: str) -> Code:
        name = max((name for name in FILES if name.partition("_")[0] <= code), default=None)
        if name is None:
            raise KeyError(code)
        return read_file(name)[code]

    def __iter__(self) -> Iterator[str]:
        return (code for name in FILES for code in read_file(name))

    def __len__(self) -> int:
        return sum(len(read_file(name)) for name in FILES)


CODES: Mapping[str, Code] = _Codes()


@cache
def read_file(name: str) -> Mapping[str, Code]:
    """Return the codes of one data file.

    Args:
        name: one of `FILES`.

    Raises:
        InternalError: PF9001 when the file is missing or damaged.
    """
    import yaml  # only where a text is asked for

    path = FOLDER / f"{name}.yaml"
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        found = yaml.load(path.read_bytes(), loader)  # noqa: S506  # safe in C and in Python
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise _damaged(path, " ".join(str(error).split())) from error
    if not isinstance(found, dict):
        raise _damaged(path, "it is no mapping of codes")
    return {code: _code(path, code, texts) for code, texts in found.items()}


def _code(path: Path, code: str, texts: Any) -> Code:
    given = texts if isinstance(texts, dict) else {}
    if list(given) != _FIELDS or not all(isinstance(each, str) for each in given.values()):
        raise _damaged(path, f"`{code}` has other than the texts {', '.join(_FIELDS)}")
    return Code(code, **given)


def _damaged(path: Path, reason: str) -> InternalError:
    return InternalError(
        Diagnostic(
            "PF9001",
            f"a file of this installation is missing or damaged: {reason}",
            path=str(path),
            help="install probe_flow again",
        )
    )
