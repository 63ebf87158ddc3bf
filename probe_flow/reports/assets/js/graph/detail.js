"use strict";
// Everything that is known of one call of the graph: its tensors, its partner or who it may be, what is inside, its source.
(() => {
  const MIDDOT = " \u00b7 ";
  const UNEXAMINED = "Not examined: this run shows the calls of the dump. The workflow `find_nonfinite` lists their tensors.";
  const MOST_INSIDE = 8;
  const MOST_ITEMS = 60;
  const MOST_RANKS = 16;
  const DIRECTIONS = { send: "sends to", receive: "receives from", send_receive: "exchanges with" };
  const FIGURES = {
    tensor: [["relative_euclidean_distance", "error"], ["cosine", "cosine"], ["max_abs_err", "max abs"]],
    statistics: [["l2norm_diff_rel", "norm rel"], ["max_diff_rel", "max rel"], ["mean_diff_rel", "mean rel"]],
    checksum: [["checksum_equal", "equal"]],
    null: [["max_abs", "largest"]],
  };
  const EXACT = new Set(["cosine", "checksum_equal", "max_abs"]);
  const MEANINGS = {
    same: "the golden has it under the same name, in the same place",
    renamed: "the golden has it under another name",
    moved: "the golden has it in another place",
    target_only: "added: the golden has no such call",
    golden_only: "missing: the target has no such call",
    shared: "compared with a call of the target that other calls of the golden are compared with too",
  };

  class CallDetail {
    constructor(store, graph) {
      this.store = store;
      this.graph = graph;
      this.calls = graph.calls;
      this.mapping = new probeFlow.LayerMapping(store, graph.calls);
    }

    head(call, panel) {
      const { el } = probeFlow;
      const { store } = this;
      const entry = store.entry(call.node);
      const execution = store.executions.length > 1 ? store.executions[store.node.execution(call.node)].label : null;
      return el(
        "header",
        { class: "panel-head" },
        el("div", { class: "panel-tools" }, this.graph.badgeOf(call.mark), this.graph.meetingOf(call), el("span", { class: "grow" }), panel.tools("call", (step) => this.graph.step(step))),
        el("h2", { id: "panel-title", tabindex: "-1", class: "name" }, probeFlow.abridged(store.nodeName(call.node))),
        entry === null ? null : el("p", { class: "muted", id: "panel-entry" }, "in the dump ", probeFlow.called(entry)),
        el("p", { class: "muted" }, [store.node.op(call.node), execution].filter(Boolean).join(MIDDOT), MIDDOT, el("a", { href: this.graph.hashOf(call), id: "call-link" }, "link to this call")),
      );
    }

    sections(call) {
      return [this.verdict(call), this.partner(call), this.ranks(call), this.items(call), this.inside(call), ...this.sources(call)];
    }

    verdict(call) {
      const { el, marks, section, explained, counted } = probeFlow;
      const { store } = this;
      const levels = this.calls.levels(call).map(([side, level]) => el("p", {}, el("b", {}, `overflow ${level}`), ` (${side})`));
      if (call.mark === null) return section("Verdict", el("p", {}, this.graph.isExamined ? "The dump has no tensor of this call." : probeFlow.prose(UNEXAMINED)), levels);
      const { word, meaning } = marks[call.mark];
      const row = call.worstRow;
      const finding = store.summary.findings.find((each) => each.row === row);
      const reasons = [...new Set([...store.reasons(row), store.reason(row), ...store.notes(row)].filter(Boolean))];
      const score = call.target === null ? null : store.node.score(call.target);
      return section(
        "Verdict",
        el("p", {}, el("b", {}, word), `${MIDDOT}${meaning}`, finding ? "" : explained(store.excess(row))),
        score === null ? null : el("p", {}, "score ", el("b", {}, probeFlow.figure(score, 4)), el("span", { class: "muted" }, " of 1, where 0 is equal")),
        el("p", { class: "muted" }, "the worst of ", counted(call.rows, "tensor"), ": ", el("button", { type: "button", class: "link name", click: () => this.graph.onOpen(row) }, store.slot(row))),
        finding ? el("p", { class: "evidence" }, probeFlow.sentence(finding.evidence)) : null,
        reasons.length ? el("ul", { class: "reasons" }, reasons.map((text) => el("li", {}, probeFlow.prose(text)))) : null,
        levels,
      );
    }

    partner(call) {
      const { el, section, facts } = probeFlow;
      const { store, calls } = this;
      const meeting = calls.meeting(call);
      if (!meeting) return this.place(call);
      const rows = calls.rowsOf(call);
      const rules = [...new Set(rows.map((row) => store.rule(row)).filter(Boolean))];
      const confidences = rows.map((row) => store.confidence(row)).filter((each) => each !== null);
      const spans = [...new Set(rows.map((row) => store.rule_span(row)).filter(Boolean))];
      return section(
        "Match",
        el("p", {}, MEANINGS[meeting]),
        facts([
          ["golden", call.isPair ? probeFlow.called(store.nodeName(call.golden)) : null],
          ["also with", this.others(call)],
          ["inside", this.around(call.target, "target")],
          ["golden inside", meeting === "moved" || call.target === null ? this.around(call.golden, "golden") : null],
          ["rule", call.isPair && rules.length ? rules.join(", ") : null],
          ["confidence", call.isPair && confidences.length ? `${Math.round(Math.min(...confidences) * 100)} %` : null],
          ["mapping file", spans.length ? spans.join(", ") : null],
        ]),
        ["target_only", "golden_only"].includes(meeting) ? this.candidates(call) : null,
      );
    }

    /** Other calls that take part in its comparison: of the golden, or of the target where they share a partner. */
    others(call) {
      const { store, calls } = this;
      const { target, golden } = store.sides;
      const found = new Set(call.target === null ? [calls.partner[call.golden]] : calls.rowsOf(call).map((row) => golden?.node(row) ?? null));
      if (call.isPair && calls.of[call.golden] !== call) found.add(calls.of[call.golden].target);
      for (const node of [null, -1, call.target, call.golden]) found.delete(node);
      return found.size && target ? this.links([...found]) : null;
    }

    place(call) {
      const around = this.around(call.node, "target");
      return around === null ? null : probeFlow.section("Place", probeFlow.facts([["inside", around]]));
    }

    /** The calls around a node in its own dump, outermost first; each leads to its line. */
    around(node, side) {
      const { store } = this;
      if (node === null) return null;
      const found = [];
      for (let at = store.node.above(node); at !== null; at = store.node.above(at)) found.unshift(at);
      return found.length ? this.links(found, " \u203a ") : `nothing: an outermost call of the ${side}`;
    }

    links(nodes, between = ", ") {
      const { el } = probeFlow;
      return el("span", { class: "callers" }, nodes.map((each, place) => [
        place ? between : null,
        el("button", { type: "button", class: "link name", title: this.store.nodeName(each), click: () => this.graph.open(this.calls.of[each]) }, this.words(each)),
      ]));
    }

    words(node) {
      const { label, detail, number } = probeFlow.callWords(this.store, node, this.store.node.above(node));
      return `${label}${detail ? ` ${detail}` : ""}${number}`;
    }

    /** Who the partner may be, and what a mapping file would have to say. */
    candidates(call) {
      const { el, prose } = probeFlow;
      const around = this.mapping.unknownAround(call);
      if (around !== null) return el("p", {}, "Find the partner of what is around it first: ", this.links([around.node]));
      const found = this.mapping.candidates(call).map((each) => {
        const [target, golden] = call.target === null ? [each.call.target, call.golden] : [call.target, each.call.golden];
        return { ...each, ...this.mapping.pairing(target, golden) };
      });
      if (!found.length) return el("p", { class: "muted" }, `No call of this kind is without partner in the ${call.target === null ? "target" : "golden"} nearby.`);
      const sayable = found.filter(({ yaml }) => yaml);
      return [
        el("h4", {}, "It may be"),
        el("ul", { class: "candidates" }, (sayable.length ? sayable : found).map(({ call: other, alike, yaml, note }) => el(
          "li",
          {},
          el("button", { type: "button", class: "link name", click: () => this.graph.open(other) }, this.store.nodeName(other.node)),
          el("span", { class: "muted" }, alike.length ? `same ${alike.join(", ")}` : "near by"),
          yaml
            ? [el("span", { class: "muted" }, "in a layer mapping:"), el("pre", { class: "snippet" }, yaml.map((line) => [line, document.createTextNode("\n")]))]
            : el("span", { class: "muted" }, prose(note)),
        ))),
      ];
    }

    /** The calls of other ranks that it talks to, each with its link. */
    ranks(call) {
      const { el, section } = probeFlow;
      const { store, calls } = this;
      const met = store.links(call.node).filter(({ other }) => calls.of[other] !== null);
      if (!met.length) return null;
      return section("Other ranks", el("ul", { class: "links ranks" }, met.slice(0, MOST_RANKS).map(({ direction, other }) => el(
        "li",
        {},
        el("span", { class: "muted" }, `${DIRECTIONS[direction]} ${store.executions[store.node.execution(other)].label}`),
        el("button", { type: "button", class: "link name", click: () => this.graph.open(calls.of[other]) }, this.words(other)),
        this.graph.badgeOf(calls.of[other].mark),
      ))), met.length > MOST_RANKS ? el("p", { class: "muted" }, `and ${probeFlow.counted(met.length - MOST_RANKS, "more call")}`) : null);
    }

    items(call) {
      const { el, section, small, figure, badge, counted } = probeFlow;
      const { store } = this;
      const rows = this.calls.rowsOf(call);
      if (!rows.length) return null;
      const figures = (FIGURES[this.calls.hasGolden ? (store.mode(call.worstRow) ?? store.mainMode()) : null] ?? []).filter(([id]) => rows.some((row) => store.metric(id, row) !== null));
      const cell = (id, row) => (EXACT.has(id) ? figure(store.metric(id, row)) : small(store.metric(id, row)));
      return section(
        "Tensors",
        el(
          "table",
          { class: "plain numbers items" },
          el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "tensor"), figures.map(([id, title]) => el("th", { scope: "col", "data-metric": id, tabindex: "0" }, title)), el("th", { scope: "col" }, "role"))),
          el("tbody", {}, rows.slice(0, MOST_ITEMS).map((row) => el(
            "tr",
            {},
            el("th", { scope: "row" }, el("button", { type: "button", class: "link name", click: () => this.graph.onOpen(row) }, store.slot(row)), el("span", { class: "type" }, ` ${typeOf(store, row)}`)),
            figures.map(([id]) => el("td", {}, cell(id, row))),
            el("td", {}, badge(store.mark(row))),
          ))),
        ),
        rows.length > MOST_ITEMS ? el("p", { class: "muted" }, `and ${counted(rows.length - MOST_ITEMS, "more tensor")}`) : null,
      );
    }

    /** The worst calls inside of a module. */
    inside(call) {
      const { el, section, counted } = probeFlow;
      const count = call.end - call.place - 1;
      if (!count) return null;
      const wrong = this.calls.lines.slice(call.place + 1, call.end).filter(probeFlow.isOffCall);
      wrong.sort((one, other) => other.mark - one.mark || one.place - other.place);
      const text = wrong.length ? `${counted(wrong.length, "call")} of ${probeFlow.group(count)} ${wrong.length === 1 ? "is" : "are"} not fine` : `${counted(count, "call")}${this.graph.isExamined ? ", none of them wrong" : ""}`;
      return section(
        "Inside",
        el("p", {}, text),
        wrong.length
          ? el("ul", { class: "links" }, wrong.slice(0, MOST_INSIDE).map((each) => el(
              "li",
              {},
              el("button", { type: "button", class: "link name", click: () => this.graph.open(each) }, this.words(each.node)),
              this.graph.badgeOf(each.mark),
              el("span", { class: "error" }, this.graph.figureText(this.calls.figure(each))),
            )))
          : null,
      );
    }

    sources(call) {
      const { store } = this;
      const found = ["target", "golden"].map((side) => [side, call[side] === null ? [] : store.node.stack(call[side])]).filter(([, frames]) => frames.length);
      const isSame = found.length > 1 && found[0][1].join("\n") === found[1][1].join("\n");
      return (isSame ? found.slice(0, 1) : found).map(([side, frames]) =>
        probeFlow.section(this.calls.hasGolden && !isSame ? `Source (${side})` : "Source", probeFlow.stackOf(frames)),
      );
    }
  }

  /** dtype and shape of a row's tensor; of both sides where they differ. */
  function typeOf(store, row) {
    const texts = ["target", "golden"].map((side) => {
      const columns = store.sides[side];
      if ((columns?.node(row) ?? null) === null) return null;
      return [columns.dtype(row), columns.shape(row) ?? columns.value(row)].filter(Boolean).join(" ");
    });
    const known = [...new Set(texts.filter((text) => text !== null))];
    return known.join(" \u2260 ");
  }

  Object.assign(probeFlow, { CallDetail });
})();
