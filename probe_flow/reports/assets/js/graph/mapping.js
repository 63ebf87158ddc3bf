"use strict";
// For a call without partner: the calls of the other side that it may be, and the line of a layer mapping that says so.
(() => {
  const MOST = 3;
  const LOOKED_AT = 400; // calls that one call is compared with, the nearest ones
  const LEAST_SIMILAR = 0.4; // names of APIs below this are other operations
  const TOP = "TopLayer";
  const PLAIN = /^[A-Za-z_][A-Za-z0-9_.-]*$/;
  const WORDS = new Set(["true", "false", "yes", "no", "on", "off", "null", "y", "n", "nan", "inf"]);

  class LayerMapping {
    constructor(store, calls) {
      this.store = store;
      this.calls = calls;
    }

    /** Calls of the other side without partner, the likeliest first: `[{call, alike: ["type", ...]}]`. */
    candidates(call) {
      const { store, calls } = this;
      const around = calls.pairAround(call.node);
      const fits = (other) =>
        other.execution === call.execution &&
        store.node.kind(other.node) === store.node.kind(call.node) &&
        store.phaseOf(other.node) === store.phaseOf(call.node) &&
        calls.pairAround(other.node) === around;
      const isMine = (other) => (other.target === null) === (call.target === null);
      const alone = this.alone().filter(fits);
      const depth = this.depthOf(call);
      const [mine, theirs] = [true, false].map((wanted) => alone.filter((other) => isMine(other) === wanted));
      const ranks = (side) => new Map(side.filter((other) => this.depthOf(other) === depth).map((other, rank) => [other, rank]));
      const [own, rank] = [ranks(mine).get(call), ranks(theirs)]; // calls mostly keep their order
      const distance = (other) => (rank.has(other) ? Math.abs(rank.get(other) - own) : Infinity);
      const near = theirs.map((other) => [other, distance(other)]).sort(([, one], [, other]) => one - other || 0).slice(0, LOOKED_AT);
      const isKin = ([other]) => store.node.kind(call.node) !== "api" || similar(lastOf(store, call), lastOf(store, other)) >= LEAST_SIMILAR;
      const found = near.filter(isKin).map(([other, apart]) => this.likeness(call, other, apart));
      return found.sort((one, other) => other.points - one.points).slice(0, MOST);
    }

    alone() {
      this.known ??= this.calls.lines.filter((call) => ["target_only", "golden_only"].includes(this.calls.meeting(call)));
      return this.known;
    }

    /** What two calls have in common; `apart` says how far they are from the same place in the order. */
    likeness(call, other, apart) {
      const { node } = this.store;
      const alike = [];
      if (node.op(call.node) === node.op(other.node)) alike.push("type");
      if (this.shapes(call) && this.shapes(call) === this.shapes(other)) alike.push("shapes");
      if (node.call(call.node) === node.call(other.node)) alike.push("number of the call");
      const names = similar(node.name(call.node) ?? "", node.name(other.node) ?? "");
      const sizes = [call, other].map((each) => each.end - each.place);
      const place = Number.isFinite(apart) ? 2 + 2 / (1 + apart) : 0; // at the same depth, that is
      return { call: other, alike, points: 2 * alike.length + 2 * names + Math.min(...sizes) / Math.max(...sizes) + place };
    }

    /** How many calls lie between a call and the pair around it. */
    depthOf(call) {
      const around = this.calls.pairAround(call.node);
      let depth = 0;
      for (let at = this.store.node.above(call.node); at !== null && this.calls.of[at] !== around; at = this.store.node.above(at)) depth += 1;
      return depth;
    }

    /** The outermost module around a call that has no partner, and of which no mapping says where it is; else null. */
    unknownAround(call) {
      const known = this.modules()[call.target === null ? "target" : "golden"];
      const isUnknown = (each) => !each.isPair && !this.calls.isShared(each) && !known.has(this.pathOf(each.node).join("."));
      return call.path().find(isUnknown) ?? null;
    }

    shapes(call) {
      const side = this.store.sides[call.target === null ? "golden" : "target"];
      return this.calls.rowsOf(call).map((row) => `${side.direction(row)} ${side.shape(row) ?? ""}`).join("\n");
    }

    /** The lines of a layer mapping that would pair two calls; or why none is needed, or none can: `{yaml: lines, note}`. */
    pairing(target, golden) {
      const [own, theirs] = [target, golden].map((node) => this.pathOf(node));
      if (!own.length || !theirs.length || [...own, ...theirs].some((part) => !part || part.includes("("))) {
        return { note: "a layer mapping cannot name one of the two" };
      }
      const { owner, start, base } = this.ownerOf(own);
      if (base.some((part, at) => theirs[at] !== part) || theirs.length <= base.length) {
        return { note: `it does not lie below \`${base.join(".")}\` in the golden: a layer mapping cannot pair them` };
      }
      const [child, called] = withoutCommonEnd(own.slice(start), theirs.slice(base.length));
      if (child.join(".") === called.join(".")) return { note: "they lie in the same place: `match.layer_mapping` pairs them without an entry" };
      return { yaml: [`${scalar(owner)}:`, `  ${scalar(child.join("."))}: ${scalar(called.join("."))}`] };
    }

    /** The place of a module, or of an API below the module that calls it. */
    pathOf(node) {
      const { node: nodes } = this.store;
      const name = (nodes.name(node) ?? "").replace(/\.parameters_grad$/, "");
      if (nodes.kind(node) !== "api") return pathOf(name);
      return [...pathOf(nodes.parent(node) ?? ""), name.split(".").pop()];
    }

    /** The innermost module of the target around a path of which is known where it is in the golden. */
    ownerOf(path) {
      const { target, golden } = this.modules();
      for (let start = path.length - 1; start > 0; start -= 1) {
        const key = path.slice(0, start).join(".");
        const around = target.get(key);
        if (around === undefined) continue;
        const owner = (this.store.node.name(around) ?? "").split(".").pop();
        const partner = this.calls.partner[around];
        if (partner >= 0) return { owner, start, base: this.pathOf(partner) };
        if (golden.has(key)) return { owner, start, base: path.slice(0, start) };
      }
      return { owner: TOP, start: 0, base: [] };
    }

    /** The modules of both sides by their paths. */
    modules() {
      this.byPath ??= { target: this.modulesOf("target"), golden: this.modulesOf("golden") };
      return this.byPath;
    }

    modulesOf(side) {
      const { node } = this.store;
      const found = new Map();
      for (let each = 0; each < node.count; each += 1) {
        if (node.side(each) !== side || !/^(Module|Cell)\./.test(node.name(each) ?? "")) continue;
        const key = pathOf(node.name(each)).join(".");
        if (!found.has(key)) found.set(key, each);
      }
      return found;
    }
  }

  /** `["layers", "0"]` of `Module.layers.0.Block`. */
  function pathOf(name) {
    return name.split(".").slice(1, -1);
  }

  /** What an API is called without its type: `gelu` of `Functional.gelu`. */
  function lastOf(store, call) {
    return (store.node.name(call.node) ?? "").split(".").pop();
  }

  function withoutCommonEnd(child, called) {
    let [one, other] = [child, called];
    while (one.length > 1 && other.length > 1 && one[one.length - 1] === other[other.length - 1]) [one, other] = [one.slice(0, -1), other.slice(0, -1)];
    return [one, other];
  }

  /** A text as YAML that every reader takes for text. */
  function scalar(text) {
    return PLAIN.test(text) && !WORDS.has(text.toLowerCase()) ? text : JSON.stringify(text);
  }

  /** The share of pairs of letters that two names have in common, from 0 to 1. */
  function similar(one, other) {
    const pairs = (text) => new Set(Array.from({ length: Math.max(0, text.length - 1) }, (_, at) => text.slice(at, at + 2)));
    const [mine, theirs] = [pairs(one.toLowerCase()), pairs(other.toLowerCase())];
    const common = [...mine].filter((each) => theirs.has(each)).length;
    return mine.size + theirs.size ? (2 * common) / (mine.size + theirs.size) : 0;
  }

  Object.assign(probeFlow, { LayerMapping });
})();
