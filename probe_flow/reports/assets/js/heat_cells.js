"use strict";
// Operators by rank, by step or by any other part of an execution: what the cells of the heat map hold.
(() => {
  const PARTS = ["rank", "step", "graph", "micro_step"];
  const PRODUCED = new Set(["output", "parameter_grad"]);
  /**
   * What may stand along the top: parts with several values and, where two parts vary, every execution. One in which
   * nothing was to be compared (arrays of a golden that has no ranks) has no column.
   */
  function axesOf(store) {
    const asked = new Set();
    for (let row = 0; row < store.count; row += 1) if (store.mark(row) !== "gap") asked.add(store.execution(row));
    const places = [...asked].sort((one, other) => one - other);
    const axes = PARTS.map((part) => ({ part, title: part.replace("_", " "), ...columnsOf(store, places, part) })).filter((axis) => axis.values.length > 1);
    if (axes.length < 2) return axes;
    const columnOf = store.executions.map((each, place) => places.indexOf(place));
    return [...axes, { part: null, title: "execution", labels: places.map((place) => store.executions[place].label), columnOf, values: places }];
  }

  function columnsOf(store, places, part) {
    const values = [...new Set(places.map((place) => store.executions[place][part]))].sort(ascending);
    return { values, labels: values.map((value) => String(value ?? "\u2013")), columnOf: store.executions.map((each, place) => (places.includes(place) ? values.indexOf(each[part]) : -1)) };
  }

  function ascending(one, other) {
    if (one === null || other === null) return Number(one === null) - Number(other === null);
    if (typeof one === "number" && typeof other === "number") return one - other;
    return String(one) < String(other) ? -1 : 1;
  }

  /** Whether the operators of every graph count for themselves: a name in two graphs is two operators. */
  function isByGraph(store, axis) {
    return axis.part !== "graph" && new Set(store.executions.map((each) => each.graph)).size > 1;
  }

  /** The nodes of every execution in order of execution, each with the golden node that its outputs were compared with. */
  function nodesByExecution(store) {
    const runs = new Map();
    const golden = new Map();
    for (let row = 0; row < store.count; row += 1) {
      const node = store.nodeOf(row);
      if (node === null) continue;
      const execution = store.node.execution(node);
      if (!runs.has(execution)) runs.set(execution, []);
      if (!golden.has(node)) {
        runs.get(execution).push(node);
        golden.set(node, null);
      }
      if (golden.get(node) === null && PRODUCED.has(store.direction(row))) golden.set(node, store.sides.golden?.node(row) ?? null);
    }
    return { runs, golden };
  }

  /**
   * Operators in order of execution, graph by graph, and the operator of every node. Unless `apart`, graphs share the
   * operators of one name.
   *
   * Nodes of several executions are one operator where they have the same name and golden counterpart, else where
   * they have the same counterpart (a call that only one execution makes shifts the numbers of those behind it), else
   * where they have the same name. The execution of the first finding sets the order: in it an origin comes before
   * what it feeds.
   */
  function operatorsOf(store, apart) {
    const graphs = [...new Set(store.executions.map((each) => each.graph))];
    const prefixes = store.executions.map((each) => (apart ? `graph ${each.graph ?? "\u2013"} \u00b7 ` : ""));
    const { runs, golden } = nodesByExecution(store);
    const first = store.summary.findings.find((finding) => finding.row !== null)?.row ?? null;
    const leading = first === null ? null : store.execution(first);
    const list = []; // {label, execution, partner, graph, after}
    const [byBoth, byPartner, byName] = [new Map(), new Map(), new Map()];
    const ofNode = new Int32Array(store.node.count).fill(-1);
    let head = -1;
    for (const execution of [...runs.keys()].sort((one, other) => Number(other === leading) - Number(one === leading) || one - other)) {
      const prefix = prefixes[execution];
      const taken = new Set();
      const known = runs.get(execution).map((node) => {
        const name = prefix + store.nodeName(node);
        const partner = golden.get(node) === null ? null : prefix + store.nodeName(golden.get(node));
        return { node, name, partner, both: `${name}\n${partner ?? ""}` };
      });
      const claim = (each, found) => {
        if (found === undefined || taken.has(found) || ofNode[each.node] >= 0) return;
        taken.add(found);
        ofNode[each.node] = found;
        if (execution < list[found].execution) Object.assign(list[found], { execution, label: each.name });
      };
      for (const each of known) claim(each, byBoth.get(each.both));
      for (const each of known) if (each.partner !== null) claim(each, byPartner.get(each.partner));
      for (const each of known) {
        const found = byName.get(each.name);
        if (found !== undefined && (each.partner === null || list[found].partner === null)) claim(each, found);
      }
      let before = -1;
      for (const each of known) {
        if (ofNode[each.node] < 0) {
          const after = before < 0 ? head : list[before].after; // what only this execution has goes behind its neighbour
          ofNode[each.node] = list.length;
          if (before < 0) head = list.length;
          else list[before].after = list.length;
          list.push({ label: each.name, execution, partner: each.partner, graph: apart ? graphs.indexOf(store.executions[execution].graph) : 0, after });
        }
        before = ofNode[each.node];
        list[before].partner ??= each.partner;
        for (const [map, key] of [[byBoth, each.both], [byPartner, each.partner], [byName, each.name]]) if (key !== null && !map.has(key)) map.set(key, before);
      }
    }
    const order = [];
    for (let operator = head; operator >= 0 && order.length < list.length; operator = list[operator].after) order.push(operator);
    order.sort((one, other) => list[one].graph - list[other].graph);
    const places = new Int32Array(list.length);
    order.forEach((operator, place) => {
      places[operator] = place;
    });
    return { names: namesOf(order.map((operator) => list[operator])), ofNode: ofNode.map((operator) => (operator < 0 ? -1 : places[operator])) };
  }

  /** The names of operators; of two with one name the one without a counterpart says so. */
  function namesOf(operators) {
    const seen = new Map();
    for (const { label } of operators) seen.set(label, (seen.get(label) ?? 0) + 1);
    return operators.map(({ label, partner }) => (seen.get(label) > 1 && partner === null ? `${label} (no counterpart)` : label));
  }

  /** What a cell may show beside its role: `read` gives the weight of a row, null where there is nothing to weigh. */
  function modesOf(store, choice) {
    const modes = [];
    if (store.hasExcess) modes.push({ id: "excess", label: "error against its limit", read: (row) => store.excess(row) });
    if (choice) modes.push({ id: "error", label: choice.label, read: choice.read });
    modes.push({ id: "role", label: "role only", read: () => null });
    return modes;
  }

  /** Every operator in every column, as its most important tensor: by its role, then by its weight. */
  class Cells {
    constructor(store, operators, axis, mode, takes) {
      this.operators = operators;
      this.axis = axis;
      this.width = axis.labels.length;
      this.marks = [...probeFlow.looks.keys()];
      const size = operators.names.length * this.width;
      this.rows = new Int32Array(size).fill(-1);
      this.weights = new Float64Array(size).fill(-1);
      this.worst = new Uint8Array(size);
      this.low = Infinity;
      this.high = 0;
      const taken = store.executions.map((each, place) => axis.columnOf[place] >= 0 && takes(each, axis.part));
      for (let row = 0; row < store.count; row += 1) {
        const node = store.nodeOf(row);
        if (node === null || !taken[store.node.execution(node)]) continue;
        this.take(operators.ofNode[node] * this.width + axis.columnOf[store.node.execution(node)], row, mode.read(row), store.markNumber(row));
      }
    }

    take(cell, row, value, rank) {
      const weight = value === null ? -0.5 : Number.isNaN(value) ? Infinity : value;
      if (weight > 0 && weight < Infinity) {
        if (weight < this.low) this.low = weight;
        if (weight > this.high) this.high = weight;
      }
      const isFirst = this.rows[cell] < 0 || rank > this.worst[cell];
      if (!isFirst && (rank < this.worst[cell] || weight <= this.weights[cell])) return;
      this.rows[cell] = row;
      this.weights[cell] = weight;
      this.worst[cell] = rank;
    }

    /** Numbers of the operators to show: `compared` anywhere, `wrong` somewhere, or `all`. */
    shown(which) {
      const least = { all: -1, compared: this.marks.indexOf("fine"), wrong: this.marks.indexOf("missing") }[which];
      const found = [];
      for (let operator = 0; operator < this.operators.names.length; operator += 1) {
        const start = operator * this.width;
        for (let cell = start; cell < start + this.width; cell += 1) {
          if (this.rows[cell] >= 0 && this.worst[cell] >= least) {
            found.push(operator);
            break;
          }
        }
      }
      return found;
    }

    markName(cell) {
      return this.marks[this.worst[cell]];
    }

    /** The weight of a cell, null where there is none. */
    weight(cell) {
      return this.weights[cell] < 0 ? null : this.weights[cell];
    }

    /** The marks that some cell has, the most important first. */
    present() {
      const found = new Set(this.worst.filter((_, cell) => this.rows[cell] >= 0));
      return this.marks.filter((_, rank) => found.has(rank)).reverse();
    }
  }

  Object.assign(probeFlow, { Cells, axesOf, isByGraph, operatorsOf, modesOf });
})();
