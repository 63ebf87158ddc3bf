"use strict";
// The calls of target and golden as one forest: an item for each pair, and one for each call that has no partner.
(() => {
  const PHASES = { forward: "Forward", backward: "Backward", "parameter gradients": "Parameter gradients", "": "Other" };
  const QUIET = new Set(["fine", "gap"]);

  /** A pair of calls, a call of one side, or a group of them (an execution's forward calls, say). */
  class Call {
    constructor({ target = null, golden = null, label = "" }) {
      Object.assign(this, { target, golden, label, parent: null, children: [], depth: 0, place: -1, end: -1 });
      Object.assign(this, { rows: 0, mark: null, worstRow: null, worst: null, off: 0, isMoved: false, isRenamed: false });
    }

    get isGroup() {
      return this.target === null && this.golden === null;
    }

    get isPair() {
      return this.target !== null && this.golden !== null;
    }

    /** The node that names it: the target's where there is one. */
    get node() {
      return this.target ?? this.golden;
    }

    /** What holds it, outermost first, groups left out. */
    path() {
      const found = [];
      for (let at = this.parent; at !== null && !at.isGroup; at = at.parent) found.unshift(at);
      return found;
    }
  }

  /** What a call is named below its caller: `qkv` of class `Linear`; or the API; and the number of the call. */
  function callWords(store, node, caller) {
    const name = store.node.name(node) ?? "(no name)";
    const call = store.node.call(node);
    const number = call ? ` #${call}` : "";
    const isGradient = name.endsWith(".parameters_grad");
    const parts = name.replace(/\.parameters_grad$/, "").split(".");
    if (isGradient) return { label: "parameter gradients", detail: "", number };
    if (!/^(Module|Cell)$/.test(parts[0]) || parts.length < 3) return { label: name, detail: "", number };
    const path = parts.slice(1, -1);
    const outer = caller === null ? [] : (store.node.name(caller) ?? "").split(".").slice(1, -1);
    const isBelow = outer.length < path.length && outer.every((part, at) => part === path[at]);
    return { label: (isBelow ? path.slice(outer.length) : path).join("."), detail: parts[parts.length - 1], number };
  }

  /** Whether something is wrong with a call itself, or it should have been compared and was not. */
  function isOff(call) {
    return call.mark !== null && !QUIET.has(probeFlow.marks[call.mark].name);
  }

  /** Return the forest; null where no node names its caller. */
  function callsOf(store) {
    return store.node.hasAbove ? new Calls(store) : null;
  }

  class Calls {
    constructor(store) {
      this.store = store;
      this.hasGolden = store.data.dumps.some((dump) => dump.side === "golden");
      this.partner = this.partners();
      this.of = new Array(store.node.count).fill(null); // the item of each node
      this.groups = new Map();
      this.make();
      this.arrange();
      this.take();
      this.compare();
    }

    /** The first partner of each node, as the rows say; calls without tensors meet by name, or around pairs of calls. */
    partners() {
      const { store } = this;
      const found = new Int32Array(store.node.count).fill(-1);
      const { target, golden } = store.sides;
      if (!target || !golden) return found;
      const join = (one, other) => {
        if (found[one] < 0) found[one] = other;
        if (found[other] < 0) found[other] = one;
      };
      const hasRows = new Uint8Array(store.node.count);
      for (let row = 0; row < store.count; row += 1) {
        const [one, other] = [target.node(row), golden.node(row)];
        if (one !== null && one !== undefined) hasRows[one] = 1;
        if (other === null || other === undefined) continue;
        hasRows[other] = 1;
        if (one !== null && one !== undefined && (one === other || store.node.side(other) === "golden")) join(one, other);
      }
      const byName = new Map();
      for (let node = 0; node < store.node.count; node += 1) {
        if (store.node.side(node) === "golden" && !hasRows[node]) byName.set(this.identity(node), node);
      }
      for (let node = 0; node < store.node.count; node += 1) {
        if (store.node.side(node) !== "target") continue;
        const same = hasRows[node] ? undefined : byName.get(this.identity(node));
        if (same !== undefined && found[same] < 0) join(node, same);
        if (found[node] < 0) continue;
        let [one, other] = [store.node.above(node), store.node.above(found[node])];
        while (one !== null && other !== null && found[one] < 0 && found[other] < 0 && !hasRows[one] && !hasRows[other]) {
          join(one, other);
          [one, other] = [store.node.above(one), store.node.above(other)];
        }
      }
      return found;
    }

    identity(node) {
      const { node: nodes } = this.store;
      return JSON.stringify([nodes.execution(node), nodes.name(node), nodes.call(node), nodes.phase(node)]);
    }

    make() {
      const { store, of, partner } = this;
      for (let node = 0; node < store.node.count; node += 1) {
        if (store.node.side(node) !== "target") continue;
        const golden = partner[node] >= 0 ? partner[node] : null;
        of[node] = new Call({ target: node, golden });
        if (golden !== null) of[golden] ??= of[node]; // one of the golden may be the partner of several
      }
      for (let node = 0; node < store.node.count; node += 1) {
        if (store.node.side(node) === "golden" && of[node] === null) of[node] = new Call({ golden: node });
      }
      const executions = this.executionsOfGolden();
      const adopted = new Set();
      for (const call of of) {
        if (call === null || adopted.has(call)) continue;
        adopted.add(call);
        const above = store.node.above(call.node);
        call.parent = above === null || of[above] === null ? this.group(call, executions) : of[above];
        call.parent.children.push(call);
      }
      this.all = [...adopted];
    }

    /** The target's execution that each of the golden is compared with. */
    executionsOfGolden() {
      const { node } = this.store;
      const found = new Map();
      for (let each = 0; each < this.partner.length; each += 1) {
        if (node.side(each) === "target" && this.partner[each] >= 0) found.set(node.execution(this.partner[each]), node.execution(each));
      }
      return found;
    }

    group(call, executions) {
      const { store } = this;
      const own = store.node.execution(call.node) ?? 0;
      const execution = call.target === null ? (executions.get(own) ?? own) : own;
      const phase = store.phaseOf(call.node);
      const microStep = store.node.microStep(call.node);
      const label = `${microStep === null ? "" : `Micro step ${microStep}: `}${PHASES[phase] ?? phase}`;
      const key = `${execution} ${label}`;
      if (!this.groups.has(key)) this.groups.set(key, Object.assign(new Call({ label }), { execution, microStep: microStep ?? -1 }));
      return this.groups.get(key);
    }

    /** Put calls into the order in which they ran; what only the golden has comes behind what ran before it there. */
    arrange() {
      const order = this.orders();
      const below = new Map(); // golden calls, below a golden call or in a group
      for (const call of this.all) {
        if (call.golden === null || this.of[call.golden] !== call) continue;
        const above = this.store.node.above(call.golden) ?? groupOf(call);
        if (!below.has(above)) below.set(above, []);
        below.get(above).push(call.golden);
      }
      for (const parent of [...this.groups.values(), ...this.all]) {
        if (!parent.children.length) continue;
        const targets = parent.children.filter((each) => each.target !== null).sort((one, other) => order[one.target] - order[other.target]);
        const mine = below.get(parent.isGroup ? parent : parent.golden) ?? [];
        mine.sort((one, other) => order[one] - order[other]);
        markLeaps(targets, mine, this.of);
        parent.children = targets.length === parent.children.length ? targets : this.merged(parent, targets, mine);
      }
    }

    /** The children of both sides: behind a pair what only the golden has, beside a call of that name where there is one. */
    merged(parent, targets, golden) {
      const after = new Map();
      const put = (call, lone) => after.set(call, [...(after.get(call) ?? []), lone]);
      const places = new Map(targets.map((call, place) => [call, place]));
      let gap = 0; // the first child of the target behind the last pair
      for (const node of golden) {
        const call = this.of[node];
        if (call.parent !== parent) continue;
        if (call.isPair) gap = places.get(call) + 1;
        else put(this.namesake(call, targets, gap) ?? targets[gap - 1] ?? null, call);
      }
      return [...(after.get(null) ?? []), ...targets.flatMap((call) => [call, ...(after.get(call) ?? [])])];
    }

    /** The call of the target alone in a gap between pairs that is named like one of the golden. */
    namesake(lone, targets, gap) {
      const label = this.labelOf(lone.golden);
      for (let place = gap; place < targets.length && !targets[place].isPair; place += 1) if (this.labelOf(targets[place].target) === label) return targets[place];
      return null;
    }

    labelOf(node) {
      return callWords(this.store, node, this.store.node.above(node)).label;
    }

    /** When each node ran; a caller of which only the name is known, when the first of what it called did. */
    orders() {
      const { node } = this.store;
      const found = Float64Array.from({ length: node.count }, (_, each) => node.order(each) ?? Infinity);
      for (let each = 0; each < node.count; each += 1) {
        for (let at = node.above(each); at !== null && (node.order(at) ?? null) === null && found[each] < found[at]; at = node.above(at)) found[at] = found[each];
      }
      return found;
    }

    /** Number the calls as the lines of the graph, and give each what its rows say and the worst of what is inside. */
    take() {
      const { store } = this;
      this.lines = [];
      const due = [...this.groups.values()].sort((one, other) => one.execution - other.execution || one.microStep - other.microStep).reverse();
      this.roots = [...due].reverse();
      while (due.length) {
        const call = due.pop();
        call.place = this.lines.length;
        call.depth = call.parent === null ? 0 : call.parent.depth + 1;
        call.execution ??= call.parent.execution;
        this.lines.push(call);
        for (let at = call.children.length - 1; at >= 0; at -= 1) due.push(call.children[at]);
      }
      for (let row = 0; row < store.count; row += 1) {
        const call = this.callOf(row);
        if (call === null) continue;
        const mark = store.markNumber(row);
        call.rows += 1;
        if (call.mark === null || mark > call.mark || (mark === call.mark && isLarger(this.size(row), this.size(call.worstRow)))) {
          call.mark = mark;
          call.worstRow = row;
        }
      }
      for (const call of this.lines) {
        if (!this.isShared(call)) continue;
        const { mark, worstRow } = this.of[this.partner[call.golden]];
        Object.assign(call, { mark, worstRow });
      }
      for (const call of this.lines) Object.assign(call, { worst: call.mark ?? 0, end: call.place + 1, off: 0 });
      for (let place = this.lines.length - 1; place >= 0; place -= 1) {
        const call = this.lines[place];
        const { parent } = call;
        if (parent === null) continue;
        parent.worst = Math.max(parent.worst, call.worst);
        parent.end = Math.max(parent.end, call.end);
        parent.off += call.off + Number(isOff(call));
      }
    }

    /** The item whose row it is. */
    callOf(row) {
      const node = this.store.nodeOf(row);
      return node === null ? null : this.of[node];
    }

    rowsOf(call) {
      const { store } = this;
      if (this.isShared(call)) return store.rowsOf(this.partner[call.golden]).filter((row) => store.sides.golden.node(row) === call.golden);
      const nodes = new Set([call.target, this.of[call.golden] === call ? call.golden : null]);
      nodes.delete(null);
      return [...nodes].flatMap((node) => store.rowsOf(node));
    }

    /** Say which pairs have other names, or lie elsewhere in the golden. */
    compare() {
      const { store } = this;
      for (const call of this.all) {
        if (!call.isPair || call.target === call.golden) continue;
        const [mine, theirs] = [call.target, call.golden].map((node) => callWords(store, node, store.node.above(node)));
        call.isRenamed = mine.label !== theirs.label || mine.detail !== theirs.detail;
        call.isMoved ||= this.pairAround(call.target) !== this.pairAround(call.golden);
      }
    }

    /** How the sides of a call meet: one word, nothing for groups and where there is one side. */
    meeting(call) {
      if (call.isGroup || !this.hasGolden) return "";
      if (this.isShared(call)) return "shared";
      if (!call.isPair) return call.golden === null ? "target_only" : "golden_only";
      return call.isMoved ? "moved" : call.isRenamed ? "renamed" : "same";
    }

    /** Whether a call of the golden is compared with a call of the target that has its line with another one. */
    isShared(call) {
      return call.target === null && call.golden !== null && this.partner[call.golden] >= 0;
    }

    /** The innermost pair around a node of either side; null where there is none. */
    pairAround(node) {
      for (let at = this.store.node.above(node); at !== null; at = this.store.node.above(at)) if (this.of[at].isPair) return this.of[at];
      return null;
    }

    /** How far the sides of a row are apart; in a dump alone, its largest value. */
    size(row) {
      return this.hasGolden ? this.store.error(row) : this.store.metric("max_abs", row);
    }

    /** The figure of a call: its score where the report has scores, else the size of its worst row. */
    figure(call) {
      if (this.store.node.hasScores) return call.target === null ? null : this.store.node.score(call.target);
      return call.worstRow === null ? null : this.size(call.worstRow);
    }

    /** What the figures of calls are. */
    get figureName() {
      return this.store.node.hasScores ? "score" : this.hasGolden ? "error" : "largest";
    }

    /** How bad an overflow is, for each side that has one: `["target", "critical"]`. */
    levels(call) {
      const { node } = this.store;
      return ["target", "golden"].flatMap((side) => {
        const level = call[side] === null ? null : node.level(call[side]);
        return level === null ? [] : [[side, level]];
      });
    }
  }

  function groupOf(call) {
    let at = call;
    while (at.parent !== null) at = at.parent;
    return at;
  }

  /** Mark the pairs that leave the order of the golden: all but the longest run of children that rise in both. */
  function markLeaps(targets, golden, of) {
    const places = new Map(golden.map((node, place) => [of[node], place]));
    const pairs = targets.filter((call) => places.has(call));
    const tails = []; // the last pair of the best run of each length
    const before = new Map();
    for (const call of pairs) {
      let [low, high] = [0, tails.length];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (places.get(tails[middle]) < places.get(call)) low = middle + 1;
        else high = middle;
      }
      before.set(call, low ? tails[low - 1] : null);
      tails[low] = call;
    }
    const kept = new Set();
    for (let call = tails[tails.length - 1] ?? null; call !== null; call = before.get(call)) kept.add(call);
    for (const call of pairs) call.isMoved = !kept.has(call);
  }

  function isLarger(one, other) {
    if (one === null || other === null) return one !== null;
    return Number.isNaN(one) || one > other;
  }

  Object.assign(probeFlow, { callsOf, callWords, isOffCall: isOff, groupWords: PHASES });
})();
