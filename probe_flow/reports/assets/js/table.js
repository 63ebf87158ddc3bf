"use strict";
// All rows: sorted and filtered, with the filters above them. Only the rows in sight are in the page.
(() => {
  const [ROW_HEIGHT, HEAD_HEIGHT, LEAST_ROWS] = [30, 56, 5]; // pixels; the head with a bar to scroll sideways
  const PAPER_WIDTH = 640; // pixels of CSS between the margins of A4 and Letter, less those of a card
  const SEARCH_PAUSE_MS = 140;
  const LONG = 22;
  const TAIL = 10;
  const EXECUTION_PARTS = ["rank", "graph", "step", "micro_step"];

  /** What stands in the table for a row; cells read their values when they are shown. */
  class TableRow {
    constructor(i) {
      this.i = i;
    }
  }

  function metricColumn(store, id, title, width) {
    return { title, field: id, width, hozAlign: "right", headerHozAlign: "right", tip: id, value: (row) => store.metric(id, row) };
  }

  function columns(store) {
    const { small, badge, words } = probeFlow;
    const target = store.sides.target;
    const golden = store.sides.golden;
    const either = (name) => (row) => target?.[name](row) ?? golden?.[name](row) ?? null;
    const errors = [
      { ...metricColumn(store, "relative_euclidean_distance", "error", 96), show: small },
      { ...metricColumn(store, "cosine", "cosine", 104), show: likeness },
      { ...metricColumn(store, "max_abs_err", "max abs", 96), show: small },
    ].filter((column) => store.metrics.has(column.field));
    const others = store.metricIds.filter((id) => store.data.definitions[id]?.better !== "neither");
    const relative = RELATIVE_TITLES.filter(([id]) => store.metrics.has(id)).map(([id, title, priority]) => ({ ...metricColumn(store, id, title, 102), responsive: store.mainMode() === "statistics" ? priority : 9, show: small }));
    const checksums = store.metrics.has("checksum_equal")
      ? [{ title: "checksum", field: "checksum", width: 196, cssClass: "name", tip: "checksum_equal", value: (row) => both(store, "checksum", row) }]
      : [];
    const values = store.data.rows.sides.target?.value === undefined ? [] : [{ title: "value", field: "value", width: 120, responsive: 3, value: (row) => both(store, "value", row) }];
    const hasEntries = store.node.hasEntries; // they end with what type and phase say
    const isKnown = errors.length + relative.length + checksums.length > 0;
    const spare = isKnown ? [] : others.slice(0, 3).map((id) => ({ ...metricColumn(store, id, id, 120), show: small }));
    return [
      { title: "#", field: "order", width: store.count > 99999 ? 88 : 72, responsive: 0, hozAlign: "right", headerHozAlign: "right", value: store.order, show: (value) => probeFlow.group(value) },
      { title: "role", field: "role", width: 132, responsive: 0, value: store.markNumber, show: (value, row) => badge(store.mark(row)) },
      { title: "row rule", field: "status", width: 118, responsive: 2, cssClass: "rule", value: store.statusNumber, show: (value, row) => words(store.status(row)) },
      { title: "tensor", field: "name", minWidth: 230, responsive: 0, widthGrow: 4, cssClass: "name", value: (row) => store.tensorName(row), show: (value, row) => tensor(store, row) },
      ...(hasEntries ? [{ title: "in the dump", field: "entry", minWidth: 170, widthGrow: 3, responsive: 1, cssClass: "name", value: (row) => entryOf(store, row), show: (value, row) => entry(store, row) }] : []),
      { title: "type", field: "op", minWidth: 100, widthGrow: 2, responsive: hasEntries ? 4 : 2, value: (row) => store.op(row) },
      ...errors,
      ...checksums,
      ...relative,
      ...spare,
      ...values,
      ...(store.phases().length > 1 ? [{ title: "phase", field: "phase", width: 104, responsive: hasEntries ? 4 : 2, value: (row) => PHASES[store.phase(row)] ?? store.phase(row) }] : []),
      ...(golden === undefined ? [] : [{ title: "golden", field: "golden", minWidth: 130, widthGrow: 2, responsive: 3, cssClass: "name", value: (row) => store.sideName("golden", row), show: (value) => (value === null ? "" : withEnd(value, "")) }]),
      { title: "dtype", field: "dtype", width: 92, responsive: 4, value: either("dtype") },
      { title: "shape", field: "shape", width: 130, responsive: 5, value: either("shape") },
      ...(store.executions.length > 1
        ? [{ title: "execution", field: "execution", width: 170, responsive: 1, value: (row) => store.execution(row), show: (value) => store.executions[value].label }]
        : []),
    ];
  }

  const RELATIVE_TITLES = [["l2norm_diff_rel", "norm rel", 0], ["max_diff_rel", "max rel", 1], ["mean_diff_rel", "mean rel", 7], ["min_diff_rel", "min rel", 8]];
  const PHASES = { "parameter gradients": "gradient" };

  /** What both sides say, once where they agree. */
  function both(store, field, row) {
    const found = ["target", "golden"].map((side) => store.sides[side]?.[field](row) ?? null);
    const known = found.filter((text) => text !== null);
    if (known.length < 2) return known[0] ?? null;
    return found[0] === found[1] ? found[0] : found.join(" \u2260 ");
  }

  /** A cosine; what is close to 1 by its distance from it. */
  function likeness(value) {
    if (value === null) return "";
    const distance = 1 - value;
    if (distance <= 0 || distance >= 1e-4) return probeFlow.figure(value, 6);
    return `1 \u2212 ${distance.toExponential(1).replace("-", "\u2212")}`;
  }

  function tensor(store, row) {
    return withEnd(store.name(row), ` ${store.slot(row)}`);
  }

  function entryOf(store, row) {
    const node = store.nodeOf(row);
    return store.entry(node) ?? store.node.name(node);
  }

  /** The name of a node's entry in its dump; its end is the call and the direction. */
  function entry(store, row) {
    const text = entryOf(store, row) ?? "";
    const name = store.node.name(store.nodeOf(row)) ?? "";
    return text.startsWith(name) ? withEnd(name, text.slice(name.length)) : withEnd(text, "");
  }

  /** A text that loses its middle where it is too long: names of one kind begin alike, and end in what tells them apart. */
  function withEnd(text, end) {
    const { el } = probeFlow;
    const tail = text.length > LONG ? text.slice(-TAIL) : "";
    const first = el("span", { class: "of" }, text.slice(0, text.length - tail.length));
    first.style.maxWidth = `calc(100% - ${tail.length + end.length}ch)`;
    return [first, tail ? el("span", { class: "end" }, tail) : null, el("span", { class: "slot" }, end)].filter(Boolean);
  }

  /** Nothing stands last, whatever the direction; NaN is larger than infinity. */
  function compare(one, other, isDescending) {
    const last = isDescending ? -1 : 1;
    if (one === null || other === null) return one === other ? 0 : one === null ? last : -last;
    if (typeof one === "string") return one < other ? -1 : one > other ? 1 : 0;
    if (Number.isNaN(one) || Number.isNaN(other)) return Number(Number.isNaN(one)) - Number(Number.isNaN(other));
    return one < other ? -1 : one > other ? 1 : 0;
  }

  function tabulatorColumn(column, store) {
    const { value: read, show, tip, ...rest } = column;
    return {
      ...rest,
      headerTooltip: false,
      titleFormatter: () => heading(column.title, tip, store),
      sorter: (a, b, rowA, rowB, self, direction) => compare(read(rowA.getData().i), read(rowB.getData().i), direction === "desc"),
      formatter: (cell) => {
        const row = cell.getRow().getData().i;
        const value = read(row) ?? null;
        const content = show ? show(value, row) : (value ?? "");
        return probeFlow.el("span", { class: "cell" }, content === null ? "" : content);
      },
    };
  }

  function heading(title, tip, store) {
    const { el } = probeFlow;
    return el("span", tip && store.data.definitions[tip] ? { "data-metric": tip } : {}, title);
  }

  class Table {
    constructor(store, { onSelect, onOpen, onChange, onReset }) {
      this.store = store;
      this.selected = null;
      this.onSelect = onSelect;
      this.onOpen = onOpen;
      this.onChange = onChange;
      this.onReset = onReset;
      this.mask = new Uint8Array(store.count).fill(1);
      this.threshold = new probeFlow.Threshold(store, () => this.apply());
      this.columns = new probeFlow.Columns(columns(store), () => this.redrawn());
      this.columns.visible = () => this.tabulator.getColumns().filter((column) => column.isVisible()).map((column) => column.getField());
      this.state = noFilter();
      this.filters();
      this.ready = this.build();
    }

    build() {
      const { store } = this;
      const data = Array.from({ length: store.count }, (_, row) => new TableRow(row));
      this.box = document.getElementById("table");
      addEventListener("beforeprint", () => this.fitPaper());
      const grid = document.createElement("div");
      this.box.append(grid);
      this.tabulator = new Tabulator(grid, {
        data,
        index: "i",
        columns: this.columns.shown().map((column) => tabulatorColumn(column, store)),
        columnDefaults: { resizable: "header", headerSortTristate: true },
        layout: "fitColumns",
        responsiveLayout: "hide",
        // Few rows take less room; filters never change it.
        height: `min(68vh, 720px, ${HEAD_HEIGHT + ROW_HEIGHT * Math.max(store.count, LEAST_ROWS)}px)`,
        rowHeight: ROW_HEIGHT,
        nestedFieldSeparator: false,
        autoResize: false, // it would lose the place in the table
        headerSortElement: '<span class="sort" aria-hidden="true"></span>',
        placeholder: probeFlow.el("span", {}, store.count ? "No row fits these filters." : "There is no row."),
        rowFormatter: (row) => this.mark(row),
      });
      this.tabulator.on("rowClick", (event, row) => this.pick(row.getData().i));
      for (const event of ["dataFiltered", "dataSorted"]) {
        this.tabulator.on(event, () => {
          this.viewed = null;
        });
      }
      this.tabulator.on("dataSorted", () => this.onAddress?.());
      return new Promise((resolve) => {
        this.tabulator.on("tableBuilt", () => {
          this.components = this.tabulator.getRows();
          this.size = this.measured();
          new ResizeObserver(() => this.resized()).observe(this.box);
          this.count();
          resolve();
        });
      });
    }

    /** Lay the columns out anew, as they were chosen. */
    redrawn() {
      const sorters = this.tabulator.getSorters().map(({ field, dir }) => ({ column: field, dir }));
      this.tabulator.setColumns(this.columns.shown().map((column) => tabulatorColumn(column, this.store)));
      const known = sorters.filter(({ column }) => this.hasColumn(column));
      if (known.length) this.tabulator.setSort(known);
      this.onAddress?.();
    }

    hasColumn(field) {
      return this.columns.shown().some((column) => column.field === field);
    }

    /** What the rows are sorted by, `error-desc`; empty for the order of execution. */
    sorting() {
      const [first] = this.tabulator.getSorters();
      return first ? `${first.field}-${first.dir}` : "";
    }

    /** Take filters, sorting and columns over from an address. */
    restore(wanted, parts) {
      const { state } = this;
      Object.assign(state, noFilter());
      this.search.value = wanted.get("q") ?? "";
      state.isRegex = wanted.has("regex");
      for (const role of (wanted.get("is") ?? "").split(",")) if (this.store.summary.roles.some(({ name }) => name === role)) state.roles.add(role);
      for (const [select, key, field] of [[this.ruleSelect, "rule", "status"], [this.phaseSelect, "phase", "phase"]]) {
        const value = wanted.get(key) ?? "";
        if (select && [...select.options].some((option) => option.value === value)) state[field] = select.value = value;
      }
      for (const select of this.executionSelects) {
        const value = wanted.get(partOf(select)) ?? "";
        if (parts.includes(partOf(select)) && [...select.options].some((option) => option.value === value)) {
          select.value = value;
          select.dispatchEvent(new Event("change"));
        }
      }
      const least = Number(wanted.get("least") ?? NaN);
      this.threshold.set(least > 0 ? least : null);
      if (wanted.has("columns") || this.columns.chosen !== null) this.columns.choose(wanted.get("columns")?.split(",") ?? null);
      const [field, direction] = (wanted.get("sort") ?? "").split(/-(?=asc$|desc$)/);
      if (direction && this.hasColumn(field)) this.tabulator.setSort(field, direction);
      else this.tabulator.clearSort();
      this.searched();
    }

    /** What the filters show as CSV: the columns in sight, all rows in the order shown. */
    csv() {
      const fields = new Set(this.columns.visible());
      const chosen = this.columns.all.filter((column) => fields.has(column.field));
      const said = { role: (row) => probeFlow.looks.get(this.store.mark(row)).word, status: (row) => this.store.status(row), execution: (row) => this.store.executions[this.store.execution(row)].label };
      return probeFlow.csv(
        chosen.map((column) => column.title),
        this.view().map((row) => chosen.map((column) => (said[column.field] ?? column.value)(row))),
      );
    }

    measured() {
      return `${this.box.clientWidth} ${this.box.clientHeight}`;
    }

    /** Lay the table out anew where its size has changed, and stay at the same rows. */
    resized() {
      if (this.measured() === this.size) return;
      this.size = this.measured();
      const holder = this.box.querySelector(".tabulator-tableholder");
      const { scrollTop } = holder;
      this.tabulator.redraw();
      holder.scrollTop = scrollTop;
    }

    mark(row) {
      const { i } = row.getData();
      const element = row.getElement();
      element.classList.toggle("selected", i === this.selected);
      element.dataset.role = this.store.mark(i);
      element.setAttribute("aria-selected", String(i === this.selected));
    }

    pick(row) {
      this.select(row, { scroll: false });
      this.onOpen(row);
    }

    /** Rows in the order shown. */
    view() {
      this.viewed ??= this.tabulator.getRows("active").map((row) => row.getData().i);
      return this.viewed;
    }

    select(row, { scroll = true } = {}) {
      const before = this.selected;
      this.selected = row;
      for (const each of [before, row]) if (each !== null) this.mark(this.components[each]);
      if (scroll && row !== null && this.mask[row]) this.scrollTo(this.view().indexOf(row));
      this.onSelect(row);
    }

    /** Bring a place of the view into sight: rows are equally high, so its position is known without drawing it. */
    scrollTo(place) {
      const holder = this.box.querySelector(".tabulator-tableholder");
      const height = holder.scrollHeight / this.view().length;
      const top = place * height;
      const isInSight = top >= holder.scrollTop && top + height <= holder.scrollTop + holder.clientHeight;
      if (!isInSight) holder.scrollTop = top - (holder.clientHeight - height) / 2;
    }

    /** The columns were laid out for the screen; paper shows all of them, smaller. */
    fitPaper() {
      const zoom = Math.min(1, PAPER_WIDTH / this.box.offsetWidth);
      document.documentElement.style.setProperty("--print-zoom", zoom.toFixed(3));
    }

    /** Show the rows around one that is not selected. */
    lookAt(row) {
      this.scrollTo(this.view().indexOf(row));
    }

    /** Select the next row shown (`step` 1 or -1) that `wanted` accepts; false when there is none. */
    step(step, wanted) {
      const view = this.view();
      const at = this.selected === null ? -1 : view.indexOf(this.selected);
      const start = at < 0 && step < 0 ? view.length : at;
      for (let place = start + step; place >= 0 && place < view.length; place += step) {
        if (wanted(view[place])) {
          this.select(view[place]);
          return true;
        }
      }
      return false;
    }

    filters() {
      const { el, fill, badge, group } = probeFlow;
      const { summary } = this.store;
      this.search = el("input", {
        type: "search", id: "search", placeholder: "Search names, types, reasons", "aria-label": "Search", "aria-keyshortcuts": "/",
        autocomplete: "off", spellcheck: "false", input: () => this.searchSoon(),
      });
      this.regexButton = el(
        "button",
        {
          type: "button", class: "quiet", id: "regex", "aria-pressed": "false", title: "Search by a regular expression, without regard to case",
          click: () => {
            this.state.isRegex = !this.state.isRegex;
            this.searched();
          },
        },
        ".*",
      );
      this.csvButton = el("button", { type: "button", class: "quiet", id: "csv", title: "The rows and columns shown, as a file", click: () => probeFlow.download("rows.csv", this.csv(), "text/csv") }, "CSV");
      this.chips = summary.roles.map(({ name, count }) =>
        el(
          "button",
          { type: "button", class: "chip", "aria-pressed": "false", "data-role": name, click: () => this.toggle(name) },
          badge(name),
          el("span", { class: "number" }, group(count)),
        ),
      );
      const verdicts = Object.keys(summary.counts).filter((status) => summary.counts[status] > 0);
      this.ruleSelect = this.choice("status", "Row rule", verdicts, (value) => {
        this.state.status = value;
      });
      this.phaseSelect =
        this.store.phases().length > 1
          ? this.choice("phase", "Phase", this.store.phases(), (value) => {
              this.state.phase = value;
            })
          : null;
      this.subtreeButton = el("button", { type: "button", class: "chip subtree", id: "subtree", hidden: true, title: "Show the rows of all modules again", click: () => this.onReset() }, "in all modules");
      this.executionSelects = EXECUTION_PARTS.map((part) => this.executionChoice(part)).filter(Boolean);
      this.resetButton = el("button", { type: "button", class: "quiet", id: "reset", click: () => this.reset() }, "Reset filters");
      const form = document.getElementById("filters");
      form.addEventListener("submit", (event) => event.preventDefault());
      fill(
        form,
        el("span", { class: "search" }, this.search, this.regexButton),
        el("div", { class: "chips", role: "group", "aria-label": "Roles" }, this.chips),
        this.selects().map((select) => el("label", {}, select.dataset.title, " ", select)),
        this.threshold.element,
        this.subtreeButton,
        this.resetButton,
        el("span", { class: "outputs" }, this.columns.element, this.csvButton),
      );
    }

    selects() {
      return [this.ruleSelect, this.phaseSelect, ...this.executionSelects].filter(Boolean);
    }

    /** Show the rows of these nodes alone; null shows those of all nodes. */
    showNodes(nodes, label) {
      this.state.nodes = nodes;
      probeFlow.fill(this.subtreeButton, "in ", probeFlow.el("span", { class: "name" }, label), probeFlow.el("span", { "aria-hidden": "true" }, " \u2715"));
      this.apply();
    }

    choice(id, title, values, apply, shown = probeFlow.words) {
      const { el } = probeFlow;
      return el(
        "select",
        {
          id: `filter-${id}`,
          "data-title": title,
          change: (event) => {
            apply(event.target.value);
            this.apply();
          },
        },
        el("option", { value: "" }, "all"),
        values.map((value) => el("option", { value }, shown(value))),
      );
    }

    executionChoice(part) {
      const values = [...new Set(this.store.executions.map((each) => each[part]))].filter((value) => value !== null);
      if (values.length < 2) return null;
      const byText = new Map(values.map((value) => [String(value), value]));
      return this.choice(part, part[0].toUpperCase() + part.slice(1).replace("_", " "), [...byText.keys()], (text) => {
        if (text === "") delete this.state.execution[part];
        else this.state.execution[part] = byText.get(text);
      });
    }

    toggle(role) {
      const { roles } = this.state;
      if (!roles.delete(role)) roles.add(role);
      this.apply();
    }

    /** Show one execution, or all of them when it is the one shown. */
    showExecution(number) {
      const wanted = this.store.executions[number];
      const same = this.executionSelects.every((select) => this.state.execution[partOf(select)] === wanted[partOf(select)]);
      this.state.execution = {};
      for (const select of this.executionSelects) {
        const part = partOf(select);
        if (!same && wanted[part] !== null) this.state.execution[part] = wanted[part];
        select.value = part in this.state.execution ? String(wanted[part]) : "";
      }
      this.apply();
    }

    /** Show the executions with this rank, step or other part, or all of them when these are the ones shown. */
    showPart(part, value) {
      const select = this.executionSelects.find((each) => partOf(each) === part);
      if (!select || value === null) return;
      if (this.state.execution[part] === value) delete this.state.execution[part];
      else this.state.execution[part] = value;
      select.value = part in this.state.execution ? String(value) : "";
      this.apply();
    }

    takes(execution) {
      return Object.entries(this.state.execution).every(([part, value]) => execution[part] === value);
    }

    searchSoon() {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.searched(), SEARCH_PAUSE_MS);
    }

    /** Show what the search field asks for. An expression that is none leaves the rows as they are, and is marked. */
    searched() {
      const { state } = this;
      const typed = this.search.value.trim();
      this.regexButton.setAttribute("aria-pressed", String(state.isRegex));
      this.search.removeAttribute("aria-invalid");
      this.search.title = "";
      let pattern = null;
      if (state.isRegex && typed) {
        try {
          pattern = new RegExp(typed, "i");
        } catch (error) {
          this.search.setAttribute("aria-invalid", "true");
          this.search.title = error.message;
          probeFlow.say(error.message);
          return;
        }
      }
      state.text = typed.toLowerCase();
      state.pattern = pattern;
      this.apply();
    }

    reset() {
      this.state = noFilter();
      this.search.value = "";
      this.search.removeAttribute("aria-invalid");
      this.regexButton.setAttribute("aria-pressed", "false");
      this.threshold.set(null);
      for (const select of this.selects()) select.value = "";
      this.onReset({ isSilent: true });
      this.apply();
    }

    isFiltered() {
      const { roles, status, phase, text, execution, nodes } = this.state;
      return Boolean(this.threshold.least !== null || roles.size || status || phase || text || nodes || Object.keys(execution).length);
    }

    apply() {
      const { store, state, mask } = this;
      const executions = store.executions.map((each) => this.takes(each));
      for (let row = 0; row < store.count; row += 1) {
        mask[row] = Number(
          (!state.roles.size || state.roles.has(store.mark(row))) &&
            (!state.status || store.status(row) === state.status) &&
            (!state.phase || store.phase(row) === state.phase) &&
            (!state.nodes || state.nodes.has(store.nodeOf(row))) &&
            executions[store.execution(row)] &&
            this.threshold.takes(row) &&
            (!state.text || (state.pattern ? state.pattern.test(store.haystack(row)) : store.haystack(row).includes(state.text))),
        );
      }
      for (const chip of this.chips) chip.setAttribute("aria-pressed", String(state.roles.has(chip.dataset.role)));
      if (this.isFiltered()) this.tabulator.setFilter((data) => mask[data.i] === 1);
      else this.tabulator.clearFilter();
      this.count();
      this.onChange();
    }

    /** Make a row visible, giving up filters that hide it. */
    reveal(row) {
      if (!this.mask[row]) this.reset();
      this.select(row);
    }

    shownRows() {
      const rows = [];
      for (let row = 0; row < this.store.count; row += 1) if (this.mask[row]) rows.push(row);
      return rows;
    }

    count() {
      const { counted, group } = probeFlow;
      const shown = this.mask.reduce((sum, each) => sum + each, 0);
      const all = this.store.count;
      const text = shown === all ? counted(all, "row") : `${group(shown)} of ${counted(all, "row")}`;
      document.getElementById("row-count").textContent = text;
      this.resetButton.hidden = !this.isFiltered();
      this.subtreeButton.hidden = !this.state.nodes;
    }
  }

  function noFilter() {
    return { roles: new Set(), status: "", phase: "", text: "", isRegex: false, pattern: null, execution: {}, nodes: null };
  }

  function partOf(select) {
    return select.id.replace("filter-", "");
  }

  Object.assign(probeFlow, { Table });
})();
