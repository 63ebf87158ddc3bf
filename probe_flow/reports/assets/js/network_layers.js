"use strict";
// Places boxes in layers, from producers at the top to consumers at the bottom, and the ways between them.
(() => {
  const SWEEPS = 6;
  const GAP_X = 26;
  const GAP_Y = 44;
  const MARGIN = 14;
  const PASSING = 12; // width kept for a way that passes a layer

  /** Layer of every box: below all that feeds it; edges that would close a circle do not count. */
  function depths(count, edges) {
    const after = Array.from({ length: count }, () => []);
    const waiting = new Array(count).fill(0);
    for (const { from, to } of edges) {
      if (from >= to) continue; // boxes are in order of execution
      after[from].push(to);
      waiting[to] += 1;
    }
    const depth = new Array(count).fill(0);
    const isSource = waiting.map((each) => each === 0);
    for (let box = 0; box < count; box += 1) for (const to of after[box]) depth[to] = Math.max(depth[to], depth[box] + 1);
    return depth.map((each, box) => (isSource[box] && after[box].length ? Math.min(...after[box].map((to) => depth[to])) - 1 : each));
  }

  /** What each edge passes; a long one has a place of its own in every layer between. */
  function waysThrough(edges, depth, layers) {
    let following = depth.length;
    return edges.map(({ from, to }) => {
      const way = [from];
      for (let layer = depth[from] + 1; layer < depth[to]; layer += 1) {
        layers[layer].push(following);
        way.push(following);
        following += 1;
      }
      return [...way, to];
    });
  }

  /** Move each place towards the mean of its neighbours, a few times. */
  function untangle(layers, ways) {
    const near = new Map();
    const join = (one, other) => near.set(one, [...(near.get(one) ?? []), other]);
    for (const way of ways) {
      for (let place = 1; place < way.length; place += 1) {
        join(way[place - 1], way[place]);
        join(way[place], way[place - 1]);
      }
    }
    const at = new Map();
    const number = (layer) => layer.forEach((each, place) => at.set(each, place - layer.length / 2));
    layers.forEach(number);
    for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
      for (const layer of layers) {
        const mean = new Map(layer.map((each) => {
          const others = near.get(each) ?? [];
          return [each, others.length ? others.reduce((sum, other) => sum + at.get(other), 0) / others.length : at.get(each)];
        }));
        layer.sort((one, other) => mean.get(one) - mean.get(other));
        number(layer);
      }
    }
  }

  /**
   * Return `{boxes: [{x, y, width, height}], ways: [[{x, y, height}]], width, height}`; `x` is the middle of a box.
   * Boxes are given in order of execution as `{width, height}`, edges as `{from, to}` by their places.
   */
  function placedInLayers(sizes, edges) {
    const drawn = edges.filter(({ from, to }) => from !== to);
    const depth = depths(sizes.length, drawn);
    const top = depth.reduce((least, each) => Math.min(least, each), 0);
    const levels = depth.map((each) => each - top);
    const layers = Array.from({ length: levels.reduce((most, each) => Math.max(most, each), 0) + 1 }, () => []);
    levels.forEach((layer, box) => layers[layer].push(box));
    const ways = waysThrough(drawn, levels, layers);
    untangle(layers, ways);
    const size = (place) => sizes[place] ?? { width: PASSING, height: 0 };
    const widths = layers.map((layer) => layer.reduce((sum, place) => sum + size(place).width + GAP_X, -GAP_X));
    const widest = Math.max(...widths);
    const placed = new Map();
    let y = MARGIN;
    layers.forEach((layer, number) => {
      let x = MARGIN + (widest - widths[number]) / 2;
      const height = Math.max(...layer.map((place) => size(place).height));
      for (const place of layer) {
        const { width, height: own } = size(place);
        placed.set(place, { x: x + width / 2, y, width, height: own || height });
        x += width + GAP_X;
      }
      y += height + GAP_Y;
    });
    return {
      boxes: sizes.map((_, box) => placed.get(box)),
      ways: ways.map((way) => way.map((place) => placed.get(place))),
      width: widest + 2 * MARGIN,
      height: y - GAP_Y + MARGIN,
    };
  }

  Object.assign(probeFlow, { placedInLayers });
})();
