"""Runs of several ranks and steps for pictures of the HTML report, and what is seen in its plot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from report_builders import comparison, key, measurement, origin, row, tensor

from probe_flow.records import Comparison, Role, Row, Status

OPERATORS = ("MatMul_1", "Gelu_1", "Add_1", "Mul_1")
WRONG = {(1, 1): "Gelu_1", (63, 0): "Gelu_2"}
"""(rank, step) -> operator that goes wrong there; what follows inherits."""

COLOURS = """
const tone = (name) => probeFlow.cssColor(name).match(/[0-9a-f]{2}/g).map((part) => parseInt(part, 16)).join(' ');
const part = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
const luminance = (text) => {
  const [r, g, b] = text.match(/[0-9.]+/g).map(Number).map(part);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (one, other) => {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};
"""
MARKS = (
    COLOURS
    + """
// How many pixels of the plot have the colour of each mark, and the box around them, in pixels of the page.
const canvas = document.querySelector('#plot canvas');
const {width, height} = canvas;
const pixels = canvas.getContext('2d').getImageData(0, 0, width, height).data;
const names = ['origin', 'inherited', 'over', 'fine', 'missing', 'gap'];
const nothing = {count: 0, left: width, top: height, right: 0, bottom: 0};
const found = Object.fromEntries(names.map((name) => [name, {...nothing}]));
const byTone = new Map(names.map((name) => [tone(`${name}-mark`), found[name]]));
for (let at = 0; at < pixels.length; at += 4) {
  const mark = pixels[at + 3] === 255 ? byTone.get(`${pixels[at]} ${pixels[at + 1]} ${pixels[at + 2]}`) : undefined;
  if (!mark) continue;
  const [x, y] = [(at / 4) % width, Math.floor(at / 4 / width)];
  mark.count += 1;
  Object.assign(mark, {left: Math.min(mark.left, x), right: Math.max(mark.right, x)});
  Object.assign(mark, {top: Math.min(mark.top, y), bottom: Math.max(mark.bottom, y)});
}
return found;
"""
)
WRITTEN = """
// What the plot writes when it is drawn, with the colour of each text.
const texts = [];
const plain = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
  texts.push([text, this.fillStyle]);
  return plain.call(this, text, ...place);
};
document.getElementById('plot-metric').dispatchEvent(new Event('change'));
const done = arguments[0];
requestAnimationFrame(() => setTimeout(() => {
  CanvasRenderingContext2D.prototype.fillText = plain;
  done([...new Map(texts.map((each) => [each.join(), each])).values()]);
}, 50));
"""


def executed(rank: int, step: int, start: int, operators: Sequence[str] = OPERATORS, graph: int = 1) -> list[Row]:
    found: list[Row] = []
    is_wrong = False
    for place, name in enumerate(operators):
        node, golden = (key(each, rank=rank, step=step, graph=graph) for each in (name, name.lower()))
        verdict: dict[str, Any] = {"status": Status.PASS, "role": Role.CLEAN}
        if WRONG.get((rank, step)) == name:
            is_wrong, verdict = True, {"status": Status.FAIL, "role": Role.ORIGIN}
        elif is_wrong:
            verdict = {"status": Status.FAIL, "role": Role.INHERITED}
        measured = measurement({"relative_euclidean_distance": 0.25 if is_wrong else 1e-4, "cosine": 1.0})
        sides = {"target": tensor(node=node), "golden": tensor(side="golden", node=golden)}
        found.append(row(start + place, **sides, measured=measured, **verdict))
    return found


def sample(ranks: int = 3, steps: int = 2, operators: Sequence[str] = OPERATORS) -> Comparison:
    rows: list[Row] = []
    for step in range(steps):
        for rank in range(ranks):
            rows += executed(rank, step, len(rows), operators)
    wrong = [each for each in rows if each.verdict.role is Role.ORIGIN]
    found = tuple(origin(each.order, each.pair.shown.node.name, node=each.pair.shown.node) for each in wrong)
    return comparison(*rows, findings=found, gate_passed=not found)
