"use strict";
// The error of every row along the order of execution, on a logarithmic scale; a lane for each rank.
(() => {
  const { cssColor: color, drawMark: mark, paintMark: paint } = probeFlow;
  const AXIS = 34;
  const REACH = 18;
  const MAX_BORDERS = 40;
  const ONE_MINUS = "1 \u2212 ";
  // Shown first, the first that there is.
  const FIRST = ["relative_euclidean_distance", "l2norm_diff_rel", "checksum_equal"];
  const [MAX_GUIDES, MAX_NAMED, MAX_OUTLINED] = [12, 4, 40]; // of what to see first
  const NAME_LENGTHS = [40, 28, 20, 12]; // characters; the first for which there is room beside a mark
  // Where to look: drawn even where there is no figure, at the upper edge.
  const FIRST_TO_SEE = new Set(["origin", "drift"]);
  const LOUD = 1.7; // times the size of other marks of its kind

  /** What is plotted of a dump that is examined alone: the largest size in each tensor. */
  const LARGEST = "max_abs";

  /** Metrics that a plot of errors can show: the lower the better, or the distance of a likeness from 1. */
  function plottable(store) {
    const { definitions } = store.data;
    const choices = [];
    for (const id of store.metricIds) {
      const better = definitions[id]?.better;
      if (better === "higher" && id.endsWith("cosine")) choices.push({ id, label: `${ONE_MINUS}${id}`, read: (row) => complement(store, id, row) });
      else if (id === "checksum_equal") choices.push({ id, label: "checksum differs", read: (row) => differs(store, id, row) });
      else if (better === "lower" || id === LARGEST) choices.push({ id, label: id, read: (row) => magnitude(store, id, row) });
    }
    const wanted = store.mainMode() === "checksum" ? ["checksum_equal", ...FIRST] : FIRST;
    const first = wanted.map((id) => choices.findIndex((choice) => choice.id === id)).find((place) => place >= 0);
    if (first > 0) choices.unshift(...choices.splice(first, 1));
    return choices;
  }

  function differs(store, id, row) {
    const value = store.metric(id, row);
    return value === null ? null : Number(!value);
  }

  function magnitude(store, id, row) {
    const value = store.metric(id, row);
    return typeof value === "number" ? Math.abs(value) : null;
  }

  function complement(store, id, row) {
    const value = store.metric(id, row);
    return typeof value === "number" ? Math.max(0, 1 - value) : null;
  }

  /** The scale: decades around the finite errors, a step below them for 0, one above for infinity and NaN, one for none. */
  function scaleOf(values) {
    let low = Infinity;
    let high = 0;
    let hasZero = false;
    let hasOver = false;
    let hasNone = false;
    for (const value of values) {
      if (value === null) hasNone = true;
      else if (value === 0) hasZero = true;
      else if (!Number.isFinite(value)) hasOver = true;
      else {
        if (value < low) low = value;
        if (value > high) high = value;
      }
    }
    if (high === 0) [low, high] = [1e-3, 1];
    const bottom = Math.floor(Math.log10(low));
    const top = Math.max(Math.ceil(Math.log10(high)), bottom + 1);
    return { bottom, top, zero: 10 ** (bottom - 1), over: 10 ** (top + 1), none: 10 ** (top + (hasOver ? 2 : 1)), hasZero, hasOver, hasNone };
  }

  class Plot {
    constructor(store, box, onPick) {
      this.store = store;
      this.box = box;
      this.onPick = onPick;
      this.selected = null;
      this.choices = plottable(store);
      this.choice = this.choices[0] ?? null;
      this.names = [...probeFlow.looks.keys()]; // drawn in this order, the most important last
      this.tip = probeFlow.el("div", { class: "plot-tip", hidden: true, "aria-hidden": "true" });
      new ResizeObserver(() => this.resize()).observe(box);
      this.ring = probeFlow.el("span", { class: "ring", hidden: true, "aria-hidden": "true" });
      this.rows = null;
      this.accused = accusedRows(store);
      this.isFirst = (row) => FIRST_TO_SEE.has(store.mark(row)) || this.accused.has(row);
      this.lanes = new probeFlow.Lanes(store, (row) => this.isFirst(row) || this.choices.some((choice) => choice.read(row) !== null));
      box.style.minHeight = `${this.lanes.most + AXIS + 4}px`; // fewer lanes, while rows are filtered, move nothing below
    }

    choose(id) {
      this.choice = this.choices.find((choice) => choice.id === id) ?? this.choice;
      this.show(this.rows);
    }

    /** Show these rows, in ascending order. */
    show(rows) {
      this.rows = rows;
      const { isFirst, lanes, store } = this;
      const read = (row) => (this.choice ? this.choice.read(row) : null);
      lanes.choose(rows, isFirst);
      this.drawn = rows.filter((row) => lanes.lane(row) !== undefined && (isFirst(row) || read(row) !== null));
      if (lanes.count > 1) this.drawn.sort((one, other) => lanes.x(one) - lanes.x(other) || one - other);
      this.values = this.drawn.map(read);
      this.first = [...this.drawn.keys()].filter((at) => isFirst(this.drawn[at]));
      this.begins = this.first.filter((at) => FIRST_TO_SEE.has(store.mark(this.drawn[at])));
      this.u?.destroy();
      this.u = null;
      this.box.replaceChildren();
      if (!this.drawn.length) {
        this.box.append(probeFlow.el("p", { class: "empty" }, this.store.count ? "None of these rows has an error to plot." : "There is nothing to plot."));
        return;
      }
      this.scale = scaleOf(this.values);
      const { scale } = this;
      const low = scale.hasZero ? scale.zero * 0.5 : 10 ** scale.bottom;
      const high = scale.hasNone ? scale.none * 4 : scale.hasOver ? scale.over * 2 : 10 ** scale.top;
      this.share = (placed) => Math.log10(placed / low) / Math.log10(high / low);
      this.data = [
        this.drawn.map((row) => lanes.x(row)),
        this.drawn.map((row, at) => lanes.y(lanes.lane(row), this.share(this.placed(this.values[at])))),
      ];
      this.draw();
      const note = lanes.note();
      if (note) this.box.append(probeFlow.el("p", { class: "muted lanes-left" }, note));
    }

    placed(value) {
      if (value === null) return this.scale.none;
      if (value === 0) return this.scale.zero;
      return Number.isFinite(value) ? value : this.scale.over;
    }

    draw() {
      const { lanes } = this;
      const ticks = this.ticks();
      const axis = { stroke: () => color("muted"), grid: { stroke: () => color("grid"), width: 1 }, ticks: { show: false } };
      const options = {
        width: this.width(),
        height: this.height(),
        padding: [10, 12, 0, 0],
        legend: { show: false },
        cursor: { x: true, y: false, points: { show: false }, drag: { x: true, y: false, dist: 6 } },
        scales: {
          x: { time: false, range: (u, min, max) => this.spread(min, max) },
          y: { range: () => [0, lanes.count] },
        },
        axes: [
          { ...axis, space: 90, values: (u, splits) => splits.map((x) => this.orderAt(x)), size: AXIS, label: null },
          { ...axis, size: 58, splits: () => [...ticks.keys()], filter: (u, splits) => splits, values: (u, splits) => splits.map((y) => ticks.get(y)) },
        ],
        series: [{}, { paths: (u, series, from, to) => this.marks(u, from, to), points: { show: false } }],
        hooks: {
          setScale: [(u, key) => key === "x" && this.onZoom?.(this.isZoomed())],
          drawClear: [(u) => this.executions(u)],
          drawAxes: [(u) => this.guides(u)], // above the grid, below the marks
          draw: [() => this.ring.isConnected && this.circle()],
        },
      };
      this.u = new uPlot(options, this.data, this.box);
      this.u.over.append(this.ring, this.tip);
      this.circle();
      this.listen();
    }

    height() {
      return this.lanes.height * this.lanes.count + AXIS;
    }

    width() {
      return Math.max(280, this.box.clientWidth);
    }

    resize() {
      if (this.u && this.u.width !== this.width()) this.u.setSize({ width: this.width(), height: this.height() });
    }

    spread(min, max) {
      const margin = Math.max(1, (max - min) * 0.01);
      return [min - margin, max + margin];
    }

    isZoomed() {
      const [xs] = this.data;
      return this.u ? this.u.scales.x.min > xs[0] || this.u.scales.x.max < xs[xs.length - 1] : false;
    }

    resetZoom() {
      const [xs] = this.data;
      this.u?.setScale("x", { min: xs[0], max: xs[xs.length - 1] });
    }

    /** The number in the order of execution; where ranks have lanes, the place in each rank's own order. */
    orderAt(x) {
      if (!Number.isInteger(x) || x < 0 || x >= this.store.count) return "";
      return probeFlow.group(this.lanes.ranks.length > 1 ? x : this.store.order(x));
    }

    /** Place on the scale of all lanes -> its label. */
    ticks() {
      const decades = this.decades();
      return new Map(this.lanes.shown.flatMap((rank, lane) => decades.map((value) => [this.lanes.y(lane, this.share(value)), this.tick(value)])));
    }

    decades() {
      const { bottom, top, hasZero, hasOver, hasNone, zero, over, none } = this.scale;
      const step = Math.max(1, Math.ceil((top - bottom) / Math.min(8, this.lanes.ticks)));
      const splits = hasZero ? [zero] : [];
      for (let decade = bottom; decade <= top; decade += step) splits.push(10 ** decade);
      return [...splits, ...(hasOver ? [over] : []), ...(hasNone ? [none] : [])];
    }

    tick(value) {
      const { hasZero, hasOver, hasNone, zero, over, none } = this.scale;
      if (hasNone && value === none) return "no figure";
      if (this.choice?.id === "checksum_equal") return value === 1 ? "differs" : hasZero && value === zero ? "equal" : "";
      if (hasZero && value === zero) return "0";
      if (hasOver && value === over) return "\u221e, NaN";
      return value >= 0.01 && value < 1000 ? String(Number(value.toPrecision(1))) : `1e${Math.round(Math.log10(value))}`.replace("-", "\u2212");
    }

    /** The rows of each lane in stretches of one execution: `{lane, execution, from, to}`, places along the lane. */
    stretches() {
      const [xs] = this.data;
      const open = new Map();
      const found = [];
      for (let at = 0; at < xs.length; at += 1) {
        const lane = this.lanes.lane(this.drawn[at]);
        const execution = this.store.execution(this.drawn[at]);
        const last = open.get(lane);
        if (last?.execution === execution) last.to = xs[at];
        else {
          const from = last ? (last.to + xs[at]) / 2 : -Infinity;
          if (last) last.to = from;
          const next = { lane, execution, from, to: xs[at] };
          open.set(lane, next);
          found.push(next);
        }
      }
      return found;
    }

    /** The upper edge of a lane on the canvas. */
    edge(u, lane) {
      return u.valToPos(this.lanes.count - lane, "y", true);
    }

    /** A line between lanes, a fine one where one execution ends and the next begins, and what each is called. */
    executions(u) {
      const { store, lanes } = this;
      if (store.executions.length < 2) return;
      const { ctx, bbox } = u;
      const ratio = devicePixelRatio;
      const [left, right] = [bbox.left, bbox.left + bbox.width];
      const accused = new Set(this.begins.map((at) => lanes.lane(this.drawn[at])));
      ctx.save();
      ctx.strokeStyle = color("line-strong");
      ctx.beginPath();
      for (let lane = 1; lane < lanes.count; lane += 1) {
        ctx.moveTo(0, this.edge(u, lane));
        ctx.lineTo(right, this.edge(u, lane));
      }
      ctx.stroke();
      ctx.setLineDash([3 * ratio, 3 * ratio]);
      ctx.beginPath();
      ctx.textBaseline = "middle";
      ctx.textAlign = "left";
      const stretches = this.stretches();
      const areFew = stretches.length <= MAX_BORDERS * lanes.count;
      const free = lanes.shown.map(() => left);
      for (const { lane, execution, from } of stretches) {
        const x = from === -Infinity ? left : u.valToPos(from, "x", true);
        const top = this.edge(u, lane);
        if (areFew && x > left && x <= right) {
          ctx.moveTo(x, top);
          ctx.lineTo(x, this.edge(u, lane + 1));
        }
        const isFirst = from === -Infinity;
        const text = lanes.nameOf(execution, isFirst);
        ctx.font = `${isFirst && lanes.ranks.length > 1 ? "600 " : ""}${12 * ratio}px system-ui, sans-serif`;
        const start = Math.max(x, left) + 4 * ratio;
        const width = ctx.measureText(text).width;
        if (!text || x > right || start < free[lane] || start + width > right) continue;
        ctx.fillStyle = color(isFirst && lanes.ranks.length > 1 && accused.has(lane) ? "origin-mark" : "muted");
        ctx.fillText(text, start, top + (lanes.head / 2 + 1) * ratio);
        free[lane] = start + width + 12 * ratio;
      }
      ctx.stroke();
      ctx.restore();
    }

    marks(u, from, to) {
      const [xs, ys] = this.data;
      const ratio = devicePixelRatio;
      const plain = this.names.map(() => new Path2D());
      const strong = this.names.map(() => new Path2D());
      const scale = (to - from > 4000 ? 0.8 : 1) * ratio;
      const { store } = this;
      const seen = this.names.map(() => new Set());
      const across = u.bbox.left + u.bbox.width + 1;
      const end = Math.min(to, xs.length - 1); // a drawing that was asked for before there were fewer rows
      for (let at = from; at <= end; at += 1) {
        const row = this.drawn[at];
        const number = store.markNumber(row);
        const excess = store.excess(row);
        const [x, y] = [u.valToPos(xs[at], "x", true), u.valToPos(ys[at], "y", true)];
        if (!FIRST_TO_SEE.has(this.names[number])) {
          // What would lie on a mark of its kind shows nothing, and 100,000 of them take minutes.
          const place = (Math.round(y) * across + Math.round(x)) * 2 + (excess > 1);
          if (seen[number].has(place)) continue;
          seen[number].add(place);
        }
        const size = this.accused.has(row) ? scale * LOUD : scale;
        mark((excess > 1 ? strong : plain)[number], this.names[number], x, y, size, excess);
      }
      const { ctx } = u;
      ctx.save();
      ctx.beginPath();
      ctx.rect(u.bbox.left - 8 * ratio, u.bbox.top - 8 * ratio, u.bbox.width + 16 * ratio, u.bbox.height + 16 * ratio);
      ctx.clip();
      this.names.forEach((name, number) => {
        paint(ctx, name, plain[number], ratio, false);
        paint(ctx, name, strong[number], ratio, true);
      });
      this.outline(u, scale);
      ctx.restore();
      this.nameFirst(u);
      return null;
    }

    /** A line across its lane at every origin, while there are few. */
    guides(u) {
      if (this.begins.length > MAX_GUIDES) return;
      const { ctx, bbox } = u;
      ctx.save();
      ctx.strokeStyle = color("origin-mark");
      ctx.globalAlpha = 0.45;
      ctx.lineWidth = 1.5 * devicePixelRatio;
      ctx.beginPath();
      for (const at of this.begins) {
        const x = u.valToPos(this.data[0][at], "x", true);
        if (x < bbox.left || x > bbox.left + bbox.width) continue;
        const lane = this.lanes.lane(this.drawn[at]);
        ctx.moveTo(x, this.edge(u, lane));
        ctx.lineTo(x, this.edge(u, lane + 1));
      }
      ctx.stroke();
      ctx.restore();
    }

    /** A gap between the marks of what to see first, while they are few: more would hide each other. */
    outline(u, scale) {
      if (this.begins.length > MAX_OUTLINED) return;
      const { ctx } = u;
      ctx.lineWidth = 1.6 * devicePixelRatio;
      ctx.strokeStyle = color("surface");
      for (const at of this.begins) {
        const path = new Path2D();
        const row = this.drawn[at];
        mark(path, this.store.mark(row), u.valToPos(this.data[0][at], "x", true), u.valToPos(this.data[1][at], "y", true), scale, this.store.excess(row));
        ctx.stroke(path);
      }
    }

    /** Word and name at the first origins; what has no figure says why it is at the edge. */
    nameFirst(u) {
      const { ctx, bbox } = u;
      const ratio = devicePixelRatio;
      const taken = [];
      ctx.save();
      ctx.font = `${12 * ratio}px system-ui, sans-serif`;
      ctx.textBaseline = "middle";
      for (const at of this.toName()) {
        const x = u.valToPos(this.data[0][at], "x", true);
        const y = u.valToPos(this.data[1][at], "y", true);
        const { text, left, right, isLeft } = this.besideMark(u, at, x);
        const box = { y, left, right };
        const isHidden = taken.some((other) => Math.abs(other.y - y) < 16 * ratio && box.left < other.right && other.left < box.right);
        if (x < bbox.left || x > bbox.left + bbox.width || isHidden) continue;
        taken.push(box);
        ctx.textAlign = isLeft ? "right" : "left";
        ctx.fillStyle = color(`${this.accused.has(this.drawn[at]) ? "over" : "origin"}-mark`);
        this.clear(ctx, box);
        ctx.fillText(text, isLeft ? right : left, y);
      }
      ctx.restore();
    }

    /** Marks below a name are paler, so that it can be read. */
    clear(ctx, { left, right, y }) {
      const ratio = devicePixelRatio;
      const { fillStyle } = ctx;
      ctx.fillStyle = color("surface");
      ctx.globalAlpha = 0.88;
      ctx.fillRect(left - 3 * ratio, y - 9 * ratio, right - left + 6 * ratio, 18 * ratio);
      Object.assign(ctx, { fillStyle, globalAlpha: 1 });
    }

    /** What has a name beside it, the first that begin; where nothing begins, what fails worst. */
    toName() {
      if (!this.accused.size) return this.first.slice(0, MAX_NAMED);
      const places = new Map(this.first.map((at) => [this.drawn[at], at]));
      return [...this.accused].map((row) => places.get(row)).filter((at) => at !== undefined).slice(0, MAX_NAMED);
    }

    /** The name of a mark and the side where it stands: what carries the error on comes behind, so before it if it can. */
    besideMark(u, at, x) {
      const { ctx, bbox } = u;
      const gap = 14 * devicePixelRatio;
      const room = { left: x - gap - bbox.left, right: bbox.left + bbox.width - x - gap };
      let found = null;
      for (const most of NAME_LENGTHS) {
        const text = this.nameOf(at, most);
        const width = ctx.measureText(text).width;
        const isLeft = width <= room.left || (width > room.right && room.left > room.right);
        found = { text, isLeft, left: isLeft ? x - gap - width : x + gap, right: isLeft ? x - gap : x + gap + width };
        if (width <= (isLeft ? room.left : room.right)) break;
      }
      return found;
    }

    nameOf(at, most) {
      const { store } = this;
      const row = this.drawn[at];
      const name = probeFlow.shortened(probeFlow.visible(store.name(row)), most);
      const why = this.values[at] === null ? ` (${whyNoFigure(store, row)})` : "";
      return `${probeFlow.looks.get(store.mark(row)).word}: ${name}${why}`;
    }

    /** Names of the marks that are drawn, the most important first. */
    shownMarks() {
      const present = new Set((this.u ? this.drawn : []).map((row) => this.store.markNumber(row)));
      return this.names.filter((name, number) => present.has(number)).reverse();
    }

    /** A ring around the selected row; an element of its own, so that selecting draws no marks anew. */
    circle() {
      const { u } = this;
      const at = !u || this.selected === null ? -1 : this.drawn.indexOf(this.selected);
      const x = at < 0 ? -1 : u.valToPos(this.data[0][at], "x");
      this.ring.hidden = x < 0 || x > u.over.clientWidth;
      if (this.ring.hidden) return;
      this.ring.style.left = `${x}px`;
      this.ring.style.top = `${u.valToPos(this.data[1][at], "y")}px`;
    }

    select(row) {
      this.selected = row;
      this.circle();
    }

    /** The mark nearest to a place in the plot, within reach. */
    nearest(left, top) {
      const [xs, ys] = this.data;
      const { u } = this;
      const middle = u.posToIdx(left);
      let best = null;
      for (const step of [-1, 1]) {
        for (let at = step < 0 ? middle : middle + 1; at >= 0 && at < xs.length; at += step) {
          const dx = u.valToPos(xs[at], "x") - left;
          if (Math.abs(dx) > REACH) break;
          const distance = Math.hypot(dx, u.valToPos(ys[at], "y") - top);
          if (distance <= REACH && (best === null || distance < best.distance)) best = { at, distance };
        }
      }
      return best === null ? null : best.at;
    }

    listen() {
      const { over } = this.u;
      let pressed = null;
      over.addEventListener("mousemove", (event) => this.hover(event));
      over.addEventListener("mouseleave", () => this.hover(null));
      over.addEventListener("mousedown", (event) => {
        pressed = [event.offsetX, event.offsetY];
      });
      over.addEventListener("mouseup", (event) => {
        const moved = pressed === null ? Infinity : Math.hypot(event.offsetX - pressed[0], event.offsetY - pressed[1]);
        pressed = null;
        if (moved > 3) return;
        const at = this.nearest(event.offsetX, event.offsetY);
        if (at !== null) this.onPick(this.drawn[at]);
      });
    }

    hover(event) {
      const at = event && event.target === this.u.over ? this.nearest(event.offsetX, event.offsetY) : null;
      this.tip.hidden = at === null;
      this.u.over.classList.toggle("hit", at !== null);
      if (at === null) return;
      const row = this.drawn[at];
      const { el, fill, badge, ruleWord, figure } = probeFlow;
      const value = this.values[at];
      fill(
        this.tip,
        el("strong", { class: "name" }, this.store.tensorName(row)),
        value === null ? el("span", {}, whyNoFigure(this.store, row)) : el("span", {}, this.choice.label, " ", el("b", {}, figure(value))),
        el("span", {}, badge(this.store.mark(row)), ruleWord(this.store.status(row))),
      );
      const x = this.u.valToPos(this.data[0][at], "x");
      const y = this.u.valToPos(this.data[1][at], "y");
      const isRight = x > this.u.over.clientWidth / 2;
      this.tip.style.left = isRight ? "auto" : `${x + 14}px`;
      this.tip.style.right = isRight ? `${this.u.over.clientWidth - x + 14}px` : "auto";
      this.tip.style.top = `${Math.max(0, Math.min(y - 20, this.height() - 130 - AXIS))}px`;
    }
  }

  /** Rows that fail by their own figures where no error is seen to begin, the worst first. */
  function accusedRows(store) {
    const failing = store.summary.findings.filter((found) => found.fails && found.row !== null);
    const begins = failing.some((found) => FIRST_TO_SEE.has(store.mark(found.row)));
    return new Set(begins ? [] : failing.map((found) => found.row).filter((row) => store.mark(row) === "over"));
  }

  function whyNoFigure(store, row) {
    return store.status(row).startsWith("unmatched") ? "no counterpart" : "no figure";
  }

  Object.assign(probeFlow, { Plot, plottable });
})();
