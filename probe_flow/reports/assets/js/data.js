"use strict";
// The rows as the rest of the report reads them: by row number, through columns.
const probeFlow = {};

(() => {
  const WORDS = { nan: NaN, inf: Infinity, "-inf": -Infinity };

  /** Return the payload: JSON as it stands, or JSON in DEFLATE in base64. */
  async function payload() {
    const block = document.getElementById("data");
    if (block.type === "application/json") return JSON.parse(block.textContent);
    if (typeof DecompressionStream === "undefined") {
      throw new Error("this browser cannot unpack the data; a current version of any browser can");
    }
    const packed = atob(block.textContent.trim());
    const bytes = new Uint8Array(packed.length);
    for (let place = 0; place < bytes.length; place += 1) bytes[place] = packed.charCodeAt(place);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  /** A number of the payload, where NaN and infinities are words. */
  function number(cell) {
    if (cell === null || cell === undefined) return null;
    return typeof cell === "string" ? WORDS[cell] : cell;
  }

  /** A column is a list with a cell a row, one cell for all rows, or nothing at all. */
  function cells(column) {
    if (column === undefined || column === null) return () => null;
    if (Array.isArray(column)) return (row) => column[row];
    return column.steps ? cells(summed(column.steps)) : () => column;
  }

  /** Places from what each adds to the one before. */
  function summed(steps) {
    let place = 0;
    return steps.map((step) => {
      if (step === null) return null;
      place += step;
      return place;
    });
  }

  function numbers(column) {
    const read = cells(column);
    return (row) => number(read(row));
  }

  class Store {
    constructor(data) {
      this.data = data;
      this.count = data.count;
      this.summary = data.summary;
      this.executions = data.executions;
      const rows = data.rows;
      this.order = data.order ? cells(data.order) : (row) => row;
      this.statusNumber = cells(rows.status);
      this.markNumber = cells(rows.mark);
      this.status = this.named(data.statuses, rows.status);
      this.mark = this.named(data.marks.map((each) => each.name), rows.mark);
      for (const name of ["rule", "rule_span", "reason", "relation", "mode"]) {
        this[name] = this.texts(rows[name]);
      }
      for (const name of ["rule_ids", "reasons", "transform", "notes"]) this[name] = this.lists(rows[name]);
      for (const name of ["confidence", "mismatch", "worst", "excess"]) this[name] = numbers(rows[name]);
      this.groupText = this.texts(rows.group);
      this.groupByEntry = this.texts(rows.group_by_entry);
      this.hasExcess = rows.excess !== undefined;
      this.elements = numbers(rows.count);
      this.expectation = cells(rows.expectation);
      this.sides = {};
      for (const [side, columns] of Object.entries(rows.sides)) this.sides[side] = this.side(columns);
      this.metricIds = Object.keys(rows.metrics);
      this.metrics = new Map(this.metricIds.map((id) => [id, numbers(rows.metrics[id])]));
      this.node = this.nodes(data.nodes);
      this.nodeOf = (row) => this.sides.target?.node(row) ?? this.sides.golden?.node(row) ?? null;
    }

    named(names, column) {
      const read = cells(column);
      return (row) => names[read(row)];
    }

    texts(column) {
      const read = cells(column);
      const { strings } = this.data;
      return (row) => {
        const place = read(row);
        return place === null || place === undefined ? null : strings[place];
      };
    }

    lists(column) {
      const read = this.texts(column);
      return (row) => read(row)?.split("\n") ?? [];
    }

    side(columns) {
      const found = { node: cells(columns.node), file: cells(columns.file) };
      for (const name of ["min", "max", "mean", "l2norm", "nan", "inf"]) found[name] = numbers(columns[name]);
      for (const name of Object.keys(TEXTS_OF_SIDE)) found[name] = this.texts(columns[name]);
      return found;
    }

    nodes(columns) {
      const found = { count: columns.count, execution: cells(columns.execution), call: cells(columns.call) };
      for (const name of ["name", "entry", "op", "phase", "parent", "kind"]) found[name] = this.texts(columns[name]);
      for (const name of ["originals", "passes"]) found[name] = this.lists(columns[name]);
      for (const name of ["side", "order"]) found[name] = cells(columns[name]);
      found.score = numbers(columns.score);
      found.level = this.texts(columns.level);
      found.microStep = numbers(columns.micro_step);
      Object.assign(found, { hasScores: columns.score !== undefined, hasLevels: columns.level !== undefined });
      found.isNamed = cells(columns.named);
      found.hasEntries = columns.entry !== undefined || columns.named !== undefined;
      found.above = cells(columns.above);
      found.hasAbove = columns.above !== undefined;
      const { stacks, strings } = this.data;
      const stack = cells(columns.stack);
      found.stack = (node) => stacks[stack(node)]?.map((place) => strings[place] ?? "") ?? [];
      return found;
    }

    /** What a node does: `forward`, `backward`, `parameter gradients`, or nothing that has a name. */
    phaseOf(node) {
      const phase = this.node.phase(node);
      if (phase !== "none") return phase;
      return this.node.kind(node) === "parameters_grad" ? "parameter gradients" : "";
    }

    phase(row) {
      const node = this.nodeOf(row);
      return node === null ? "" : this.phaseOf(node);
    }

    /** The phases of all rows, in order of appearance. */
    phases() {
      this.knownPhases ??= [...new Set(Array.from({ length: this.count }, (_, row) => this.phase(row)))].filter(Boolean);
      return this.knownPhases;
    }

    /** How most rows were compared: `tensor`, `statistics`, `checksum` or `value`; null when none was. */
    mainMode() {
      if (this.knownMode === undefined) {
        const counts = new Map();
        for (let row = 0; row < this.count; row += 1) counts.set(this.mode(row), (counts.get(this.mode(row)) ?? 0) + 1);
        counts.delete(null);
        this.knownMode = [...counts].sort((one, other) => other[1] - one[1])[0]?.[0] ?? null;
      }
      return this.knownMode;
    }

    /** The node of the same side, execution, name and call in another phase; null when there is none. */
    twin(node, name, call, phase) {
      if (!this.byCall) {
        this.byCall = new Map();
        for (let each = 0; each < this.node.count; each += 1) this.byCall.set(this.callKey(each), each);
      }
      return this.byCall.get(this.callKey(node, name, call, phase)) ?? null;
    }

    callKey(node, name = this.node.name(node), call = this.node.call(node), phase = this.node.phase(node)) {
      return JSON.stringify([this.node.side(node), this.node.execution(node), name, call, phase]);
    }

    /** How far a row is off: one figure for all modes; null where there is none. */
    error(row) {
      const distance = this.metric("relative_euclidean_distance", row);
      if (distance !== null) return distance;
      const errors = RELATIVE.map((id) => this.metric(id, row)).filter((value) => typeof value === "number");
      if (!errors.length) return null;
      return errors.some(Number.isNaN) ? NaN : Math.max(...errors.map(Math.abs));
    }

    /** Whether a row is worth a visit: anything but fine, or not compared for a reason. */
    isOff(row) {
      return OFF.has(this.mark(row)) || this.status(row) === "error";
    }

    execution(row) {
      const node = this.nodeOf(row);
      return node === null ? 0 : this.node.execution(node);
    }

    op(row) {
      const node = this.nodeOf(row);
      return node === null ? null : this.node.op(node);
    }

    /** The side that names the row: the target's where there is one. */
    shownSide(row) {
      return (this.sides.target?.node(row) ?? null) === null ? this.sides.golden : this.sides.target;
    }

    slot(row) {
      const side = this.shownSide(row);
      return `${side.direction(row) ?? ""} ${side.index(row) ?? ""}`.trim();
    }

    direction(row) {
      return this.shownSide(row).direction(row);
    }

    nodeName(node) {
      if (node === null || node === undefined) return "";
      const call = this.node.call(node);
      const phase = this.node.phase(node) === "backward" ? " (backward)" : "";
      return `${this.node.name(node) ?? "(no name)"}${call ? ` #${call}` : ""}${phase}`;
    }

    name(row) {
      return this.nodeName(this.nodeOf(row));
    }

    sideName(side, row) {
      const node = this.sides[side]?.node(row) ?? null;
      return node === null ? null : this.nodeName(node);
    }

    /** What a node's entry in its dump is called; null where that is the node's name. */
    entry(node) {
      if (node === null || node === undefined) return null;
      return this.node.isNamed(node) ? this.usualEntry(node) : this.node.entry(node);
    }

    /** What the collectors' grammar calls a node: `Functional.conv2d.2.forward`, `Module.fc.Linear.backward.3`. */
    usualEntry(node) {
      const [name, call, phase] = [this.node.name(node), this.node.call(node), this.node.phase(node)];
      const ends = { api: `${call}.${phase}`, module: `${phase}.${call}`, debug: `${call}.debug` };
      return `${name}.${ends[this.node.kind(node)] ?? call}`;
    }

    /** The group that a row is of; many are called by the target's entry. */
    group(row) {
      const [label, node] = [this.groupByEntry(row), this.nodeOf(row)];
      return label === null ? this.groupText(row) : `${label}: ${this.entry(node) ?? this.node.name(node)}`;
    }

    sideEntry(side, row) {
      return this.entry(this.sides[side]?.node(row));
    }

    tensorName(row) {
      return `${this.name(row)} ${this.slot(row)}`;
    }

    metric(id, row) {
      return this.metrics.get(id)?.(row) ?? null;
    }

    /** Lower-case text that the search looks in; made once. */
    haystack(row) {
      if (!this.haystacks) this.haystacks = new Array(this.count);
      let text = this.haystacks[row];
      if (text === undefined) {
        const sides = [this.entry(this.nodeOf(row)), this.sideName("golden", row), this.sideEntry("golden", row)];
        const parts = [this.name(row), this.slot(row), this.op(row), ...sides, this.reason(row), ...this.reasons(row)];
        text = this.haystacks[row] = parts.filter(Boolean).join("\n").toLowerCase();
      }
      return text;
    }

    /** The row with this number in the order of execution, null where there is none. */
    rowOf(order) {
      for (let row = 0; row < this.count; row += 1) if (this.order(row) === order) return row;
      return null;
    }

    /** Rows by node, made once. */
    rowsOf(node) {
      if (!this.byNode) {
        this.byNode = new Map();
        for (let row = 0; row < this.count; row += 1) {
          const key = this.nodeOf(row);
          if (!this.byNode.has(key)) this.byNode.set(key, []);
          this.byNode.get(key).push(row);
        }
      }
      return this.byNode.get(node) ?? [];
    }

    /** Data flow of a node: `{from: [{node, output, input}], to: [...]}`; made once. */
    flow(node) {
      if (!this.flows) this.flows = this.readFlows();
      return this.flows.get(node) ?? { from: [], to: [] };
    }

    /** Communication of a node with other ranks: `[{direction, other}]`; made once. */
    links(node) {
      if (!this.byEnd) {
        this.byEnd = new Map();
        const { count, ...columns } = this.data.links;
        const [from, other] = [cells(columns.node), cells(columns.other)];
        const direction = this.texts(columns.direction);
        for (let link = 0; link < count; link += 1) {
          if (!this.byEnd.has(from(link))) this.byEnd.set(from(link), []);
          this.byEnd.get(from(link)).push({ direction: direction(link), other: other(link) });
        }
      }
      return this.byEnd.get(node) ?? [];
    }

    readFlows() {
      const flows = new Map();
      const of = (node) => {
        if (!flows.has(node)) flows.set(node, { from: [], to: [] });
        return flows.get(node);
      };
      const [producer, output, consumer, input] = ["producer", "output", "consumer", "input"].map((name) => cells(this.data.edges[name]));
      for (let edge = 0; edge < this.data.edges.count; edge += 1) {
        of(consumer(edge)).from.push({ node: producer(edge), output: output(edge), input: input(edge) });
        of(producer(edge)).to.push({ node: consumer(edge), output: output(edge), input: input(edge) });
      }
      return flows;
    }
  }

  const OFF = new Set(["origin", "drift", "over", "inherited"]);
  const RELATIVE = ["l2norm_diff_rel", "max_diff_rel", "mean_diff_rel", "min_diff_rel"];

  const TEXTS_OF_SIDE = {
    direction: "", index: "", kind: "", dtype: "", stored_dtype: "", shape: "", stored_shape: "", layout: "",
    folder: "", checksum: "", value: "", why: "",
  };

  /** The colour of an area, by the role of its tensor and by how much of the error is unexplained. */
  function fillOf(name, excess) {
    const { fills, strong } = probeFlow.looks.get(name);
    if (excess === null) return fills[strong ? fills.length - 1 : 0][1];
    return fills.find(([limit]) => limit === null || excess <= limit)[1];
  }

  Object.assign(probeFlow, {
    number,
    RELATIVE,
    fillOf,
    looks: new Map(), // by name, from what matters least to what matters most
    marks: [], // the same by number
    load: async () => {
      const store = new Store(await payload());
      probeFlow.marks = store.data.marks;
      for (const look of probeFlow.marks) probeFlow.looks.set(look.name, look);
      return store;
    },
  });
})();
