"use strict";
// Where the plot puts a row: a lane a rank, and in it the place that the row has in the order of its rank.
(() => {
  const MAX_LANES = 6;
  const NAMED = ["step", "graph", "micro_step"];
  const [HEAD, FOOT, ONE_HEIGHT, TICK_SPACE] = [18, 8, 246, 26]; // pixels

  function ranksOf(store, isDrawn) {
    const found = new Set();
    const known = new Set(store.executions.map((each) => each.rank));
    for (let row = 0; row < store.count && found.size < known.size; row += 1) {
      const rank = store.executions[store.execution(row)]?.rank ?? null;
      if (!found.has(rank) && isDrawn(row)) found.add(rank);
    }
    return [...(found.size ? found : known)].sort((one, other) => (one ?? -1) - (other ?? -1));
  }

  /** Pixels of a lane: few lanes are tall ones. */
  function heightOf(lanes) {
    return lanes === 1 ? ONE_HEIGHT : Math.max(84, Math.round(320 / lanes));
  }

  class Lanes {
    /** `isDrawn` tells of a row whether it can have a mark: ranks without any have no lane. */
    constructor(store, isDrawn = () => true) {
      this.store = store;
      const { executions } = store;
      this.ranks = ranksOf(store, isDrawn);
      const varying = NAMED.filter((part) => new Set(executions.map((each) => each[part])).size > 1);
      this.labels = executions.map((each) => varying.map((part) => `${part.replace("_", " ")} ${each[part] ?? "\u2013"}`).join(", "));
      this.head = executions.length > 1 ? HEAD : 0;
      this.shown = this.ranks.slice(0, MAX_LANES);
      this.most = heightOf(this.shown.length) * this.shown.length;
      this.numbers();
    }

    /** The number of every row among those of its rank, so that one operator stands at one place in all lanes. */
    numbers() {
      const { store } = this;
      if (this.ranks.length < 2) return;
      this.places = new Int32Array(store.count);
      const counts = new Map();
      for (let row = 0; row < store.count; row += 1) {
        const rank = this.rankOf(row);
        const place = counts.get(rank) ?? 0;
        this.places[row] = place;
        counts.set(rank, place + 1);
      }
    }

    rankOf(row) {
      return this.store.executions[this.store.execution(row)]?.rank ?? null;
    }

    /** The place of a row along its lane. */
    x(row) {
      return this.places ? this.places[row] : row;
    }

    /** Choose the lanes for some rows: ranks in which something begins, then the lowest ones. */
    choose(rows, isFirst) {
      const [present, accused] = [new Set(), new Set()];
      for (const row of rows) {
        const rank = this.rankOf(row);
        present.add(rank);
        if (isFirst(row)) accused.add(rank);
      }
      const inOrder = this.ranks.filter((rank) => present.has(rank));
      const wanted = [...inOrder.filter((rank) => accused.has(rank)), ...inOrder.filter((rank) => !accused.has(rank))];
      const chosen = new Set(wanted.slice(0, MAX_LANES));
      this.shown = inOrder.filter((rank) => chosen.has(rank));
      this.left = inOrder.length - this.shown.length;
      this.laneOf = new Map(this.shown.map((rank, lane) => [rank, lane]));
      this.height = heightOf(Math.max(1, this.shown.length));
      this.foot = this.shown.length > 1 ? FOOT / this.height : 0; // so that the lowest marks are off the line below
      this.room = 1 - this.head / this.height - this.foot;
    }

    get count() {
      return this.shown.length;
    }

    /** The lane of a row, from the top; undefined where its rank has none. */
    lane(row) {
      return this.laneOf.get(this.rankOf(row));
    }

    /** The height of a share (0 to 1) of a lane on the scale of all lanes, of which each is 1 high. */
    y(lane, share) {
      return this.count - 1 - lane + this.foot + share * this.room;
    }

    /** How many ticks a lane has room for. */
    get ticks() {
      return Math.max(2, Math.floor((this.height * this.room) / TICK_SPACE));
    }

    /** What a stretch of one execution is called; the first of a lane says its rank too. */
    nameOf(execution, isFirst) {
      const rank = this.ranks.length > 1 && isFirst ? `rank ${this.store.executions[execution].rank ?? "\u2013"}` : "";
      return [rank, this.labels[execution]].filter(Boolean).join(" \u00b7 ");
    }

    /** What is not drawn, as a sentence; empty where that is nothing. */
    note() {
      if (!this.left) return "";
      const all = probeFlow.group(this.count + this.left);
      return `${this.count} of ${all} ranks: those where something begins come first. The map below has all; choose a rank there to see its rows here.`;
    }
  }

  Object.assign(probeFlow, { Lanes });
})();
