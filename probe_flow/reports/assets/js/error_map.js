"use strict";
// Where in a tensor the errors are: its axes folded into rows and columns of cells, each as its largest error.
(() => {
  const ROOM = { width: 430, height: 300 };
  const LEAST = 4;
  const MOST = 22;
  const HEAD = 16;
  const FONT = "11px system-ui, sans-serif";
  // Parts of the largest error at which the next colour begins; 0 has one of its own.
  const STEPS = [1e-3, 1e-2, 1e-1, 1 / 3];
  const NOTABLE = 0.1;
  const MAX_NAMED = 4;
  const MOVES = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] };

  /** The maps of a closer look, with what their colours mean; `peak` is the largest golden magnitude. */
  function errorMaps(detail, peak) {
    const maps = (detail.maps ?? []).map((each) => new ErrorMap(each)).filter((each) => each.count > 1);
    if (!maps.length) return null;
    const { el } = probeFlow;
    return el("div", { class: "error-maps" }, el("h4", {}, "Where the errors are"), el("p", {}, maps[0].size(peak)), maps.map((each, place) => each.element(place ? "" : HINT)), legendOf(maps));
  }

  class ErrorMap {
    constructor(found) {
      Object.assign(this, found);
      this.values = found.errors.map(probeFlow.number);
      this.count = this.values.length;
      this.differs = new Set(found.mismatch);
      this.agrees = new Set(found.alike.filter((cell) => !this.differs.has(cell)));
      this.top = this.values.reduce((most, value) => Math.max(most, Number.isFinite(value) ? value : 0), 0);
      this.width = Math.max(LEAST, Math.min(MOST, Math.floor(ROOM.width / this.columns)));
      this.height = Math.max(LEAST, Math.min(MOST, Math.floor(ROOM.height / this.rows)));
      this.cursor = { row: 0, column: 0 };
    }

    element(hint) {
      const { el } = probeFlow;
      this.canvas = el("canvas", { "aria-hidden": "true", mousemove: (event) => this.point(event), mouseleave: () => this.tip.replaceChildren(hint) });
      this.tip = el("p", { class: "muted heat-tip", "aria-hidden": "true" }, hint);
      const label = `Map of errors, ${this.rows} by ${this.columns} cells. ${this.axesText()} ${this.summary()} Arrow keys move between cells.`;
      this.box = el(
        "div",
        { class: "error-map", tabindex: "0", role: "group", "aria-label": label, keydown: (event) => this.key(event), focus: () => this.draw(), blur: () => this.draw() },
        this.canvas,
      );
      this.canvas.redraw = () => this.draw();
      this.draw();
      return el("div", {}, el("p", {}, this.axesText()), this.box, this.tip, el("p", {}, this.summary()));
    }

    /** Which axes are which, and what a cell holds. */
    axesText() {
      const [tall, wide] = this.cell;
      const rest = this.shape.map((_, axis) => axis).filter((axis) => this.shape[axis] > 1 && ![...this.down, ...this.across].includes(axis));
      const [down, across] = [this.down, this.across].map((axes) => axesName(axes, this.shape));
      const over = rest.length ? `, over ${axesName(rest, this.shape)}` : "";
      const size = tall * wide === 1 ? "A cell is one place" : `A cell is ${tall} \u00d7 ${wide} places`;
      return `${down ? `${sentence(down)} down, ` : ""}${down ? across : sentence(across)} across. ${size}, coloured by the largest absolute error${over}.`;
    }

    /** How large the errors are, against the largest golden magnitude. */
    size(peak) {
      const { figure } = probeFlow;
      const share = peak > 0 && this.top ? `, ${figure((100 * this.top) / peak, 3)} % of the largest golden value` : "";
      const finite = this.values.some((value) => value !== null) ? `The largest error is ${figure(this.top, 3)}${share}.` : "No element is finite on both sides.";
      return this.values.some((value) => value === Infinity) ? `Some errors are beyond any number. ${finite}` : finite;
    }

    /** The picture in words: in how many rows and columns the notable errors are. */
    summary() {
      const { counted } = probeFlow;
      const differing = this.differs.size ? `NaN or infinities disagree in ${this.spread([...this.differs])}.` : "";
      const notable = this.values.flatMap((value, cell) => (value > NOTABLE * this.top ? [cell] : []));
      const large = notable.length ? `Errors above a tenth of the largest are in ${this.spread(notable)}.` : "";
      const known = [large, differing].filter(Boolean).join(" ");
      return known || `There is no error in ${counted(this.count, "cell")}.`;
    }

    /** In which rows and columns of the map some cells lie. */
    spread(cells) {
      const { counted, group } = probeFlow;
      const ways = [["row", this.rows, "down", (cell) => Math.floor(cell / this.columns)], ["column", this.columns, "across", (cell) => cell % this.columns]];
      const told = ways.filter(([, all]) => all > 1).map(([word, all, way, placeOf]) => {
        const hit = [...new Set(cells.map(placeOf))].sort((one, other) => one - other);
        if (hit.length === all) return `all ${counted(all, word)}`;
        const runs = [];
        for (const place of hit) {
          if (runs.length && runs[runs.length - 1][1] === place - 1) runs[runs.length - 1][1] = place;
          else runs.push([place, place]);
        }
        const names = runs.length <= MAX_NAMED ? ` (${this.named(way, runs.map(([from, to]) => this.range(way, from, to)).join("; "))})` : "";
        return `${group(hit.length)} of ${counted(all, word)}${names}`;
      });
      return told.join(" and ");
    }

    /** The indices that rows or columns of cells stand for. */
    range(way, place, end = place) {
      const [axes, size] = way === "down" ? [this.down, this.cell[0]] : [this.across, this.cell[1]];
      const lengths = axes.map((axis) => this.shape[axis]);
      const last = Math.min((end + 1) * size, product(lengths)) - 1;
      const [from, to] = [place * size, last].map((at) => unravelled(at, lengths));
      return from === to ? from : `${from}${axes.length > 1 ? " to " : "\u2013"}${to}`;
    }

    named(way, indices) {
      return this[way].length ? `${axesName(this[way])} at ${indices}` : "";
    }

    words({ row, column }) {
      const { figure } = probeFlow;
      const cell = row * this.columns + column;
      const value = this.values[cell];
      const place = [this.named("down", this.range("down", row)), this.named("across", this.range("across", column))].filter(Boolean).join(", ");
      const signs = this.differs.has(cell) ? ["NaN or infinity where the sides disagree"] : this.agrees.has(cell) ? ["NaN or infinity on both sides alike"] : [];
      const error = value === null ? (signs.length ? [] : ["not compared"]) : [value === 0 ? "no error" : `largest error ${figure(value, 4)}`];
      return `${sentence(place)}: ${[...signs, ...error].join(", ")}`;
    }

    draw() {
      const ctx = this.canvas.getContext("2d");
      const tone = probeFlow.cssColor;
      const tones = Object.fromEntries(["muted", "text", "accent", "grid", "nan", "surface"].map((name) => [name, tone(name)]));
      const shades = Array.from({ length: STEPS.length + 2 }, (_, shade) => tone(`size-${shade}`));
      ctx.font = FONT;
      const ends = { down: this.ends(this.down), across: this.ends(this.across) };
      this.left = this.down.length ? Math.ceil(Math.max(...ends.down.map((text) => ctx.measureText(text).width))) + 6 : 0;
      const [wide, tall] = [this.columns * this.width, this.rows * this.height];
      probeFlow.sizeCanvas(this.canvas, Math.max(this.left + wide, this.left + 60), HEAD + tall);
      ctx.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
      ctx.clearRect(0, 0, this.canvas.width, this.canvas.height);
      this.drawEnds(ctx, ends, wide, tall, tones.muted);
      const gap = Math.min(this.width, this.height) > 7 ? 1 : 0;
      for (let cell = 0; cell < this.count; cell += 1) {
        const [x, y] = [this.left + (cell % this.columns) * this.width, HEAD + Math.floor(cell / this.columns) * this.height];
        const value = this.values[cell];
        ctx.fillStyle = this.differs.has(cell) ? tones.nan : value === null ? tones.grid : shades[this.shade(value)];
        ctx.fillRect(x, y, this.width - gap, this.height - gap);
        if (!this.agrees.has(cell)) continue;
        ctx.fillStyle = tones.nan;
        ctx.fillRect(x + this.width / 4, y + this.height / 4, this.width / 2, this.height / 2);
      }
      if (document.activeElement !== this.box) return;
      ctx.strokeStyle = tones.text;
      ctx.lineWidth = 2;
      ctx.strokeRect(this.left + this.cursor.column * this.width - 1, HEAD + this.cursor.row * this.height - 1, this.width + 2, this.height + 2);
    }

    /** First and last index of the rows or the columns. */
    ends(axes) {
      const lengths = axes.map((axis) => this.shape[axis]);
      return [unravelled(0, lengths), unravelled(product(lengths) - 1, lengths)];
    }

    drawEnds(ctx, ends, wide, tall, tone) {
      ctx.font = FONT;
      ctx.fillStyle = tone;
      ctx.textBaseline = "alphabetic";
      ctx.textAlign = "left";
      ctx.fillText(ends.across[0], this.left, HEAD - 5);
      ctx.textAlign = "right";
      if (this.columns > 1 && wide > 60) ctx.fillText(ends.across[1], this.left + wide, HEAD - 5);
      if (!this.left) return;
      ctx.fillText(ends.down[0], this.left - 4, HEAD + 9);
      if (this.rows > 1 && tall > 24) ctx.fillText(ends.down[1], this.left - 4, HEAD + tall - 2);
    }

    shade(value) {
      if (value === 0) return 0;
      return 1 + STEPS.filter((step) => value > step * this.top).length;
    }

    at(event) {
      const { style, clientWidth, clientHeight } = this.canvas; // where there is little room it is narrower
      const column = Math.floor((event.offsetX * (Number.parseFloat(style.width) / clientWidth) - this.left) / this.width);
      const row = Math.floor((event.offsetY * (Number.parseFloat(style.height) / clientHeight) - HEAD) / this.height);
      return column < 0 || column >= this.columns || row < 0 || row >= this.rows ? null : { row, column };
    }

    point(event) {
      const spot = this.at(event);
      if (spot) this.tip.textContent = this.words(spot);
    }

    key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const [down, across] = MOVES[event.key] ?? [0, 0];
      const ends = { Home: { row: 0, column: 0 }, End: { row: this.rows - 1, column: this.columns - 1 } };
      if (!MOVES[event.key] && !ends[event.key]) return;
      event.preventDefault();
      event.stopPropagation();
      const limited = (value, count) => Math.max(0, Math.min(count - 1, value));
      this.cursor = ends[event.key] ?? { row: limited(this.cursor.row + down, this.rows), column: limited(this.cursor.column + across, this.columns) };
      this.draw();
      this.tip.textContent = this.words(this.cursor);
      probeFlow.say(this.words(this.cursor));
    }
  }

  const HINT = "Point at a cell, or move there with the arrow keys, for its indices and its error.";

  function sentence(text) {
    return text.charAt(0).toUpperCase() + text.slice(1);
  }

  /** `axes 2, 3 (28 × 28)`; without a shape the name alone. */
  function axesName(axes, shape = null) {
    if (!axes.length) return "";
    const lengths = shape ? ` (${axes.map((axis) => probeFlow.group(shape[axis])).join(" \u00d7 ")})` : "";
    return `${axes.length > 1 ? "axes" : "axis"} ${axes.join(", ")}${lengths}`;
  }

  function product(lengths) {
    return lengths.reduce((all, length) => all * length, 1);
  }

  function unravelled(flat, lengths) {
    const index = [];
    let rest = flat;
    for (const length of [...lengths].reverse()) {
      index.unshift(rest % length);
      rest = Math.floor(rest / length);
    }
    return index.length > 1 ? `(${index.join(", ")})` : String(index[0] ?? 0);
  }

  function legendOf(maps) {
    const { el, figure } = probeFlow;
    const [first] = maps;
    const item = (swatch, text) => el("li", {}, el("span", { class: `heat-swatch ${swatch}`, "aria-hidden": "true" }), text);
    const bounds = first.top ? [...STEPS, 1].map((step, place) => item(`size-${place + 1}`, `${place ? "" : "up to "}${figure(step * first.top, 2)}`)) : [];
    return el(
      "ul",
      { class: "key heat-key", "aria-label": "What the colours of the maps mean" },
      item("size-0", "0"),
      bounds,
      maps.some((map) => map.differs.size) ? item("nan", "NaN or infinities disagree") : null,
      maps.some((map) => map.agrees.size) ? item("nan-alike", "NaN or infinities on both sides alike") : null,
      maps.some((map) => map.values.some((value, cell) => value === null && !map.differs.has(cell) && !map.agrees.has(cell))) ? item("grid", "not compared") : null,
    );
  }

  let isPrinting = false;

  function redraw() {
    for (const canvas of document.querySelectorAll(".error-map canvas")) canvas.redraw();
  }

  /** On paper the colours are the light ones, whatever the screen shows. */
  function print(isStart) {
    isPrinting = isStart;
    if (isStart) probeFlow.onPaper(redraw);
    else redraw();
  }

  new MutationObserver(() => isPrinting || redraw()).observe(document.documentElement, { attributeFilter: ["class"] });
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));

  Object.assign(probeFlow, { errorMaps });
})();
