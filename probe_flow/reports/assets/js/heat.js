"use strict";
// Several executions at a glance: one band each, as dark as its largest error there; click one to look at it alone.
(() => {
  const BAND = 16;
  const GAP = 2;
  const LABEL = 170;
  const CELL = 6;

  class Heat {
    constructor(store, box, onPick) {
      this.store = store;
      this.box = box;
      this.onPick = onPick;
      this.chosen = () => true;
      if (store.executions.length < 2) {
        box.hidden = true;
        return;
      }
      this.rows = store.executions.map(() => []);
      for (let row = 0; row < store.count; row += 1) this.rows[store.execution(row)].push(row);
      this.canvas = probeFlow.el("canvas", { "aria-hidden": "true" });
      this.tip = probeFlow.el("p", { class: "muted heat-tip" }, HINT);
      box.append(probeFlow.el("div", { class: "heat-scroll" }, this.canvas), this.tip);
      this.canvas.addEventListener("click", (event) => this.pick(event));
      this.canvas.addEventListener("mousemove", (event) => this.point(event));
      this.canvas.addEventListener("mouseleave", () => {
        this.tip.textContent = HINT;
      });
      new ResizeObserver(() => this.draw()).observe(box);
    }

    /** Draw by this reader of errors; `chosen` says which executions are not faded. */
    show(read, chosen) {
      if (!this.rows) return;
      if (read !== this.read) {
        this.read = read;
        const measured = this.rows.map((rows, execution) => ({ execution, rows: rows.filter((row) => read(row) !== null) }));
        this.bands = measured.filter((band) => band.rows.length);
      }
      this.chosen = chosen;
      this.draw();
    }

    draw() {
      if (!this.read || !this.box.clientWidth) return;
      const ratio = devicePixelRatio;
      const width = this.box.clientWidth;
      const height = this.bands.length * (BAND + GAP);
      this.canvas.width = width * ratio;
      this.canvas.height = height * ratio;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
      const ctx = this.canvas.getContext("2d");
      ctx.scale(ratio, ratio);
      const cells = Math.max(8, Math.floor((width - LABEL) / CELL));
      const bands = this.bands.map((band) => this.worst(band.rows, cells));
      const finite = bands.flat().filter((value) => value > 0 && Number.isFinite(value));
      const low = Math.log10(finite.reduce((one, other) => Math.min(one, other), Infinity));
      const high = Math.log10(finite.reduce((one, other) => Math.max(one, other), 0));
      bands.forEach((values, at) => this.band(ctx, at, values, (width - LABEL) / cells, low, high));
    }

    /** The largest error of each cell; -1 where nothing was measured, infinity for NaN too. */
    worst(rows, cells) {
      const found = new Array(cells).fill(-1);
      rows.forEach((row, place) => {
        const value = this.read(row);
        const cell = Math.floor((place * cells) / rows.length);
        found[cell] = Math.max(found[cell], Number.isNaN(value) ? Infinity : value);
      });
      return found;
    }

    band(ctx, at, values, width, low, high) {
      const { cssColor, visible } = probeFlow;
      const top = at * (BAND + GAP);
      const execution = this.store.executions[this.bands[at].execution];
      ctx.globalAlpha = this.chosen(execution) ? 1 : 0.3;
      ctx.fillStyle = cssColor("text");
      ctx.font = "12px system-ui, sans-serif";
      ctx.textBaseline = "middle";
      ctx.fillText(visible(execution.label), 0, top + BAND / 2, LABEL - 10);
      const steps = [0, 1, 2, 3, 4, 5].map((step) => cssColor(`heat-${step}`));
      values.forEach((value, cell) => {
        ctx.fillStyle = value < 0 ? cssColor("grid") : steps[shade(value, low, high)];
        ctx.fillRect(LABEL + cell * width, top, Math.ceil(width), BAND);
      });
      ctx.globalAlpha = 1;
    }

    bandAt(event) {
      return this.bands[Math.floor(event.offsetY / (BAND + GAP))] ?? null;
    }

    rowAt(event) {
      const band = this.bandAt(event);
      if (!band) return null;
      const share = (event.offsetX - LABEL) / (this.canvas.clientWidth - LABEL);
      return share < 0 || share >= 1 ? null : band.rows[Math.floor(share * band.rows.length)];
    }

    point(event) {
      const row = this.rowAt(event);
      const band = this.bandAt(event);
      if (!band) return;
      const label = this.store.executions[band.execution].label;
      this.tip.textContent = probeFlow.visible(row === null ? label : `${label} \u00b7 near ${this.store.tensorName(row)}`);
    }

    pick(event) {
      const band = this.bandAt(event);
      if (band) this.onPick(band.execution);
    }
  }

  const HINT = "One band an execution, in execution order; the darker, the larger the error. Click a band to see it alone.";

  function shade(value, low, high) {
    if (value === 0) return 0;
    if (!Number.isFinite(value)) return 5;
    if (high <= low) return 3;
    return 1 + Math.min(4, Math.floor((5 * (Math.log10(value) - low)) / (high - low)));
  }

  Object.assign(probeFlow, { Heat });
})();
