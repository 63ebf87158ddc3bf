"""The workflows that come with probe_flow: what `templates`, `init` and ``extends: template:NAME`` offer."""

from __future__ import annotations

from pathlib import Path

from probe_flow.formats.yaml_positions import parse_yaml

PREFIX = "template:"


def packaged_root() -> Path:
    """Return the folder of ``workflows/`` and ``examples/``: inside the wheel, or the checkout around the package."""
    package = Path(__file__).absolute().parents[1]
    packaged = package / "_packaged"
    return packaged if packaged.is_dir() else package.parent


def templates(root: Path | None = None) -> dict[str, Path]:
    """Return every packaged workflow by its name, sorted."""
    folder = (root or packaged_root()) / "workflows"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def template_name(name: str) -> str:
    """Return a template's file name for either spelling, ``torchair-ge-vs-fx`` or ``torchair_ge_vs_fx``."""
    return name.replace("-", "_")


def describe(path: Path) -> str:
    """Return the description of a packaged workflow, or nothing where it has none."""
    document, _ = parse_yaml(path.read_text(encoding="utf-8"), path.name)
    description = document.values.get("description") if document else None
    return description if isinstance(description, str) else ""
