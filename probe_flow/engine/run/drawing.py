"""The stages of a plan as a picture, in text: Mermaid (which code hosts draw) and DOT (graphviz)."""

from __future__ import annotations

import json

from probe_flow.engine.run.plan import Plan, PlannedStage


def mermaid(plan: Plan) -> str:
    """Return the plan as a Mermaid flow chart; stages that do not run are dashed."""
    ids = _ids(plan)
    lines = ["flowchart LR"]
    for planned in plan.stages:
        label = "<br/>".join(map(_mermaid_text, _label(planned)))
        lines.append(f'  {ids[planned.stage.name]}["{label}"]')
    lines += [f"  {ids[giver]} --> {ids[taker]}" for giver, taker in _wires(plan)]
    left_out = [ids[planned.stage.name] for planned in plan.stages if not planned.is_selected]
    if left_out:
        lines += ["  classDef left stroke-dasharray: 4 4", f"  class {','.join(left_out)} left"]
    return "\n".join(lines) + "\n"


def dot(plan: Plan) -> str:
    """Return the plan as a directed graph for graphviz; stages that do not run are dashed."""
    lines = [f"digraph {json.dumps(plan.workflow.name)} {{", "  rankdir=LR;", "  node [shape=box];"]
    for planned in plan.stages:
        style = "" if planned.is_selected else ", style=dashed"
        lines.append(f"  {json.dumps(planned.stage.name)} [label={_dot_text(_label(planned))}{style}];")
    lines += [f"  {json.dumps(giver)} -> {json.dumps(taker)};" for giver, taker in _wires(plan)]
    return "\n".join([*lines, "}"]) + "\n"


def _ids(plan: Plan) -> dict[str, str]:
    return {planned.stage.name: f"s{number}" for number, planned in enumerate(plan.stages)}


def _label(planned: PlannedStage) -> tuple[str, str]:
    return planned.stage.name, planned.stage.type.uses


def _wires(plan: Plan) -> list[tuple[str, str]]:
    known = {planned.stage.name for planned in plan.stages}
    wires = ((name, each.stage.name) for each in plan.stages for names in each.stage.inputs.values() for name in names)
    return list(dict.fromkeys((giver, taker) for giver, taker in wires if giver in known))


def _mermaid_text(text: str) -> str:
    return "".join(char if char.isalnum() or char in " ._-=[,]" else f"#{ord(char)};" for char in text)


def _dot_text(lines: tuple[str, str]) -> str:
    return '"' + "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in lines) + '"'
