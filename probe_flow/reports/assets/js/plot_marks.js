"use strict";
// The marks of the plot: their shapes, how they are painted, what they mean.
(() => {
  const LEAST_ORIGIN = 8;

  function color(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  }

  /** The more of an origin's error is unexplained, the larger its mark. */
  function sizeOf(excess) {
    const fill = probeFlow.fillOf("origin", excess);
    return LEAST_ORIGIN + probeFlow.looks.get("origin").fills.findIndex(([, name]) => name === fill);
  }

  function drawMark(path, name, x, y, ratio, excess) {
    if (name === "origin") return diamond(path, x, y, sizeOf(excess) * ratio);
    if (name === "drift") return disc(path, x, y, 7.5 * ratio);
    if (name === "over") return cross(path, x, y, 3.6 * ratio);
    if (name === "inherited") return arrow(path, x, y, 4.2 * ratio);
    const radius = 2.4 * ratio;
    path.rect(x - radius, y - radius, 2 * radius, 2 * radius);
    return undefined;
  }

  function disc(path, x, y, r) {
    path.moveTo(x + r, y);
    path.arc(x, y, r, 0, 2 * Math.PI);
  }

  function diamond(path, x, y, r) {
    path.moveTo(x, y - r);
    path.lineTo(x + r, y);
    path.lineTo(x, y + r);
    path.lineTo(x - r, y);
    path.closePath();
  }

  function cross(path, x, y, r) {
    path.moveTo(x - r, y - r);
    path.lineTo(x + r, y + r);
    path.moveTo(x + r, y - r);
    path.lineTo(x - r, y + r);
  }

  function arrow(path, x, y, r) {
    path.moveTo(x, y - r);
    path.lineTo(x + r, y + r * 0.8);
    path.lineTo(x - r, y + r * 0.8);
    path.closePath();
  }

  /** What is only passed on is hollow, what adds to it filled. */
  function paintMark(ctx, name, path, ratio, isStrong) {
    const tone = color(`${name === "drift" ? "origin" : name}-mark`);
    ctx.lineWidth = 1.6 * ratio;
    ctx.strokeStyle = tone;
    ctx.fillStyle = tone;
    if (name === "over" || (name === "inherited" && !isStrong) || name === "missing") ctx.stroke(path);
    else ctx.fill(path);
  }

  /** What the marks mean, drawn by the same functions. */
  function legendOf(names) {
    const { el, looks } = probeFlow;
    return names.map((name) => {
      const canvas = el("canvas", { width: 28, height: 28, "aria-hidden": "true" });
      const path = new Path2D();
      drawMark(path, name, 14, 14, 1.4, null);
      paintMark(canvas.getContext("2d"), name, path, 1.4, false);
      return el("li", { "data-role": name, title: looks.get(name).meaning }, canvas, looks.get(name).word);
    });
  }

  Object.assign(probeFlow, { cssColor: color, drawMark, paintMark, legendOf });
})();
