"use strict";
// What the table can do beyond filters: choose its columns, narrow by the size of the error, write what it shows as CSV.
(() => {
  const STEPS = 100;
  const SIZES = ["relative_euclidean_distance", "l2norm_diff_rel", "max_diff_rel", "max_abs_err", "max_diff"];
  /** Columns that a table is no use without. */
  const FIXED = new Set(["name"]);

  /** The least error that is shown, on a logarithmic slider; `null` where no row has an error. */
  class Threshold {
    constructor(store, onChange) {
      this.store = store;
      this.id = SIZES.find((id) => store.metrics.has(id)) ?? null;
      this.least = null;
      this.onChange = onChange;
      const sizes = this.id === null ? [] : this.sizes();
      this.element = null;
      if (sizes.length < 2) return;
      [this.low, this.high] = [Math.log10(sizes[0]), Math.log10(sizes.at(-1))];
      if (this.low === this.high) return;
      this.frame();
    }

    /** Finite errors above zero, the smallest first. */
    sizes() {
      const found = new Set();
      for (let row = 0; row < this.store.count; row += 1) {
        const size = this.store.metric(this.id, row);
        if (Number.isFinite(size) && size > 0) found.add(size);
      }
      let [low, high] = [Infinity, 0];
      for (const size of found) [low, high] = [Math.min(low, size), Math.max(high, size)];
      return found.size < 2 ? [] : [low, high];
    }

    frame() {
      const { el } = probeFlow;
      this.range = el("input", { type: "range", id: "threshold", min: 0, max: STEPS, step: 1, value: 0, "aria-label": "Least error shown", input: () => this.slid() });
      this.said = el("output", { for: "threshold", class: "muted" }, "any");
      this.element = el("label", { class: "threshold" }, el("span", { "data-metric": this.id }, "Error at least"), " ", this.range, " ", this.said);
    }

    slid() {
      const place = Number(this.range.value);
      this.set(place === 0 ? null : 10 ** (this.low + ((this.high - this.low) * place) / STEPS));
      clearTimeout(this.timer);
      this.timer = setTimeout(this.onChange, 60);
    }

    /** Show errors from this size on; null shows all. The slider follows. */
    set(least) {
      if (this.element === null) return;
      this.least = least;
      const place = least === null ? 0 : (STEPS * (Math.log10(least) - this.low)) / (this.high - this.low);
      this.range.value = String(Math.max(0, Math.min(STEPS, Math.round(place))));
      this.said.textContent = least === null ? "any" : probeFlow.small(least);
      this.range.setAttribute("aria-valuetext", this.said.textContent);
    }

    /** Whether a row is large enough; NaN is, and what has no error is not. */
    takes(row) {
      if (this.least === null) return true;
      const size = this.store.metric(this.id, row);
      return size !== null && (Number.isNaN(size) || size >= this.least);
    }
  }

  /** A menu of columns. Until somebody chooses, the table shows those that fit. */
  class Columns {
    constructor(all, onChange) {
      this.all = all;
      this.chosen = null;
      this.onChange = onChange;
      const { el } = probeFlow;
      this.list = el("div", { class: "menu" });
      this.element = el("details", { class: "columns", id: "columns", toggle: (event) => event.target.open && this.draw() }, el("summary", {}, "Columns"), this.list);
      document.addEventListener("click", (event) => {
        if (this.element.open && !this.element.contains(event.target)) this.element.open = false;
      });
      this.element.addEventListener("keydown", (event) => {
        if (event.key !== "Escape" || !this.element.open) return;
        event.stopPropagation();
        this.element.open = false;
        this.element.querySelector("summary").focus();
      });
    }

    shown() {
      return this.chosen === null ? this.all : this.all.filter((column) => this.chosen.has(column.field)).map((column) => ({ ...column, responsive: 0 }));
    }

    /** The fields that are shown; null for those that fit. Unknown ones are left out. */
    choose(fields) {
      const known = fields?.filter((field) => this.all.some((column) => column.field === field)) ?? [];
      this.chosen = known.length ? new Set([...FIXED, ...known]) : null;
      this.onChange();
    }

    /** Which of all columns stand in the table now; the caller knows. */
    visible = () => this.shown().map((column) => column.field);

    draw() {
      const { el, fill } = probeFlow;
      const now = new Set(this.visible());
      const box = (column) =>
        el(
          "label",
          {},
          el("input", { type: "checkbox", value: column.field, checked: now.has(column.field), disabled: FIXED.has(column.field), change: () => this.toggled() }),
          " ",
          column.title,
        );
      const reset = el("button", { type: "button", class: "quiet", click: () => { this.choose(null); this.draw(); } }, "Those that fit");
      fill(this.list, this.all.map(box), reset);
    }

    toggled() {
      this.choose([...this.list.querySelectorAll("input:checked")].map((input) => input.value));
    }
  }

  /** A cell of CSV: quoted where need be, and no formula for a spreadsheet. */
  function cell(value) {
    if (value === null || value === undefined) return "";
    if (typeof value === "number") return Number.isNaN(value) ? "nan" : Number.isFinite(value) ? String(value) : value > 0 ? "inf" : "-inf";
    const text = /^[=+\-@\t\r]/.test(String(value)) ? `'${value}` : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  function csv(titles, rows) {
    return [titles, ...rows].map((each) => `${each.map(cell).join(",")}\r\n`).join("");
  }

  /** Hand a text to the browser as a file. */
  function download(name, text, type) {
    const url = URL.createObjectURL(new Blob([text], { type }));
    const link = probeFlow.el("a", { href: url, download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }

  /** Put a text into the clipboard, and say so; where the browser gives no access, by a selection. */
  async function copy(text, what) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const box = probeFlow.el("textarea", { class: "unseen", "aria-hidden": "true" });
      box.value = text;
      document.body.append(box);
      box.select();
      document.execCommand("copy");
      box.remove();
    }
    probeFlow.say(`${what} copied`);
  }

  Object.assign(probeFlow, { Threshold, Columns, csv, download, copy });
})();
