"use strict";
// The target's operators and what flows between them; a fused operator stands over the operators it was made of.
(() => {
  const MOST = 80; // boxes that a person still reads; of larger networks the nearest to the selected one are drawn
  const CHARACTER = 6.9;
  const LINE = 16;
  const PADDING = 9;
  const LETTERS = 34;
  const MADE_OF = 6;
  const INDENT = 10;
  const GAP = 4;
  const INNER = 6;
  const BASELINE = 4;
  const LARGEST_GROUP = 16;
  const SEVERAL = new Set(["n:1", "n:m", "l1"]); // relations of groups with several operators of the target
  const NAMED = new Set(["origin", "drift", "over"]); // marks that a box says in words too
  const MOST_ORIGINS = 8;

  class Network {
    constructor(store, box, { onOpen }) {
      this.store = store;
      this.box = box;
      this.onOpen = onOpen;
      this.units = units(store);
      this.card = document.getElementById("network");
      if (!this.units.edges.length) return;
      this.card.hidden = false;
      document.getElementById("network-jump").hidden = false;
      const first = store.summary.findings.find((finding) => finding.row !== null)?.row;
      this.focus = this.unitOf(first ?? null) ?? 0;
      this.draw();
      this.enter(this.focus);
      this.reveal(this.focus);
    }

    unitOf(row) {
      if (row === null) return null;
      return this.units.of.get(this.store.sides.target?.node(row) ?? null) ?? null;
    }

    /** Mark the operator of a row and bring it into sight; draw its surroundings where they are not drawn. */
    select(row) {
      if (this.card.hidden) return;
      const unit = this.unitOf(row);
      this.box.querySelector(".unit.current")?.classList.remove("current");
      if (unit === null) return;
      this.enter(unit).classList.add("current");
      this.reveal(unit);
    }

    /** Return the box of an operator, drawn where it was not, as the one that Tab stops at. */
    enter(unit) {
      if (!this.drawn.has(unit)) {
        this.focus = unit;
        this.draw();
      }
      this.box.querySelector("[tabindex='0']")?.setAttribute("tabindex", -1);
      const { element } = this.drawn.get(unit);
      element.setAttribute("tabindex", 0);
      return element;
    }

    /** Arrows go through the operators in order of execution, those not drawn as well. */
    key(event, unit) {
      const { list } = this.units;
      const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
      if (step) this.enter(Math.max(0, Math.min(unit + step, list.length - 1))).focus();
      else if (event.key === "Enter" || event.key === " ") this.onOpen(list[unit].row);
      else return;
      event.preventDefault();
      event.stopPropagation();
    }

    reveal(unit) {
      const { place } = this.drawn.get(unit);
      const { clientWidth, clientHeight } = this.box;
      this.box.scrollTo({ left: place.x - clientWidth / 2, top: place.y + place.height / 2 - clientHeight / 2, behavior: "instant" });
    }

    draw() {
      const { fill, counted, group } = probeFlow;
      const { list, edges } = this.units;
      const shown = this.nearest();
      const places = new Map(shown.map((unit, place) => [unit, place]));
      const between = edges.filter(({ from, to }) => places.has(from) && places.has(to));
      const labels = shown.map((unit) => labelOf(list[unit], this.store));
      const layout = probeFlow.placedInLayers(labels, between.map(({ from, to }) => ({ from: places.get(from), to: places.get(to) })));
      const elements = shown.map((unit, place) => this.unit(unit, labels[place], layout.boxes[place]));
      this.drawn = new Map(shown.map((unit, place) => [unit, { element: elements[place], place: layout.boxes[place] }]));
      fill(
        this.box,
        svg("svg", { width: layout.width, height: layout.height, viewBox: `0 0 ${layout.width} ${layout.height}` }, layout.ways.map(way), elements),
      );
      const all = counted(list.length, "operator");
      const apart = this.origins().some((unit) => unit !== this.focus) ? " and to what is wrong" : "";
      const text = shown.length < list.length ? `${group(shown.length)} of ${all}, the nearest to ${list[this.focus].names[0]}${apart}` : all;
      fill(document.getElementById("network-count"), text);
    }

    /** The first boxes that are wrong: they are always drawn. */
    origins() {
      this.wrong ??= this.units.list.flatMap((unit, place) => (unit.state === "origin" ? [place] : [])).slice(0, MOST_ORIGINS);
      return this.wrong;
    }

    /** The boxes to draw, in order of execution. */
    nearest() {
      const { list, edges } = this.units;
      if (list.length <= MOST) return list.map((_, unit) => unit);
      this.near ??= neighbours(list.length, edges);
      const found = new Set([this.focus, ...this.origins()]);
      for (const unit of found) {
        for (const other of this.near[unit]) if (found.size < MOST) found.add(other);
      }
      return [...found].sort((one, other) => one - other);
    }

    unit(number, label, place) {
      const unit = this.units.list[number];
      const left = place.x - place.width / 2;
      const parts = unit.originals.length ? `, made of ${unit.originals.join(", ")}` : "";
      const { word, sign } = probeFlow.looks.get(unit.state);
      const excess = unit.row === null ? null : this.store.excess(unit.row);
      const said = `${unit.names.join(" and ")}, ${unit.types.join(" and ")}${parts}: ${word}${timesLimit(excess)}`;
      const actions = { click: () => this.onOpen(unit.row), keydown: (event) => this.key(event, number) };
      const texts = label.lines.map((line, below) => {
        const y = place.y + PADDING + LINE * (below + 1) - BASELINE + (line.isInner ? GAP + INNER / 2 : 0);
        return svg("text", { class: line.class, x: left + PADDING + (line.isInner ? INDENT : 0), y }, line.text);
      });
      const inner = label.innerHeight
        ? svg("rect", { class: "inner", x: left + PADDING, y: place.y + place.height - label.innerHeight - PADDING, width: place.width - 2 * PADDING, height: label.innerHeight, rx: 4 })
        : null;
      const body = svg("rect", { class: "body", x: left, y: place.y, width: place.width, height: place.height, rx: 7 });
      body.style.fill = `var(--${probeFlow.fillOf(unit.state, excess)})`;
      return svg(
        "g",
        { class: `unit ${unit.state}`, "aria-label": said, tabindex: -1, role: "button", ...actions },
        svg("title", {}, said),
        body,
        inner,
        texts,
        svg("text", { class: "sign", x: left + place.width - PADDING, y: place.y + PADDING + LINE - BASELINE, "text-anchor": "end" }, sign),
      );
    }
  }

  /** The target's nodes as boxes: several operators of one group share one, since they were one operator before. */
  function units(store) {
    const of = new Map();
    const list = [];
    const target = store.sides.target;
    const groups = new Map();
    const nodes = new Set();
    for (let row = 0; row < store.count; row += 1) {
      const node = target?.node(row) ?? null;
      if (node === null) continue;
      nodes.add(node);
      const group = SEVERAL.has(store.relation(row)) ? `${store.node.execution(node)} ${store.group(row)}` : null;
      if (group !== null) groups.set(group, (groups.get(group) ?? new Set()).add(node));
    }
    const shared = new Map();
    for (const members of groups.values()) {
      if (members.size > 1 && members.size <= LARGEST_GROUP) for (const node of members) shared.set(node, members);
    }
    for (const node of nodes) {
      if (of.has(node)) continue;
      const members = [...(shared.get(node) ?? [node])].filter((each) => !of.has(each));
      for (const each of members) of.set(each, list.length);
      list.push(unitOf(store, members));
    }
    return { of, list, edges: edgesBetween(store, of) };
  }

  function unitOf(store, members) {
    const rows = members.flatMap((node) => store.rowsOf(node));
    const worst = [...rows].sort((one, other) => store.markNumber(other) - store.markNumber(one) || errorOf(store, other) - errorOf(store, one))[0] ?? null;
    const names = members.map((node) => store.nodeName(node));
    const originals = [...new Set(members.flatMap((node) => store.node.originals(node)))];
    return {
      names,
      types: [...new Set(members.map((node) => store.node.op(node)).filter(Boolean))],
      originals: originals.length === 1 && names.length === 1 && originals[0] === names[0] ? [] : originals,
      row: worst,
      state: worst === null ? "gap" : store.mark(worst),
    };
  }

  function errorOf(store, row) {
    const error = store.error(row);
    return Number.isNaN(error) ? Infinity : (error ?? -1);
  }

  function timesLimit(excess) {
    if (excess === null || excess <= 1) return "";
    return Number.isFinite(excess) ? `, ${probeFlow.figure(excess, 3)} times its limit` : ", beyond any limit";
  }

  function edgesBetween(store, of) {
    const found = new Map();
    for (const [node, to] of of) {
      for (const each of store.flow(node).from) {
        const from = of.get(each.node);
        if (from !== undefined && from !== to) found.set(`${from} ${to}`, { from, to });
      }
    }
    return [...found.values()];
  }

  function neighbours(count, edges) {
    const near = Array.from({ length: count }, () => []);
    for (const { from, to } of edges) {
      near[from].push(to);
      near[to].push(from);
    }
    return near;
  }

  function labelOf(unit, store) {
    const lines = unit.names.map((text) => ({ text: short(text), class: "name" }));
    if (NAMED.has(unit.state)) lines.push({ text: `${probeFlow.looks.get(unit.state).word}${timesLimit(store.excess(unit.row))}`, class: "said" });
    const error = unit.row === null ? null : store.error(unit.row);
    const types = unit.types.map((text) => short(text)).join(", ");
    lines.push({ text: [types, error === null ? "" : probeFlow.small(error)].filter(Boolean).join(" \u00b7 "), class: "type" });
    const rest = unit.originals.length - MADE_OF;
    const shown = unit.originals.slice(0, rest > 1 ? MADE_OF : unit.originals.length);
    const inner = [...shown.map(short), ...(rest > 1 ? [`and ${rest} more`] : [])];
    for (const text of inner) lines.push({ text, class: "original", isInner: true });
    const letters = Math.max(...lines.map((line, place) => line.text.length + (line.isInner ? 3 : 0) + (place ? 0 : 3)));
    const innerHeight = inner.length ? inner.length * LINE + INNER : 0;
    return { lines, innerHeight, width: letters * CHARACTER + 2 * PADDING, height: lines.length * LINE + 2 * PADDING + (innerHeight ? GAP + INNER : 0) };
  }

  /** The end of a name tells more than its middle. */
  function short(text) {
    const whole = probeFlow.visible(text);
    return whole.length <= LETTERS ? whole : `${whole.slice(0, 12)}\u2026${whole.slice(13 - LETTERS)}`;
  }

  function way(places) {
    const first = places[0];
    let path = `M${first.x} ${first.y + first.height}`;
    for (let number = 1; number < places.length; number += 1) {
      const [one, other] = [places[number - 1], places[number]];
      const start = one.y + one.height;
      const bend = Math.max(Math.abs(other.y - start) / 2, 20);
      path += `C${one.x} ${start + bend} ${other.x} ${other.y - bend} ${other.x} ${other.y}`;
      if (number < places.length - 1) path += `V${other.y + other.height}`;
    }
    const { x, y } = places[places.length - 1];
    return svg("g", { class: "way" }, svg("path", { d: path }), svg("path", { class: "head", d: `M${x} ${y}l-4 -7h8z` }));
  }

  function svg(tag, attributes = {}, ...children) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (typeof value === "function") element.addEventListener(name, value);
      else element.setAttribute(name, probeFlow.visible(value));
    }
    for (const child of children.flat(Infinity)) if (child !== null) element.append(child instanceof Node ? child : probeFlow.visible(child));
    return element;
  }

  Object.assign(probeFlow, { Network });
})();
