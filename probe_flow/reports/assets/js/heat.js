"use strict";
// Several executions at a glance: operators down, ranks or steps across; only the cells in sight are drawn.
(() => {
  const ROW = 18;
  const LABEL = 240;
  const LEAST_LABEL = 110;
  const MAX_LABEL = 420;
  const LETTER = 7.3;
  const BAR = 16;
  const NARROW = 15;
  const WIDE = 56;
  const ROWS_IN_SIGHT = 18;
  const OVERVIEW = 72;
  const HEAD = 22;
  const TALL_HEAD = 130;
  const ROWS_IN_PRINT = 60;
  const FONT = "system-ui, sans-serif";
  const ROOM_FOR_BOTH = 36;
  const OPERATORS = { compared: "compared", wrong: "that are off somewhere", all: "all" };

  class Heat {
    constructor(store, box, { onPick, onPart, onExecution }) {
      Object.assign(this, { store, box, onPick, onPart, onExecution });
      this.axes = store.executions.length > 1 ? probeFlow.axesOf(store) : [];
      this.card = document.getElementById("executions");
      this.card.hidden = !this.axes.length;
      document.getElementById("executions-jump").hidden = this.card.hidden;
      if (this.card.hidden) return;
      [this.axis] = this.axes;
      this.which = "compared";
      this.cursor = { place: 0, column: 0 };
      this.frame();
      // A report of many ranks opens at its summary: the cells are made when they come into sight.
      new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && this.start(), { rootMargin: "300px" }).observe(this.card);
    }

    frame() {
      const { el, fill } = probeFlow;
      this.canvas = el("canvas", { "aria-hidden": "true" });
      this.spacer = el("div", { class: "heat-space" }, this.canvas);
      this.scroller = el("div", { class: "heat-scroll", id: "heat-map", tabindex: "0", role: "group", keydown: (event) => this.key(event) }, this.spacer);
      this.overview = el("canvas", { class: "heat-overview", "aria-hidden": "true" });
      this.tip = el("p", { class: "muted heat-tip", "aria-hidden": "true" });
      this.legend = el("ul", { class: "key heat-key", "aria-label": "What the cells mean" });
      fill(this.box, el("div", { class: "heat-both" }, this.scroller, this.overview), this.tip, this.legend);
      this.axisSelect = this.picker("heat-axis", this.axes.map((axis, place) => [place, axis.title]), (value) => {
        this.axis = this.axes[Number(value)];
      });
      this.modeSelect = this.picker("heat-mode", [], (value) => {
        this.modeId = value;
      });
      this.whichSelect = this.picker("heat-which", Object.entries(OPERATORS), (value) => {
        this.which = value;
      });
      fill(
        document.getElementById("heat-tools"),
        this.axes.length > 1 ? el("label", {}, "Across ", this.axisSelect) : null,
        el("label", {}, "Colour ", this.modeSelect),
        el("label", {}, "Operators ", this.whichSelect),
      );
      this.listen();
    }

    picker(id, options, apply) {
      const { el } = probeFlow;
      const change = (event) => {
        apply(event.target.value);
        this.make();
        this.toFinding();
      };
      return el("select", { id, change }, options.map(([value, text]) => el("option", { value }, text)));
    }

    listen() {
      this.scroller.addEventListener("scroll", () => this.soon(), { passive: true });
      this.canvas.addEventListener("click", (event) => this.click(event));
      this.canvas.addEventListener("mousemove", (event) => this.point(event));
      this.canvas.addEventListener("mouseleave", () => this.tell(null));
      this.scroller.addEventListener("focus", () => this.soon());
      this.scroller.addEventListener("blur", () => this.soon());
      const move = (event) => event.buttons === 1 && this.scrollToShare(event.offsetY / this.overview.clientHeight);
      this.overview.addEventListener("mousedown", move);
      this.overview.addEventListener("mousemove", move);
      addEventListener("beforeprint", () => this.print(true));
      addEventListener("afterprint", () => this.print(false));
      new ResizeObserver(() => this.layout()).observe(this.box);
    }

    start() {
      if (this.isStarted) return;
      this.isStarted = true;
      if (this.choice === undefined) return;
      this.make();
      this.toFinding();
    }

    /** Colour by this metric where errors are shown; `takes` says which executions the filters show. */
    show(choice, state) {
      if (this.card.hidden) return;
      const filter = JSON.stringify(state);
      const isSame = choice === this.choice && filter === this.filter;
      Object.assign(this, { choice, state: { ...state }, filter });
      if (!this.isStarted) return;
      if (isSame && this.cells) this.soon();
      else this.make();
    }

    /** Executions that the filters leave out have no cells, but those of the axis itself only fade. */
    takes(execution, part) {
      return Object.entries(this.state).every(([name, value]) => name === part || part === null || execution[name] === value);
    }

    isFaded(column) {
      const value = this.axis.values[column];
      if (this.axis.part !== null) return this.axis.part in this.state && this.state[this.axis.part] !== value;
      return Object.entries(this.state).some(([name, wanted]) => this.store.executions[value][name] !== wanted);
    }

    make() {
      if (!this.isStarted) return;
      const apart = probeFlow.isByGraph(this.store, this.axis);
      if (this.operators?.apart !== apart) this.operators = { ...probeFlow.operatorsOf(this.store, apart), apart };
      const modes = probeFlow.modesOf(this.store, this.choice);
      this.mode = modes.find((mode) => mode.id === this.modeId) ?? modes[0];
      probeFlow.fill(this.modeSelect, modes.map((mode) => probeFlow.el("option", { value: mode.id, selected: mode === this.mode }, mode.label)));
      this.cells = new probeFlow.Cells(this.store, this.operators, this.axis, this.mode, (execution, part) => this.takes(execution, part));
      this.shown = this.cells.shown(this.which);
      document.getElementById("executions-title").textContent = `Operators by ${this.axis.title}`;
      const { counted } = probeFlow;
      const size = `${counted(this.shown.length, "operator")} by ${counted(this.axis.labels.length, this.axis.title)}`;
      this.scroller.setAttribute("aria-label", `Heat map of ${size}: arrow keys move between cells, Enter opens the row of a cell`);
      probeFlow.fill(this.legend, legendOf(this.mode, this.cells));
      this.cursor = this.within(this.cursor);
      this.layout();
      this.tell(null);
    }

    layout() {
      if (!this.cells || !this.box.clientWidth) return;
      const ctx = this.canvas.getContext("2d");
      ctx.font = `11px ${FONT}`;
      const longest = this.axis.labels.reduce((most, label) => Math.max(most, ctx.measureText(label).width), 0);
      const needsOverview = this.shown.length > ROWS_IN_SIGHT && !this.isPrinting;
      const room = this.box.clientWidth - (needsOverview ? OVERVIEW + 12 : 0);
      const columns = this.axis.labels.length;
      const longestName = this.shown.reduce((most, operator) => Math.max(most, this.operators.names[operator].length), 0);
      const names = Math.max(LEAST_LABEL, Math.min(MAX_LABEL, longestName * LETTER + 14));
      const least = Math.min(names, LABEL, Math.floor(room * 0.4));
      this.column = Math.max(NARROW, Math.min(WIDE, Math.floor((room - least - BAR) / columns)));
      this.label = Math.max(least, Math.min(names, room - BAR - columns * this.column));
      this.isTurned = longest + 6 > this.column;
      this.head = this.isTurned ? Math.min(TALL_HEAD, Math.ceil(longest) + 14) : HEAD;
      this.listed = this.isPrinting ? this.shown.slice(0, ROWS_IN_PRINT) : this.shown;
      const rows = this.isPrinting ? this.listed.length : Math.min(this.listed.length, ROWS_IN_SIGHT);
      this.overview.hidden = !needsOverview;
      const wanted = this.label + columns * this.column + (needsOverview ? BAR : 0);
      const isScrolled = wanted > room;
      this.scroller.style.width = `${Math.min(room, wanted)}px`;
      this.scroller.style.height = `${this.head + rows * ROW + (isScrolled ? BAR : 0)}px`;
      this.spacer.style.height = `${this.head + this.listed.length * ROW}px`;
      this.spacer.style.width = `${this.label + columns * this.column}px`;
      size(this.overview, OVERVIEW, this.head + rows * ROW);
      this.draw();
    }

    soon() {
      this.waiting ??= requestAnimationFrame(() => this.draw());
    }

    draw() {
      cancelAnimationFrame(this.waiting);
      this.waiting = null;
      if (!this.cells || !this.head) return;
      const [width, height] = [this.scroller.clientWidth, this.scroller.clientHeight];
      size(this.canvas, width, height);
      const ctx = this.canvas.getContext("2d");
      const tones = this.isPrinting ? onPaper(tonesNow) : tonesNow();
      ctx.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
      ctx.clearRect(0, 0, width, height);
      ctx.textBaseline = "middle";
      const { scrollTop, scrollLeft } = this.scroller;
      const rows = range(scrollTop, height - this.head, ROW, this.listed.length);
      const columns = range(scrollLeft, width - this.label, this.column, this.axis.labels.length);
      clipped(ctx, this.label, this.head, width, height, () => this.drawCells(ctx, rows, columns, tones));
      clipped(ctx, 0, this.head, this.label, height, () => this.drawNames(ctx, rows, tones));
      clipped(ctx, this.label, 0, width, this.head, () => this.drawHeads(ctx, columns, tones));
      if (!this.overview.hidden) this.drawOverview(tones);
    }

    left(column) {
      return this.label + column * this.column - this.scroller.scrollLeft;
    }

    top(place) {
      return this.head + place * ROW - this.scroller.scrollTop;
    }

    drawCells(ctx, rows, columns, tones) {
      ctx.textAlign = "center";
      for (let place = rows.from; place < rows.to; place += 1) {
        for (let column = columns.from; column < columns.to; column += 1) {
          const cell = this.listed[place] * this.cells.width + column;
          ctx.globalAlpha = this.isFaded(column) ? 0.3 : 1;
          this.drawCell(ctx, cell, this.left(column), this.top(place), tones);
        }
      }
      ctx.globalAlpha = 1;
      if (document.activeElement !== this.scroller && !this.isMarked) return;
      ctx.strokeStyle = tones.accent;
      ctx.lineWidth = 2;
      ctx.strokeRect(this.left(this.cursor.column) + 1, this.top(this.cursor.place) + 1, this.column - 2, ROW - 2);
    }

    drawCell(ctx, cell, x, y, tones) {
      const [width, height] = [this.column - 1, ROW - 1];
      if (this.cells.rows[cell] < 0) return;
      const look = lookOf(this.mode, this.cells, cell);
      ctx.fillStyle = tones[look.fill];
      ctx.fillRect(x, y, width, height);
      if (look.isHatched) hatch(ctx, x, y, width, height, tones.surface);
      const text = width < ROOM_FOR_BOTH ? look.sign || look.figure : [look.sign, look.figure].filter(Boolean).join(" ");
      if (!text) return;
      const weight = look.isFirst ? "bold " : "";
      ctx.font = `${weight}${width < 22 ? (text.length > 2 ? 8 : 9) : look.isFirst ? 11 : 10}px ${FONT}`;
      ctx.fillStyle = tones[look.ink];
      ctx.fillText(text, x + width / 2, y + height / 2 + 0.5, width);
    }

    drawNames(ctx, rows, tones) {
      ctx.textAlign = "left";
      ctx.font = `12px ui-monospace, Menlo, Consolas, "Liberation Mono", monospace`;
      const most = Math.floor((this.label - 12) / ctx.measureText("m").width);
      for (let place = rows.from; place < rows.to; place += 1) {
        const name = probeFlow.visible(this.operators.names[this.listed[place]]);
        ctx.fillStyle = tones.text;
        ctx.fillText(probeFlow.shortened(name, most), 0, this.top(place) + ROW / 2);
      }
    }

    drawHeads(ctx, columns, tones) {
      ctx.font = `11px ${FONT}`;
      ctx.fillStyle = tones.muted;
      ctx.textAlign = this.isTurned ? "left" : "center";
      for (let column = columns.from; column < columns.to; column += 1) {
        const label = probeFlow.visible(this.axis.labels[column]);
        ctx.save();
        ctx.globalAlpha = this.isFaded(column) ? 0.5 : 1;
        ctx.translate(this.left(column) + this.column / 2, this.head - (this.isTurned ? 5 : HEAD / 2));
        if (this.isTurned) ctx.rotate(-Math.PI / 2);
        ctx.fillText(label, 0, 0, this.isTurned ? this.head - 8 : this.column);
        ctx.restore();
      }
    }

    /** All operators at once, many to a line, and what of them is in sight. */
    drawOverview(tones) {
      const ctx = this.overview.getContext("2d");
      ctx.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
      const height = this.overview.clientHeight;
      ctx.clearRect(0, 0, OVERVIEW, height);
      const lines = Math.min(this.listed.length, Math.floor(height / 2));
      const columns = Math.min(this.cells.width, OVERVIEW - 12);
      const key = `${lines} ${columns} ${tones.page}`;
      if (this.bucketed?.cells !== this.cells || this.bucketed.listed !== this.listed || this.bucketed.key !== key) {
        this.bucketed = { cells: this.cells, listed: this.listed, key, found: this.buckets(lines, columns) };
      }
      const [tall, wide] = [height / lines, (OVERVIEW - 12) / columns];
      this.bucketed.found.forEach((cell, place) => {
        if (cell < 0) return;
        ctx.fillStyle = tones[lookOf(this.mode, this.cells, cell).fill];
        ctx.fillRect(6 + (place % columns) * wide, Math.floor(place / columns) * tall, Math.ceil(wide), Math.ceil(tall));
      });
      this.bucketed.found.forEach((cell, place) => {
        if (cell < 0 || this.cells.markName(cell) !== "origin") return;
        const y = (Math.floor(place / columns) + 0.5) * tall;
        ctx.fillStyle = tones["origin-mark"];
        for (const [edge, tip] of [[0, 6], [OVERVIEW, OVERVIEW - 6]]) triangle(ctx, edge, tip, y);
      });
      const share = height / (this.listed.length * ROW);
      ctx.strokeStyle = tones.accent;
      ctx.lineWidth = 1.5;
      ctx.strokeRect(3, Math.max(0.75, this.scroller.scrollTop * share), OVERVIEW - 6, Math.max(4, (this.scroller.clientHeight - this.head) * share - 1.5));
    }

    buckets(lines, columns) {
      const found = new Int32Array(lines * columns).fill(-1);
      const { cells } = this;
      this.listed.forEach((operator, place) => {
        const line = Math.floor((place * lines) / this.listed.length);
        for (let column = 0; column < cells.width; column += 1) {
          const cell = operator * cells.width + column;
          const bucket = line * columns + Math.floor((column * columns) / cells.width);
          if (cells.rows[cell] >= 0 && (found[bucket] < 0 || isWorse(cells, cell, found[bucket]) > 0)) found[bucket] = cell;
        }
      });
      return found;
    }

    scrollToShare(share) {
      this.scroller.scrollTop = share * this.listed.length * ROW - (this.scroller.clientHeight - this.head) / 2;
    }

    /** Where an event of the mouse is: a cell, a heading (`place` -1), or nothing. */
    at(event) {
      const column = event.offsetX < this.label ? -1 : Math.floor((event.offsetX - this.label + this.scroller.scrollLeft) / this.column);
      const place = event.offsetY < this.head ? -1 : Math.floor((event.offsetY - this.head + this.scroller.scrollTop) / ROW);
      if (column < 0 || column >= this.axis.labels.length || place >= this.listed.length) return null;
      return { place, column };
    }

    cellOf({ place, column }) {
      return this.listed[place] * this.cells.width + column;
    }

    point(event) {
      const spot = this.at(event);
      this.canvas.style.cursor = spot ? "pointer" : "default";
      this.tell(spot);
    }

    click(event) {
      const spot = this.at(event);
      if (!spot) return;
      if (spot.place < 0) this.pickColumn(spot.column);
      else {
        this.cursor = spot;
        this.open();
      }
    }

    pickColumn(column) {
      if (this.axis.part === null) this.onExecution(this.axis.values[column]);
      else this.onPart(this.axis.part, this.axis.values[column]);
    }

    open() {
      const row = this.listed.length ? this.cells.rows[this.cellOf(this.cursor)] : -1;
      if (row < 0) return;
      this.isMarked = true;
      this.onPick(row);
    }

    /** What stands in a cell, below the map for eyes and in words for screen readers. */
    tell(spot) {
      this.tip.textContent = spot === null ? HINT : spot.place < 0 ? `${this.columnName(spot.column)}: click to see it alone` : this.words(spot);
    }

    columnName(column) {
      const label = probeFlow.visible(this.axis.labels[column]);
      return this.axis.part === null ? label : `${this.axis.title} ${label}`;
    }

    words(spot) {
      const { visible, figure, looks } = probeFlow;
      const cell = this.cellOf(spot);
      const name = visible(this.operators.names[this.listed[spot.place]]);
      const row = this.cells.rows[cell];
      if (row < 0) return `${name}, ${this.columnName(spot.column)}: not there`;
      const own = visible(this.store.name(row));
      const head = `${name}, ${this.columnName(spot.column)}${name.includes(own) ? "" : ` as ${own}`}`;
      const weight = this.cells.weight(cell);
      const { word } = looks.get(this.cells.markName(cell));
      if (weight === null) return `${head}: ${word}`;
      const shown = this.mode.id === "excess" ? `${figure(weight, 3)} times its limit` : `${this.mode.label} ${figure(weight, 3)}`;
      return `${head}: ${word}, ${shown}`;
    }

    key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey || !this.listed?.length) return;
      const { place, column } = this.cursor;
      const page = ROWS_IN_SIGHT - 1;
      const last = this.listed.length - 1;
      const moves = {
        ArrowDown: [place + 1, column], ArrowUp: [place - 1, column], ArrowRight: [place, column + 1], ArrowLeft: [place, column - 1],
        PageDown: [place + page, column], PageUp: [place - page, column], Home: [0, column], End: [last, column],
      };
      if (event.key !== "Enter" && event.key !== " " && !moves[event.key]) return;
      event.preventDefault();
      event.stopPropagation();
      if (!moves[event.key]) return this.open();
      this.moveTo({ place: moves[event.key][0], column: moves[event.key][1] });
      this.tell(this.cursor);
      probeFlow.say(this.words(this.cursor));
    }

    within({ place, column }) {
      const limited = (value, most) => Math.max(0, Math.min(value, most));
      return { place: limited(place, (this.shown?.length ?? 1) - 1), column: limited(column, this.axis.labels.length - 1) };
    }

    moveTo(spot) {
      this.cursor = this.within(spot);
      const { scroller } = this;
      const [top, left] = [this.cursor.place * ROW, this.cursor.column * this.column];
      const [tall, wide] = [scroller.clientHeight - this.head, scroller.clientWidth - this.label];
      if (top < scroller.scrollTop || top + ROW > scroller.scrollTop + tall) scroller.scrollTop = top - (tall - ROW) / 2;
      if (left < scroller.scrollLeft || left + this.column > scroller.scrollLeft + wide) scroller.scrollLeft = left - (wide - this.column) / 2;
      this.soon();
    }

    /** Mark the cell of a row and bring it into sight. */
    select(row) {
      this.selected = row;
      if (!this.cells || row === null) return;
      const node = this.store.nodeOf(row);
      const place = node === null ? -1 : this.shown.indexOf(this.operators.ofNode[node]);
      this.isMarked = place >= 0;
      if (this.isMarked) this.moveTo({ place, column: this.axis.columnOf[this.store.node.execution(node)] });
      else this.soon();
    }

    toFinding() {
      const found = this.selected ?? this.store.summary.findings.find((each) => each.row !== null)?.row ?? null;
      if (found === null) return;
      this.select(found);
      this.isMarked = this.selected !== null && this.selected !== undefined;
    }

    /** On paper nothing scrolls: the first operators that are off somewhere, in light colours. */
    print(isPrinting) {
      this.start();
      if (!this.cells) return;
      this.isPrinting = isPrinting;
      const wrong = this.cells.shown("wrong");
      this.shown = isPrinting && wrong.length ? wrong : this.cells.shown(this.which);
      this.layout();
      const { counted, group } = probeFlow;
      if (isPrinting) this.tip.textContent = `${group(this.listed.length)} of ${counted(this.operators.names.length, "operator")} shown here.`;
      else this.tell(null);
    }
  }

  const HINT = "One cell an operator in an execution, as its worst tensor there. Click a cell to open it, a heading to see that column alone.";

  function isWorse(cells, one, other) {
    return cells.worst[one] - cells.worst[other] || cells.weights[one] - cells.weights[other];
  }

  /** How a cell looks: the role of its tensor gives the colour, the weight its strength; sign and figure say the same. */
  function lookOf(mode, cells, cell) {
    const name = cells.markName(cell);
    const weight = cells.weight(cell);
    const isFirst = name === "origin" || name === "drift";
    const fill = mode.id === "error" ? errorFill(name, weight, cells) : probeFlow.fillOf(name, weight);
    const figure = weight === null ? "" : mode.id === "excess" ? excessText(weight) : errorText(weight);
    const sign = name === "fine" || name === "gap" ? "" : probeFlow.looks.get(name).sign;
    return { fill, ink: isFirst ? "on-origin" : "text", sign, figure, isFirst, isHatched: name === "missing" };
  }

  function excessText(value) {
    if (value <= 1) return "";
    if (value < 1000) return value < 9.95 ? value.toFixed(1) : String(Math.round(value));
    return Number.isFinite(value) ? "1k+" : "\u221e";
  }

  /** The colour of an error, among those of its role, by its place between the smallest and the largest one. */
  function errorFill(name, value, { low, high }) {
    const { fills } = probeFlow.looks.get(name);
    if (value === null) return probeFlow.fillOf(name, null);
    const share = value === 0 ? 0 : !Number.isFinite(value) ? 1 : high > low ? Math.log10(value / low) / Math.log10(high / low) : 0.5;
    return fills[Math.min(fills.length - 1, Math.floor(share * fills.length))][1];
  }

  /** The power of ten of an error. */
  function errorText(value) {
    if (value === 0) return "";
    return Number.isFinite(value) ? String(Math.floor(Math.log10(value))).replace("-", "\u2212") : "\u221e";
  }

  const SHARES = ["up to 5 %", "40 %", "100 % of its limit", "over it"];

  function legendOf(mode, cells) {
    const { el, figure, looks } = probeFlow;
    const item = (fill, text, name, sign = looks.get(name).sign) => {
      const swatch = el("span", { class: `heat-swatch ${name}`, "aria-hidden": "true" }, name === "fine" || name === "gap" ? "" : sign);
      swatch.style.backgroundColor = `var(--${fill})`;
      return el("li", { "data-role": name, title: looks.get(name).meaning }, swatch, text);
    };
    const items = cells.present().flatMap((name) => {
      const { word, fills } = looks.get(name);
      if (name === "fine" && mode.id === "excess") return SHARES.map((text, place) => item(fills[place][1], place ? text : `fine: ${text}`, name)).slice(0, hasOver(cells) ? 4 : 3);
      return [item(probeFlow.fillOf(name, null), word, name)];
    });
    if (mode.id === "excess") return [...items, el("li", {}, "A limit is what rounding and the inputs explain, with a margin; figures are times their limit.")];
    if (mode.id === "error" && cells.high) return [...items, el("li", {}, `Stronger is larger, ${figure(cells.low, 2)} to ${figure(cells.high, 2)}; figures are powers of ten.`)];
    return items;
  }

  /** Whether something fine is over its limit, since another explanation clears it. */
  function hasOver(cells) {
    return cells.rows.some((row, cell) => row >= 0 && cells.weights[cell] > 1 && cells.markName(cell) === "fine");
  }

  const PLAIN_TONES = ["text", "muted", "surface", "page", "accent", "on-origin", "origin-mark", "missing-mark"];

  function tonesNow() {
    const fills = [...probeFlow.looks.values()].flatMap((look) => look.fills.map(([, name]) => name));
    return Object.fromEntries([...PLAIN_TONES, ...fills].map((name) => [name, probeFlow.cssColor(name)]));
  }

  /** What `read` returns in the colours of paper. */
  function onPaper(read) {
    const { classList } = document.documentElement;
    const isDark = classList.contains("dark");
    classList.remove("dark");
    const found = read();
    classList.toggle("dark", isDark);
    return found;
  }

  function size(canvas, width, height) {
    const [wide, tall] = [Math.round(width * devicePixelRatio), Math.round(height * devicePixelRatio)];
    if (canvas.width !== wide) canvas.width = wide;
    if (canvas.height !== tall) canvas.height = tall;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }

  function range(offset, room, step, count) {
    return { from: Math.max(0, Math.floor(offset / step)), to: Math.min(count, Math.ceil((offset + room) / step)) };
  }

  function clipped(ctx, left, top, right, bottom, draw) {
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, right - left, bottom - top);
    ctx.clip();
    draw();
    ctx.restore();
  }

  function hatch(ctx, x, y, width, height, tone) {
    ctx.strokeStyle = tone;
    ctx.lineWidth = 2;
    clipped(ctx, x, y, x + width, y + height, () => {
      ctx.beginPath();
      for (let at = -height; at < width; at += 6) {
        ctx.moveTo(x + at, y + height);
        ctx.lineTo(x + at + height, y);
      }
      ctx.stroke();
    });
  }

  function triangle(ctx, edge, tip, y) {
    ctx.beginPath();
    ctx.moveTo(edge, y - 4);
    ctx.lineTo(tip, y);
    ctx.lineTo(edge, y + 4);
    ctx.fill();
  }

  Object.assign(probeFlow, { Heat, onPaper, sizeCanvas: size });
})();
