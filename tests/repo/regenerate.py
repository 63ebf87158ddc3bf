"""Write the files that are made from the program: schema, reference pages. Run it from the checkout's root.

python tests/repo/regenerate.py
"""

from __future__ import annotations

from pathlib import Path

from probe_flow.errors import CODES
from probe_flow.errors.reference import diagnostics_page
from probe_flow.stages.registry import BUILT_IN, stage_types
from probe_flow.workflow.reference import workflow_page
from probe_flow.workflow.schema import schema_text

ROOT = Path(__file__).resolve().parents[2]


def generated() -> dict[Path, str]:
    """Return the text of every generated file by its path."""
    types = {uses: stage for uses, stage in stage_types().items() if uses in BUILT_IN}
    return {
        ROOT / "schemas" / "workflow.schema.json": schema_text(types),
        ROOT / "docs" / "reference" / "workflow-file.md": workflow_page(types),
        ROOT / "docs" / "reference" / "diagnostics.md": diagnostics_page(CODES),
    }


if __name__ == "__main__":
    for path, text in generated().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
