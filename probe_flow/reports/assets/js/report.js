"use strict";
// Puts the parts together: one selection and one set of filters for plot, table and panel; the keys.
(() => {
  const KEYS = [
    ["n or \u2192", "next of the rows shown that is not fine"],
    ["p or \u2190", "the one before"],
    ["\u2193 \u2191", "next and previous row"],
    ["Enter", "open the selected row"],
    ["/", "search"],
    ["Esc", "close the panel, then clear the filters"],
    ["arrows", "in the tree: move, open and close; Enter shows the rows below"],
    ["arrows", "in the graph: move, open and close; Enter opens the call, n and p go to what is not fine or fits the filters"],
    ["arrows", "in the heat map: move between cells; Enter opens the row"],
    ["arrows", "in the network: move between operators, as they were executed; Enter opens one"],
    ["o", "go to the first finding"],
    ["?", "this list"],
  ];

  async function start() {
    const store = await probeFlow.load();
    document.getElementById("app").hidden = false;
    const report = new Report(store);
    await report.table.ready;
    report.refresh();
    report.graph.follow();
    report.atTheOrigin();
    document.getElementById("loading").remove();
    document.documentElement.dataset.ready = String(Math.round(performance.now()));
  }

  class Report {
    constructor(store) {
      this.store = store;
      const open = (row) => this.open(row);
      probeFlow.summaryOf(store, open);
      probeFlow.provenanceOf(store);
      this.panel = new probeFlow.Panel(store, { onOpen: open, onStep: (step) => this.step(step) });
      this.plot = new probeFlow.Plot(store, document.getElementById("plot"), open);
      this.heat = new probeFlow.Heat(store, document.getElementById("heat"), {
        onPick: open,
        onPart: (part, value) => this.table.showPart(part, value),
        onExecution: (execution) => this.table.showExecution(execution),
      });
      this.table = new probeFlow.Table(store, {
        onSelect: (row) => this.selected(row),
        onOpen: (row) => this.panel.open(row),
        onChange: () => this.refresh(),
        onReset: ({ isSilent = false } = {}) => this.wholeTree(isSilent),
      });
      this.tree = new probeFlow.Tree(store, { onPick: (item) => this.showBelow(item) });
      this.panel.tree = this.tree;
      this.graph = new probeFlow.Graph(store, { onOpen: open, panel: this.panel });
      this.panel.graph = this.graph;
      this.network = new probeFlow.Network(store, document.getElementById("network-box"), { onOpen: open });
      this.plotTools();
      this.theme();
      this.tips();
      this.keysDialog();
      this.address = new probeFlow.Address(this);
      this.table.onAddress = () => this.address.write();
      this.panel.address = this.address;
      document.addEventListener("keydown", (event) => this.key(event));
    }

    /** Go where the address points; else the table shows the first finding, which nobody has selected yet. */
    atTheOrigin() {
      if (this.address.follow()) return;
      const found = this.store.summary.findings.find((finding) => finding.row !== null);
      if (found) this.table.lookAt(found.row);
    }

    /** Show the rows below one item of the tree; null shows all. */
    showBelow(item) {
      this.table.showNodes(item && this.tree.nodesOf(item), item ? item.label : "");
      if (item) probeFlow.say(`${probeFlow.counted(item.rows, "row")} of ${item.title}`);
    }

    wholeTree(isSilent) {
      this.tree.clear();
      if (!isSilent) this.showBelow(null);
    }

    refresh() {
      this.plot.show(this.table.shownRows());
      this.heat.show(this.plot.choice, this.table.state.execution);
      this.tree.show((execution) => this.table.takes(execution));
      this.legend();
      this.address?.write();
    }

    legend() {
      probeFlow.fill(document.getElementById("legend"), probeFlow.legendOf(this.plot.shownMarks()));
    }

    plotTools() {
      const { el, fill } = probeFlow;
      const { done, in_order: isInOrder } = this.store.summary;
      const what = done === "examined" ? "Largest value" : "Error";
      const title = isInOrder ? `${done === "examined" ? `${what}s` : what} along execution order` : `${what} of each tensor, by name`;
      document.getElementById("error-title").textContent = title;
      const select = document.getElementById("plot-metric");
      fill(select, this.plot.choices.map((choice) => el("option", { value: choice.id }, choice.label)));
      select.addEventListener("change", () => {
        this.plot.choose(select.value);
        this.refresh();
      });
      select.closest(".tools").hidden = this.plot.choices.length === 0;
      const reset = document.getElementById("plot-reset");
      reset.addEventListener("click", () => this.plot.resetZoom());
      this.plot.onZoom = (isZoomed) => {
        reset.disabled = !isZoomed;
      };
    }

    /** Draw another metric; null draws the first. One that this report has not is left out. */
    chooseMetric(id) {
      const choice = this.plot.choices.find((each) => each.id === id) ?? (id === null ? this.plot.choices[0] : null);
      if (!choice || choice.id === this.plot.choice?.id) return;
      document.getElementById("plot-metric").value = choice.id;
      this.plot.choose(choice.id);
      this.refresh();
    }

    /** Select a row everywhere, bring it into sight and open it. */
    open(row) {
      this.table.reveal(row);
      this.panel.open(row);
    }

    selected(row) {
      this.plot.select(row);
      this.tree.mark(row);
      this.heat.select(row);
      this.graph.select(row);
      this.network.select(row);
      this.address?.write();
      if (row === null) return;
      if (this.panel.isOpen && this.panel.row !== row) this.panel.open(row);
      const { store } = this;
      probeFlow.say(`${probeFlow.looks.get(store.mark(row)).word}: ${store.tensorName(row)}, row ${store.order(row)}`);
    }

    /** The next row that is not fine; while a call of the graph is open, the next call. */
    next(step) {
      return this.panel.call === null ? this.step(step) : this.graph.step(step);
    }

    step(step, wanted = (row) => this.store.isOff(row)) {
      const found = this.table.step(step, wanted);
      if (!found) probeFlow.say(step > 0 ? "Nothing more to look at below." : "Nothing more to look at above.");
      return found;
    }

    key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey || document.getElementById("keys").open) return;
      const { target } = event;
      const isTyping = target.matches("input, select, textarea");
      if (event.key === "Escape") return this.escape(target);
      if (isTyping) return undefined;
      const isOnControl = target.matches("button, a, summary");
      const actions = {
        n: () => this.next(1),
        ArrowRight: () => this.next(1),
        p: () => this.next(-1),
        ArrowLeft: () => this.next(-1),
        ArrowDown: this.arrowsSelect(target) ? () => this.step(1, () => true) : null,
        ArrowUp: this.arrowsSelect(target) ? () => this.step(-1, () => true) : null,
        Enter: isOnControl || this.table.selected === null ? null : () => this.panel.open(this.table.selected, { focus: true }),
        "/": () => this.table.search.focus(),
        o: () => this.first(),
        "?": () => document.getElementById("keys").showModal(),
      };
      const action = actions[event.key];
      if (!action) return undefined;
      event.preventDefault();
      return action();
    }

    /** Up and down move the selection in the table; elsewhere they scroll the page, as anywhere. */
    arrowsSelect(target) {
      return document.getElementById("table").contains(target);
    }

    first() {
      const found = this.store.summary.findings.find((finding) => finding.row !== null);
      if (found) this.open(found.row);
    }

    escape(target) {
      if (target === this.table.search && this.table.search.value) return this.table.reset();
      if (this.panel.isOpen) {
        const place = document.getElementById(this.panel.call === null ? "table" : "graph-box");
        this.panel.close();
        return place.focus({ preventScroll: true });
      }
      return this.table.reset();
    }

    theme() {
      const button = document.getElementById("theme-button");
      const root = document.documentElement;
      const show = () => button.setAttribute("aria-pressed", String(root.classList.contains("dark")));
      const apply = (isDark) => {
        root.classList.toggle("dark", isDark);
        show();
        this.refresh();
      };
      button.addEventListener("click", () => {
        const isDark = !root.classList.contains("dark");
        apply(isDark);
        try {
          localStorage.setItem("probe_flow.theme", isDark ? "dark" : "light");
        } catch {
          // Without storage the choice lasts as long as the page.
        }
      });
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => apply(event.matches));
      show();
    }

    /** Definitions of metrics, where one points or where the focus is. */
    tips() {
      const tip = document.getElementById("tip");
      const show = (event) => {
        const holder = event.target.closest?.("[data-metric]");
        tip.hidden = !holder || !this.define(tip, holder.dataset.metric);
        if (tip.hidden) return;
        holder.setAttribute("aria-describedby", "tip");
        const box = holder.getBoundingClientRect();
        tip.style.left = `${Math.max(8, Math.min(box.left, innerWidth - tip.offsetWidth - 8))}px`;
        const below = box.bottom + 6;
        tip.style.top = `${below + tip.offsetHeight > innerHeight ? box.top - tip.offsetHeight - 6 : below}px`;
      };
      for (const kind of ["mouseover", "focusin"]) document.addEventListener(kind, show);
      addEventListener("scroll", () => {
        tip.hidden = true;
      }, { passive: true });
    }

    define(tip, id) {
      const { el, fill } = probeFlow;
      const found = this.store.data.definitions[id];
      if (!found) return false;
      fill(
        tip,
        el("strong", {}, id),
        el("span", {}, found.text),
        el("span", { class: "muted" }, `range ${found.range}, unit ${found.unit}${found.better === "-" ? "" : `, ${found.better} is better`}`),
      );
      return true;
    }

    keysDialog() {
      const { el, fill } = probeFlow;
      const dialog = document.getElementById("keys");
      fill(
        dialog,
        el("h2", { id: "keys-title" }, "Keys"),
        el("dl", {}, KEYS.map(([keys, text]) => el("div", {}, el("dt", {}, el("kbd", {}, keys)), el("dd", {}, text)))),
        el("button", { type: "button", class: "primary", click: () => dialog.close() }, "Close"),
      );
      document.getElementById("help-button").addEventListener("click", () => dialog.showModal());
    }
  }

  start().catch((error) => {
    document.documentElement.dataset.failed = "true";
    document.getElementById("loading").textContent = `The report cannot be shown: ${error.message}`;
    throw error;
  });
})();
