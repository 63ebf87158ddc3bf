"""All templates of an installation, ours and those of installed packages, and which one a name means."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path

from msgspec import Struct

from probe_flow.errors import Diagnostic, Severity, did_you_mean
from probe_flow.files.opening import open_bytes
from probe_flow.files.yaml.positions import parse_yaml
from probe_flow.packages import entry_points
from probe_flow.workflow.sources import MAX_FILE_BYTES, TEMPLATE
from probe_flow.workflow.templates.packaged import template_name, templates
from probe_flow.workflow.templates.team_templates import GROUP, announced

OURS = "probe-flow"


class Template(Struct, frozen=True):
    """A workflow to start from.

    Args:
        name: what people write behind ``template:``, with underscores.
        path: the file.
        package: the distribution that brings it.
        version: of that distribution; empty where it does not tell.
    """

    name: str
    path: Path
    package: str
    version: str = ""

    @property
    def full_name(self) -> str:
        """The name with its package, which no other package's has."""
        return f"{self.package}/{self.name}"

    @property
    def is_ours(self) -> bool:
        return self.package == OURS


class Shelf(Struct, frozen=True):
    """Every template, ours first, and what is wrong with packages that announce some."""

    templates: tuple[Template, ...]
    problems: tuple[Diagnostic, ...] = ()

    def find(self, name: str) -> tuple[Template | None, Diagnostic | None]:
        """Return the template that a name means, and what there is to say of it: an error where there is none.

        Packages do not replace templates of ours: one of the same name is told, and has a name with its package.
        """
        found = self._named(name)
        if not found:
            return None, self._unknown(name)
        ours = next((each for each in found if each.is_ours), None)
        return ours or (found[0] if len(found) == 1 else None), _clash(found) if len(found) > 1 else None

    def clashes(self) -> list[Diagnostic]:
        """Return one diagnostic for each name that several templates have."""
        return [_clash(same) for name in self._names() if len(same := self._named(name)) > 1]

    def label(self, template: Template) -> str:
        """Return the shortest name that means this template."""
        return template.name if self.find(template.name)[0] is template else template.full_name

    def _names(self) -> Iterable[str]:
        return dict.fromkeys(each.name for each in self.templates)

    def _named(self, name: str) -> list[Template]:
        package, _, plain = name.rpartition("/")
        wanted = template_name(plain)
        return [
            each
            for each in self.templates
            if each.name == wanted and (not package or _canonical(each.package) == _canonical(package))
        ]

    def _unknown(self, name: str) -> Diagnostic:
        labels = [self.label(each) for each in self.templates]
        near = did_you_mean(template_name(name), labels)
        return Diagnostic(
            "PF1101",
            f"there is no packaged workflow `{name}`",
            label="unknown template",
            help="  ".join(filter(None, (near, f"templates: {', '.join(labels)}"))),
            notes=tuple(problem.message for problem in self.problems),
        )


@cache
def shelf() -> Shelf:
    """Return the templates of this installation. Files are listed; no code of installed packages runs."""
    from probe_flow.version import __version__

    return make_shelf(templates(), __version__, entry_points(group=GROUP))


def make_shelf(ours: dict[str, Path], version: str, entries: Iterable[EntryPoint]) -> Shelf:
    """Return the templates of probe_flow, of which the version is given, and of packages."""
    theirs, problems = announced(entries)
    return Shelf(
        (
            *(Template(template_name(name), path, OURS, version) for name, path in ours.items()),
            *(Template(template_name(each.path.stem), each.path, each.package, each.version) for each in theirs),
        ),
        tuple(problems),
    )


def describe(template: Template) -> tuple[str, Diagnostic | None]:
    """Return what a template says of itself, empty where it says nothing; or why it cannot be read."""
    try:
        with open_bytes(template.path) as file:
            text = file.read(MAX_FILE_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        return "", _unreadable(template, getattr(error, "strerror", None) or str(error))
    document, problems = parse_yaml(text, template.path.name)
    if document is None:
        return "", _unreadable(template, problems[0].message if problems else "it is empty")
    description = document.values.get("description")
    return description if isinstance(description, str) else "", None


def _canonical(package: str) -> str:
    """Return the one spelling of a distribution's name: `Acme_Probe` and `acme.probe` are the same."""
    return re.sub(r"[-_.]+", "-", package).lower()


def _clash(same: list[Template]) -> Diagnostic:
    name = same[0].name
    others = [each for each in same if not each.is_ours]
    full = [f"`{TEMPLATE}{each}`" for each in dict.fromkeys(each.full_name for each in others)]
    if len(full) < len(others):
        rename = "rename one of the files in the package; names differ by more than `-`, `_`"
        return _name_taken(f"`{others[0].package}` brings several templates `{name}`", rename, same, Severity.ERROR)
    if len(others) < len(same):
        message = f"`{name}` is a template of probe_flow, which {_brought(others)} cannot replace"
        return _name_taken(message, f"theirs is {' or '.join(full)}", same, Severity.WARNING)
    message = f"`{name}` can be several templates, brought by {_brought(others)}"
    return _name_taken(message, f"say which: {' or '.join(full)}", same, Severity.ERROR)


def _brought(by: list[Template]) -> str:
    return " and ".join(f"the package `{each.package}`" for each in by)


def _name_taken(message: str, cure: str, same: list[Template], severity: Severity) -> Diagnostic:
    notes = tuple(f"{each.package} {each.version}: {each.path}" for each in same if not each.is_ours)
    return Diagnostic("PF7401", message, severity, label="name of several templates", help=cure, notes=notes)


def _unreadable(template: Template, why: str) -> Diagnostic:
    return Diagnostic(
        "PF7403",
        f"the template `{template.name}` of the package `{template.package}` cannot be read: {why}",
        Severity.WARNING,
        path=str(template.path),
        help="update or remove the package; if it is yours, `probe-flow validate` its file",
    )
