"use strict";
// The address of what one looks at: row, filters, sorting, columns and panel stand behind `#rows?`, to be sent to others.
(() => {
  const HASH = "#rows?";
  const PAUSE_MS = 120;
  const PARTS = ["rank", "graph", "step", "micro_step"];

  class Address {
    constructor(report) {
      this.report = report;
      this.isFollowing = false;
      addEventListener("hashchange", () => this.follow());
    }

    /** The end of the address for the state now; empty where nothing is chosen. */
    text(row = this.report.table.selected) {
      const { table, panel, plot } = this.report;
      const { state } = table;
      const wanted = {};
      if (row !== null) wanted.row = String(this.report.store.order(row));
      if (row !== null && panel.isOpen && panel.row === row) wanted.panel = "1";
      if (state.text) wanted.q = table.search.value.trim();
      if (state.text && state.isRegex) wanted.regex = "1";
      if (state.roles.size) wanted.is = [...state.roles].join(",");
      if (state.status) wanted.rule = state.status;
      if (state.phase) wanted.phase = state.phase;
      for (const part of PARTS) if (part in state.execution) wanted[part] = String(state.execution[part]);
      if (table.threshold.least !== null) wanted.least = table.threshold.least.toPrecision(4);
      if (table.columns.chosen !== null) wanted.columns = [...table.columns.chosen].join(",");
      const sort = table.sorting();
      if (sort) wanted.sort = sort;
      if (plot.choice && plot.choice.id !== plot.choices[0].id) wanted.metric = plot.choice.id;
      const text = new URLSearchParams(wanted).toString();
      return text ? HASH + text : "";
    }

    /** Bring the address up to date, soon: browsers take only so many changes. */
    write() {
      if (this.isFollowing) return;
      clearTimeout(this.timer);
      this.timer = setTimeout(() => {
        const text = this.text();
        if (text) history.replaceState(null, "", text);
        else if (location.hash.startsWith(HASH)) history.replaceState(null, "", location.pathname + location.search);
      }, PAUSE_MS);
    }

    /** Go where the address points; false where it is none of ours. */
    follow() {
      if (!location.hash.startsWith(HASH)) return false;
      const wanted = new URLSearchParams(location.hash.slice(HASH.length));
      const { report } = this;
      const { table, store } = report;
      this.isFollowing = true;
      try {
        table.restore(wanted, PARTS);
        report.chooseMetric(wanted.get("metric"));
        const order = wanted.get("row");
        const row = order === null ? null : store.rowOf(Number(order));
        if (order !== null && row === null) probeFlow.say(`This report has no row ${order}.`);
        document.getElementById("rows").scrollIntoView({ behavior: "instant" });
        if (row !== null && table.mask[row]) {
          table.select(row);
          if (wanted.has("panel")) report.panel.open(row);
        } else if (row !== null) report.open(row);
      } finally {
        this.isFollowing = false;
      }
      return true;
    }
  }

  Object.assign(probeFlow, { Address });
})();
