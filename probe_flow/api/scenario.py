"""Which comparison two dumps call for: the packaged workflow for such dumps says how they are paired and judged."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from probe_flow.errors import Diagnostic, UsageError
from probe_flow.records import Framework
from probe_flow.records.frameworks import ARRAYS, MINDSPORE, OM, PYTORCH, TORCHAIR_FX, TORCHAIR_GE, Kernels, named

TORCHAIR = "torchair_ge_vs_fx"
FUSION = "torchair_fusion_on_vs_off"
PYTORCH_DUMPS = "pytorch_compare"
MINDSPORE_DUMPS = "mindspore_compare"
ACROSS = "mindspore_vs_pytorch_layer_mapping"
OFFLINE_MODELS = "offline_om_vs_om"
ARRAY_FOLDERS = "arrays_compare"


class Scenario(NamedTuple):
    """How two dumps are compared.

    Args:
        match: the stage that pairs them.
        policy: what judges the rows.
    """

    match: str
    policy: str


OF_OTHERS = Scenario("match.name", "torchair")
"""For two dumps of one format that probe_flow does not know: by equal names, and by how far elements are off."""


def scenario_of(target: Framework, golden: Framework) -> Scenario:
    """Return how dumps of two frameworks are compared.

    Raises:
        UsageError: PF2122 when nothing is known for them.
    """
    template = packaged_for(target, golden)
    if template is not None:
        return _of_workflow(template)
    if target.name == golden.name and target.name:
        return OF_OTHERS
    is_reversed = packaged_for(golden, target) is not None
    cure = "the other way round they do" if is_reversed else "name the way to pair them, e.g. `match='name'`"
    message = (
        f"the two sides do not go together: the target is a dump of `{target.name}`, the golden of `{golden.name}`"
    )
    raise UsageError(Diagnostic("PF2122", message, help=cure))


def packaged_for(target: Framework, golden: Framework) -> str | None:
    """Return the name of the packaged workflow for dumps of two frameworks; None where there is none."""
    if target == TORCHAIR_GE:
        return {TORCHAIR_GE: FUSION, TORCHAIR_FX: TORCHAIR}.get(golden)
    offline = [framework == OM or framework.is_arrays for framework in (target, golden)]
    if any(offline):
        is_reversed = golden == OM and target != OM
        return OFFLINE_MODELS if all(offline) and not is_reversed else None
    if target == golden == ARRAYS:
        return ARRAY_FOLDERS
    if target.kernels is None or golden.kernels is None:
        return None
    if target == golden == PYTORCH:
        return PYTORCH_DUMPS
    if golden.kernels is Kernels.PYTORCH:
        return ACROSS if target.kernels is Kernels.MINDSPORE else None
    return MINDSPORE_DUMPS if target.kernels is Kernels.MINDSPORE else None


def framework_at(path: Path, kind: str | None) -> Framework:
    """Return what wrote the dump at a path, from the names of its files and the head of a `dump.json`.

    Raises:
        UsageError, IncompleteError: as `kind_of_dump`.
    """
    from probe_flow.dumps.dump_json.head import read_head
    from probe_flow.dumps.registry import DUMP_JSON, MINDSPORE_GRAPH
    from probe_flow.dumps.sniff import kind_of_dump

    found = kind or kind_of_dump(str(path))
    if found == DUMP_JSON:
        head = read_head(path)
        return (head.framework if head is not None else None) or PYTORCH
    return MINDSPORE if found == MINDSPORE_GRAPH else named(found)


def _of_workflow(template: str) -> Scenario:
    """Return what a packaged workflow does; only its text is read."""
    from probe_flow.workflow.loading.extends import Layers
    from probe_flow.workflow.sources import Sources
    from probe_flow.workflow.templates.packaged import templates

    document = Layers(Sources(Path.cwd())).load(templates()[template])
    stages = document.values["stages"] if document is not None else None
    assert isinstance(stages, dict), "tests run every packaged workflow"
    uses = {str(stage["uses"]): stage for stage in stages.values()}
    match = next(name for name in uses if name.startswith("match."))
    return Scenario(match, str(uses["compare"]["policy"]))
