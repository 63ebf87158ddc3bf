"use strict";
// Operators by rank, by step or by any other part of an execution: what the cells of the heat map hold.
(() => {
  const PARTS = ["rank", "step", "graph", "micro_step"];
  // From what matters least to what matters most; rows of healthy runs miss the limits of a policy too.
  const CLASSES = ["gap", "pass", "missed", "warning", "missing", "fail", "inherited", "error", "origin"];
  const NOT_COMPARED = new Set(["unmatched_target", "unmatched_golden", "not_comparable", "skipped"]);

  /** What may stand along the top: parts with several values and, where two parts vary, every execution. */
  function axesOf(store) {
    const varying = PARTS.filter((part) => new Set(store.executions.map((each) => each[part])).size > 1);
    const axes = varying.map((part) => ({ part, title: part.replace("_", " "), ...columnsOf(store, part) }));
    if (varying.length < 2) return axes;
    const every = store.executions.map((each, place) => place);
    return [...axes, { part: null, title: "execution", labels: store.executions.map((each) => each.label), columnOf: every, values: every }];
  }

  function columnsOf(store, part) {
    const values = [...new Set(store.executions.map((each) => each[part]))].sort(ascending);
    return { values, labels: values.map((value) => String(value ?? "\u2013")), columnOf: store.executions.map((each) => values.indexOf(each[part])) };
  }

  function ascending(one, other) {
    if (one === null || other === null) return Number(one === null) - Number(other === null);
    if (typeof one === "number" && typeof other === "number") return one - other;
    return String(one) < String(other) ? -1 : 1;
  }

  function classOf(store, row) {
    if (store.role(row) === "origin") return "origin";
    const status = store.status(row);
    if (NOT_COMPARED.has(status)) return status.startsWith("unmatched") && store.expected(row) === false ? "missing" : "gap";
    if (store.role(row) === "inherited" && status !== "error") return "inherited";
    return status === "fail" && store.role(row) === "clean" ? "missed" : status;
  }

  /** Whether the operators of every graph count for themselves: a name in two graphs is two operators. */
  function isByGraph(store, axis) {
    return axis.part !== "graph" && new Set(store.executions.map((each) => each.graph)).size > 1;
  }

  /**
   * Operators in order of execution, graph by graph, and the operator of every node; what is the same in all executions
   * is one. Unless `apart`, graphs share the operators of one name.
   */
  function operatorsOf(store, apart) {
    const graphs = [...new Set(store.executions.map((each) => each.graph))];
    const prefixes = store.executions.map((each) => (apart ? `graph ${each.graph ?? "\u2013"} \u00b7 ` : ""));
    const graphOf = []; // of every operator, in the order in which graphs first run
    const byName = new Map();
    const ofNode = new Int32Array(store.node.count).fill(-1);
    const after = []; // a list with links: what only a later execution has goes behind its neighbour there
    let first = -1;
    let before = -1;
    let execution = -1;
    for (let row = 0; row < store.count; row += 1) {
      const node = store.nodeOf(row);
      if (node === null) continue;
      if (store.node.execution(node) !== execution) [execution, before] = [store.node.execution(node), -1];
      let operator = ofNode[node];
      if (operator < 0) {
        const name = prefixes[execution] + store.nodeName(node);
        operator = byName.get(name) ?? -1;
        if (operator < 0) {
          operator = byName.size;
          byName.set(name, operator);
          graphOf[operator] = apart ? graphs.indexOf(store.executions[execution].graph) : 0;
          after[operator] = before < 0 ? first : after[before];
          if (before < 0) first = operator;
          else after[before] = operator;
        }
        ofNode[node] = operator;
      }
      before = operator;
    }
    const order = [];
    for (let operator = first; operator >= 0 && order.length < byName.size; operator = after[operator]) order.push(operator);
    order.sort((one, other) => graphOf[one] - graphOf[other]);
    const places = new Int32Array(byName.size);
    order.forEach((operator, place) => {
      places[operator] = place;
    });
    const names = new Array(byName.size);
    for (const [name, operator] of byName) names[places[operator]] = name;
    return { names, ofNode: ofNode.map((operator) => (operator < 0 ? -1 : places[operator])) };
  }

  /** Ways to colour a cell: `read` gives the weight of a row (null: nothing to weigh), the heaviest row of a cell counts. */
  function modesOf(store, choice) {
    const modes = [];
    if (store.hasExcess) modes.push({ id: "excess", label: "error against its allowance", read: (row) => store.excess(row) });
    if (choice) modes.push({ id: "error", label: choice.label, read: choice.read });
    modes.push({ id: "verdict", label: "verdict", read: (row) => CLASSES.indexOf(classOf(store, row)) });
    return modes;
  }

  /** The heaviest row of every operator in every column. */
  class Cells {
    constructor(store, operators, axis, mode, takes) {
      this.operators = operators;
      this.axis = axis;
      this.width = axis.labels.length;
      const size = operators.names.length * this.width;
      this.rows = new Int32Array(size).fill(-1);
      this.weights = new Float64Array(size).fill(-1);
      this.worst = new Uint8Array(size);
      this.low = Infinity;
      this.high = 0;
      const taken = store.executions.map((each) => takes(each, axis.part));
      for (let row = 0; row < store.count; row += 1) {
        const node = store.nodeOf(row);
        if (node === null || !taken[store.node.execution(node)]) continue;
        this.take(operators.ofNode[node] * this.width + axis.columnOf[store.node.execution(node)], row, mode.read(row), CLASSES.indexOf(classOf(store, row)));
      }
    }

    take(cell, row, value, rank) {
      const weight = value === null ? -0.5 : Number.isNaN(value) ? Infinity : value;
      if (weight > 0 && weight < Infinity) {
        if (weight < this.low) this.low = weight;
        if (weight > this.high) this.high = weight;
      }
      const isOrigin = rank === CLASSES.length - 1;
      const hasOrigin = this.worst[cell] === CLASSES.length - 1;
      const isHeavier = weight > this.weights[cell] || (weight === this.weights[cell] && rank > this.worst[cell]);
      if (this.rows[cell] < 0 || (isOrigin && !hasOrigin) || (isHeavier && isOrigin === hasOrigin)) this.rows[cell] = row;
      if (weight > this.weights[cell]) this.weights[cell] = weight;
      if (rank > this.worst[cell]) this.worst[cell] = rank;
    }

    /** Numbers of the operators to show: `compared` anywhere, `wrong` somewhere, or `all`. */
    shown(which) {
      const least = { all: -1, compared: CLASSES.indexOf("pass"), wrong: CLASSES.indexOf("missing") }[which];
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

    className(cell) {
      return CLASSES[this.worst[cell]];
    }
  }

  Object.assign(probeFlow, { Cells, axesOf, isByGraph, operatorsOf, modesOf });
})();
