"""The workflows that come with probe_flow, by name. Those of installed packages: `template_shelf`."""

from __future__ import annotations

from pathlib import Path


def packaged_root() -> Path:
    """Return the folder of ``workflows/`` and ``examples/``: inside the wheel, or the checkout around the package."""
    package = Path(__file__).absolute().parents[2]
    packaged = package / "_packaged"
    return packaged if packaged.is_dir() else package.parent


def templates(root: Path | None = None) -> dict[str, Path]:
    """Return every packaged workflow by its name, sorted."""
    folder = (root or packaged_root()) / "workflows"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def template_name(name: str) -> str:
    """Return a template's name for either spelling, ``torchair-ge-vs-fx`` or ``torchair_ge_vs_fx``."""
    return name.replace("-", "_")
