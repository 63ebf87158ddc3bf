"use strict";
// Everything that is known of one row.
(() => {
  const STATISTICS = ["min", "max", "mean", "l2norm", "nan", "inf"];
  const FACTS = [
    ["kind", "kind"], ["dtype", "dtype"], ["stored_dtype", "stored as"], ["shape", "shape"], ["stored_shape", "stored shape"],
    ["layout", "layout"], ["value", "value"], ["checksum", "checksum"], ["why", "note"],
  ];
  const FIRST = ["relative_euclidean_distance", "cosine", "max_abs_err", "mean_abs_err", "rmse", "max_rel_err", "mean_rel_err"];
  const MAX_LINKS = 40;
  const GAPS = {
    expected: "An expected gap: the coverage does not count it.",
    outside: "Not asked for: a selection, the rules or the mapping leave it out.",
    missing: "A gap: it lowers the coverage.",
  };
  const NEAR = 5;
  const MIDDOT = " \u00b7 ";

  class Panel {
    constructor(store, { onOpen, onStep }) {
      this.store = store;
      this.onOpen = onOpen;
      this.onStep = onStep;
      this.box = document.getElementById("panel");
      this.call = null; // of the graph, while one is shown
      this.findings = new Map(store.summary.findings.filter((each) => each.row !== null).map((each) => [each.row, each]));
    }

    get isOpen() {
      return !this.box.hidden;
    }

    open(row, { focus = false } = {}) {
      this.row = row;
      this.call = null;
      this.present(this.head(row), this.sections(row), focus);
      this.address?.write();
    }

    /** Show a call of the graph in place of a row. */
    openCall(call, head, sections) {
      this.row = null;
      this.call = call;
      this.present(head, sections, false);
    }

    present(head, sections, focus) {
      const wasOpen = this.isOpen;
      if (!wasOpen) this.show(true);
      probeFlow.fill(this.box, head, probeFlow.el("div", { class: "panel-body" }, sections));
      if (focus || (!wasOpen && this.call === null)) this.box.querySelector("h2").focus({ preventScroll: true });
    }

    close() {
      this.call = null;
      this.show(false);
      this.address?.write();
    }

    /** The panel narrows the page; what one looks at stays where it is. */
    show(isOpen) {
      const looked = document.elementFromPoint(innerWidth / 4, innerHeight / 2)?.closest(".card") ?? null;
      const before = looked?.getBoundingClientRect().top;
      this.box.hidden = !isOpen;
      document.body.classList.toggle("with-panel", isOpen);
      if (looked) scrollBy({ top: looked.getBoundingClientRect().top - before, behavior: "instant" });
    }

    head(row) {
      const { el, abridged, badge, called, ruleWord } = probeFlow;
      const { store } = this;
      const entry = store.entry(store.nodeOf(row));
      return el(
        "header",
        { class: "panel-head" },
        el(
          "div",
          { class: "panel-tools" },
          badge(store.mark(row)),
          ruleWord(store.status(row)),
          el("span", { class: "grow" }),
          this.tools("row", this.onStep),
        ),
        el("h2", { id: "panel-title", tabindex: "-1", class: "name" }, abridged(store.name(row)), el("span", { class: "slot" }, ` ${store.slot(row)}`)),
        entry === null ? null : el("p", { class: "muted", id: "panel-entry" }, "in the dump ", called(entry)),
        this.copies(row),
        el("p", { class: "muted" }, [store.op(row), store.executions.length > 1 ? store.executions[store.execution(row)].label : null, `row ${probeFlow.group(store.order(row))}`].filter(Boolean).join(MIDDOT)),
      );
    }

    /** Buttons that copy where this is, for a colleague, a terminal or an issue. */
    copies(row) {
      const { el, copy } = probeFlow;
      const button = (id, word, text, title) => el("button", { type: "button", class: "link", id: `copy-${id}`, title, click: () => copy(text(), word) }, word);
      return el(
        "p",
        { class: "copies" },
        "Copy as ",
        button("link", "link", () => this.addressOf(row), "The address of this report at this row"),
        button("command", "command", () => this.command(row), "Shows this node in a terminal, in the folder of the run"),
        button("markdown", "Markdown", () => this.markdown(row), "For an issue or a merge request"),
      );
    }

    addressOf(row) {
      return location.href.replace(/#.*$/, "") + this.address.text(row);
    }

    command(row) {
      const { store } = this;
      const node = store.nodeOf(row);
      const execution = store.executions[store.execution(row)];
      const words = ["--node", store.entry(node) ?? store.name(row)];
      for (const part of ["rank", "graph", "step"]) if (execution?.[part] !== null && execution?.[part] !== undefined) words.push(`--${part}`, String(execution[part]));
      return `probe-flow show ${words.map(quoted).join(" ")}`;
    }

    markdown(row) {
      const { store } = this;
      const { word } = probeFlow.looks.get(store.mark(row));
      const known = FIRST.filter((id) => store.metrics.has(id) && store.metric(id, row) !== null).slice(0, 4);
      const finding = this.findings.get(row);
      const where = store.executions[store.execution(row)]?.label;
      const lines = [`**${escaped(store.tensorName(row))}** (${escaped(store.op(row) ?? "")})${where ? `, ${where}` : ""}: ${word}`];
      if (finding) lines.push("", escaped(finding.evidence));
      if (known.length) lines.push("", `| ${known.join(" | ")} |`, `|${known.map(() => "---").join("|")}|`, `| ${known.map((id) => probeFlow.figure(store.metric(id, row))).join(" | ")} |`);
      return `${lines.join("\n")}\n`;
    }

    /** The buttons of the panel: to what is not fine before and behind, and to close it. */
    tools(word, onStep) {
      const { el } = probeFlow;
      return [
        el("button", { type: "button", class: "quiet", click: () => onStep(-1), "aria-label": `Previous ${word} that is not fine`, "aria-keyshortcuts": "p" }, "\u2191 p"),
        el("button", { type: "button", class: "quiet", click: () => onStep(1), "aria-label": `Next ${word} that is not fine`, "aria-keyshortcuts": "n" }, "\u2193 n"),
        el("button", { type: "button", class: "quiet", id: "panel-close", click: () => this.close(), "aria-label": "Close the panel", "aria-keyshortcuts": "Escape" }, "\u2715"),
      ];
    }

    sections(row) {
      return [
        this.verdict(row), this.nextStep(row), this.source(row), this.match(row), this.metrics(row), this.sides(row), this.closer(row),
        this.passes(row), this.siblings(row), this.flow(row), this.node(row),
      ];
    }

    verdict(row) {
      const { el, ruleWord, looks } = probeFlow;
      const { store } = this;
      const { word, meaning } = looks.get(store.mark(row));
      const finding = this.findings.get(row);
      const rules = store.rule_ids(row);
      const reasons = [...new Set([...store.reasons(row), store.reason(row), ...store.notes(row)].filter(Boolean))];
      const expectation = store.expectation(row);
      return section(
        "Verdict",
        el("p", {}, el("b", {}, word), `${MIDDOT}${meaning}`, finding ? "" : explained(store.excess(row))),
        el("p", {}, ruleWord(store.status(row), store.summary.gate.policy)),
        finding ? el("p", { class: "evidence" }, probeFlow.sentence(finding.evidence)) : null,
        reasons.length ? el("ul", { class: "reasons" }, reasons.map((text) => el("li", {}, probeFlow.prose(text)))) : null,
        rules.length ? el("p", {}, "policy rules ", rules.map((rule) => [el("code", {}, rule), " "])) : null,
        expectation === null ? null : el("p", { class: "muted" }, GAPS[expectation]),
      );
    }

    /** What to do about a finding: by the shape of its error, the kind of operator, what its dump holds. */
    nextStep(row) {
      const advice = this.findings.get(row)?.advice ?? [];
      return advice.length ? section("Next step", advice.map((text) => probeFlow.el("p", { class: "advice" }, probeFlow.sentence(text)))) : null;
    }

    match(row) {
      const { store } = this;
      const confidence = store.confidence(row);
      const facts = [
        ["golden", store.sideName("golden", row)],
        ["rule", store.rule(row)],
        ["confidence", confidence === null ? null : `${Math.round(confidence * 100)} %`],
        ["paired by the file", store.rule_span(row)],
        ["made comparable by", store.transform(row).join(", ") || null],
        ["group", store.group(row) ? `${store.group(row)}${store.relation(row) ? ` (${store.relation(row)})` : ""}` : null],
        ["compared by", store.mode(row) ? `${store.mode(row)}, ${probeFlow.counted(store.elements(row), "element")}` : null],
      ];
      return section("Match", list(facts));
    }

    metrics(row) {
      const { el, figure } = probeFlow;
      const { store } = this;
      const ids = [...new Set([...FIRST.filter((id) => store.metrics.has(id)), ...store.metricIds])];
      const isTold = (id) => store.mode(row) === "statistics" && /_diff(_rel)?$/.test(id);
      const rows = ids.map((id) => [id, isTold(id) ? null : store.metric(id, row)]).filter(([, value]) => value !== null);
      if (!rows.length) return null;
      const body = rows.map(([id, value]) =>
        el("tr", {}, el("th", { scope: "row" }, el("span", { "data-metric": id, tabindex: "0" }, id)), el("td", {}, figure(value, 6)), el("td", { class: "muted" }, better(store, id))),
      );
      const mismatch = store.mismatch(row);
      return section(
        "Metrics",
        el("table", { class: "plain numbers" }, el("thead", {}, el("tr", {}, ["metric", "value", "better"].map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, body)),
        mismatch ? el("p", {}, `NaN or infinities disagree at ${probeFlow.counted(mismatch, "position")}.`) : null,
        el("p", { class: "muted" }, "Point at a metric, or move the focus there, for its definition."),
      );
    }

    sides(row) {
      const { called, el, words } = probeFlow;
      const { store } = this;
      const names = Object.keys(store.sides).filter((side) => (store.sides[side].node(row) ?? null) !== null);
      const has = (field) => names.some((side) => store.sides[side][field](row) !== null);
      const facts = FACTS.filter(([field]) => has(field));
      const statistics = STATISTICS.filter(has);
      const withDifference = names.includes("target") && names.includes("golden");
      const withRelative = withDifference && store.mode(row) === "statistics";
      const head = ["", ...names, ...(withDifference ? ["difference"] : []), ...(withRelative ? ["relative"] : [])];
      const line = (label, cells, extra, relative) =>
        el(
          "tr",
          {},
          el("th", { scope: "row" }, label),
          cells.map((cell) => el("td", {}, cell)),
          withDifference ? el("td", { class: extra === "differs" ? "differs" : null }, extra ?? "") : null,
          withRelative ? el("td", {}, relative ?? "") : null,
        );
      const relative = (field) => {
        const id = `${field}_diff_rel`;
        return withRelative && store.metrics.has(id) ? el("span", { "data-metric": id, tabindex: "0" }, probeFlow.small(store.metric(id, row))) : "";
      };
      return section(
        "Tensors",
        el(
          "table",
          { class: "plain numbers sides" },
          el("thead", {}, el("tr", {}, head.map((name) => el("th", { scope: "col" }, words(name))))),
          el(
            "tbody",
            {},
            line("name", names.map((side) => called(`${store.sideName(side, row)} ${store.sides[side].direction(row)} ${store.sides[side].index(row) ?? ""}`.trim()))),
            names.some((side) => store.sideEntry(side, row)) ? line("in the dump", names.map((side) => called(store.sideEntry(side, row) ?? store.node.name(store.sides[side].node(row))))) : null,
            facts.map(([field, label]) => line(label, names.map((side) => called(store.sides[side][field](row) ?? "\u2013")), this.differs(field, row, withDifference))),
            statistics.map((field) => line(field, names.map((side) => probeFlow.figure(store.sides[side][field](row), 6)), withDifference ? this.difference(field, row) : "", relative(field))),
          ),
        ),
        el("dl", { class: "files" }, names.map((side) => this.file(side, row))),
      );
    }

    differs(field, row, withDifference) {
      const { target, golden } = this.store.sides;
      const isTold = withDifference && ["dtype", "shape", "layout", "checksum", "value"].includes(field);
      return isTold && target[field](row) !== golden[field](row) ? "differs" : "";
    }

    difference(field, row) {
      const target = this.store.sides.target[field](row);
      const golden = this.store.sides.golden[field](row);
      if (target === null || golden === null) return "\u2013";
      const difference = Number(target) - Number(golden);
      return probeFlow.figure(Object.is(difference, NaN) ? NaN : Number(difference.toPrecision(4)), 4);
    }

    file(side, row) {
      const { el } = probeFlow;
      const columns = this.store.sides[side];
      const name = columns.file(row);
      if (name === null) return null;
      const folder = columns.folder(row);
      return el("div", {}, el("dt", {}, `${side} file`), el("dd", {}, el("code", { class: "path" }, folder ? `${folder}/${name}` : name)));
    }

    closer(row) {
      const { el, group } = probeFlow;
      const { store } = this;
      if (store.mode(row) !== "tensor") return null;
      const worst = store.worst(row);
      const detail = store.data.details[String(row)];
      const shape = store.sides.target?.shape(row) ?? store.sides.golden?.shape(row);
      const place = worst === null ? null : el("p", {}, `Largest error at element ${group(worst)}, index ${position(worst, shape)}`);
      if (!detail) return section("Closer look", place, this.noDetail(row));
      return section("Closer look", place, probeFlow.errorMaps(detail, this.goldenPeak(row)), values(detail, worst, shape), histogram(detail));
    }

    goldenPeak(row) {
      const { golden } = this.store.sides;
      return golden ? Math.max(...["min", "max"].map((field) => Math.abs(golden[field](row) ?? 0))) : 0;
    }

    noDetail(row) {
      const { el } = probeFlow;
      const name = JSON.stringify(this.store.nodeOf(row) === null ? "" : this.store.node.name(this.store.nodeOf(row)));
      const text = `only: {comparison: result, where: {node: ${name}}}`;
      return [
        el("p", { class: "muted" }, "Values and the distribution of errors are kept for the rows that people ask about first. For this node, add a compare stage narrowed to it:"),
        el("pre", { class: "snippet" }, text),
      ];
    }

    siblings(row) {
      const { el, words } = probeFlow;
      const rows = this.store.rowsOf(this.store.nodeOf(row));
      const directions = [...new Set(rows.map((each) => this.store.direction(each)))];
      return section(
        "Tensors of this node",
        directions.map((direction) =>
          el(
            "div",
            { class: "links" },
            el("h4", {}, `${words(direction)}s`),
            el("ul", {}, rows.filter((each) => this.store.direction(each) === direction).map((each) => this.link(each, this.store.slot(each), each === row))),
          ),
        ),
      );
    }

    link(row, label, isCurrent = false) {
      const { el, badge, small } = probeFlow;
      const { store } = this;
      const error = store.error(row);
      return el(
        "li",
        { class: isCurrent ? "current" : null },
        el("button", { type: "button", class: "link name", "aria-current": isCurrent ? "true" : null, click: () => this.onOpen(row) }, probeFlow.abridged(label)),
        badge(store.mark(row)),
        el("span", { class: "error" }, small(error)),
      );
    }

    flow(row) {
      const node = this.store.nodeOf(row);
      const { from, to } = this.store.flow(node);
      if (!from.length && !to.length) return null;
      const sorted = (edges, key) => [...edges].sort((one, other) => one[key] - other[key]);
      return section(
        "Data flow",
        this.neighbours("from", sorted(from, "input"), (edge) => `input ${edge.input} \u2190 `),
        this.neighbours("to", sorted(to, "output"), (edge) => `output ${edge.output} \u2192 `),
      );
    }

    neighbours(title, edges, label) {
      const { el, counted } = probeFlow;
      if (!edges.length) return null;
      const rest = edges.length - MAX_LINKS;
      return el(
        "div",
        { class: "links" },
        el("h4", {}, title === "from" ? "upstream" : "downstream"),
        el("ul", {}, edges.slice(0, MAX_LINKS).map((edge) => this.neighbour(edge, label(edge)))),
        rest > 0 ? el("p", { class: "muted" }, `and ${counted(rest, "more node")}`) : null,
      );
    }

    neighbour(edge, label) {
      const { el } = probeFlow;
      const rows = this.store.rowsOf(edge.node);
      const isUp = label.startsWith("input");
      const wanted = isUp ? ["output", edge.output] : ["input", edge.input];
      const row = rows.find((each) => this.store.slot(each) === wanted.join(" ")) ?? rows.find((each) => this.store.direction(each) === "output") ?? rows[0];
      const name = `${label}${this.store.nodeName(edge.node)}`;
      return row === undefined ? el("li", {}, probeFlow.called(name), el("span", { class: "muted" }, "not dumped")) : this.link(row, name);
    }

    node(row) {
      const { el } = probeFlow;
      const { node } = this.store;
      const number = this.store.nodeOf(row);
      if (number === null) return null;
      const facts = [
        ["type", node.op(number)],
        ["call", node.call(number) || null],
        ["phase", node.phase(number) === "forward" ? null : this.store.phaseOf(number) || null],
        ["parent", this.callers(number) ?? node.parent(number)],
        ["graph", this.graph?.has(number) ? el("button", { type: "button", class: "link", id: "to-graph", click: () => this.graph.reveal(number) }, "show the call in the graph") : null],
        ["made of", node.originals(number).join(", ") || null],
        ["compiler passes", node.passes(number).join(", ") || null],
      ];
      return section(
        "Node",
        list(facts),
      );
    }

    /** The modules around a node, outermost first; each leads to its place in the tree. */
    callers(number) {
      const { el } = probeFlow;
      const item = this.tree?.root?.items.get(number);
      const around = (item?.path() ?? []).filter((each) => each.node !== null && each !== item);
      if (!around.length) return null;
      const links = around.map((each, place) => [
        place ? " \u203a " : null,
        el("button", { type: "button", class: "link name", title: each.title, click: () => this.tree.pickNode(each.node) }, each.label),
      ]);
      return el("span", { class: "callers" }, links);
    }

    /** Where the program called the node: the innermost line that is the user's own, then all of them. */
    source(row) {
      const { store } = this;
      const nodes = [store.nodeOf(row), store.sides.golden?.node(row) ?? null];
      const frames = nodes.map((node) => (node === null ? [] : store.node.stack(node))).find((each) => each.length);
      return frames ? section("Source", stackOf(frames)) : null;
    }

    /** The forward call beside its backward call and the gradients of its parameters. */
    passes(row) {
      const { el } = probeFlow;
      const found = this.passesOf(this.store.nodeOf(row));
      if (!found) return null;
      const lines = new Map();
      const put = (label, column, each) => {
        if (!lines.has(label)) lines.set(label, {});
        lines.get(label)[column] ??= each;
      };
      for (const [node, column, turn] of found) {
        for (const each of node === null ? [] : this.store.rowsOf(node)) put(turn(this.store.slot(each)), column, each);
      }
      const cell = (each) => el("td", { class: each === row ? "current" : null }, each === undefined ? el("span", { class: "muted" }, "\u2013") : this.result(each));
      return section(
        "Forward beside backward",
        el(
          "table",
          { class: "plain passes" },
          el("thead", {}, el("tr", {}, ["", "forward", "gradient"].map((name) => el("th", { scope: "col" }, name)))),
          el("tbody", {}, [...lines].slice(0, MAX_LINKS).map(([label, pair]) => el("tr", {}, el("th", { scope: "row" }, label), cell(pair.forward), cell(pair.backward)))),
        ),
        lines.size > MAX_LINKS ? el("p", { class: "muted" }, `and ${probeFlow.counted(lines.size - MAX_LINKS, "more tensor")}`) : null,
      );
    }

    /** The nodes of one call with their columns, and what each calls a tensor; null when there is only one of them. */
    passesOf(number) {
      const { store } = this;
      if (number === null || store.node.kind(number) === null) return null;
      const name = (store.node.name(number) ?? "").replace(/\.parameters_grad$/, "");
      const call = store.node.call(number);
      const forward = store.twin(number, name, call, "forward");
      const backward = store.twin(number, name, call, "backward");
      const gradients = store.twin(number, `${name}.parameters_grad`, call, "none");
      if ([forward, backward, gradients].filter((each) => each !== null && store.rowsOf(each).length).length < 2) return null;
      const turned = (slot) => (slot.startsWith("input") ? slot.replace("input", "output") : slot.replace("output", "input"));
      const bare = (slot) => slot.replace(/^parameter(_grad)? /, "");
      return [[forward, "forward", bare], [backward, "backward", turned], [gradients, "backward", bare]];
    }

    result(row) {
      const { el, badge, small } = probeFlow;
      const { store } = this;
      return el(
        "button",
        { type: "button", class: "link result", title: store.tensorName(row), "aria-label": store.tensorName(row), click: () => this.onOpen(row) },
        badge(store.mark(row)),
        " ",
        el("span", { class: "error" }, small(store.error(row))),
      );
    }
  }

  const LIBRARY = /site-packages[\\/]|dist-packages[\\/]|package[\\/](torch|mindspore)|File "?</;
  const FRAME = /^File "?(.+?)"?, line (\d+), in ([^,\n]+),?\s*([\s\S]*)$/;

  /** A stack: the innermost line of the user's own, then all frames in a part that opens. */
  function stackOf(frames) {
    const { el, counted } = probeFlow;
    const first = frames.findIndex((frame) => !LIBRARY.test(frame));
    return [
      first < 0 ? null : frameLine(frames[first], true),
      el(
        "details",
        { class: "frames" },
        el("summary", {}, counted(frames.length, "frame"), ", innermost first"),
        el("ol", { class: "stack" }, frames.map((frame, place) => el("li", { class: place === first ? "own" : null }, frameLine(frame, false)))),
      ),
    ];
  }

  /** One source line: file and line, function, the code. */
  function frameLine(frame, isOwn) {
    const { el } = probeFlow;
    const found = FRAME.exec(frame);
    if (!found) return el("code", { class: "path" }, frame.trim());
    const [, file, line, name, code] = found;
    return el(
      "div",
      { class: isOwn ? "frame own" : "frame" },
      el("p", {}, el("code", { class: "path" }, `${file}:${line}`), el("span", { class: "muted" }, ` in ${name.trim()}`)),
      code.trim() ? el("pre", {}, el("code", {}, code.trim())) : null,
    );
  }

  /** The size of the error against what rounding and the inputs explain at most. */
  function explained(excess) {
    if (excess === null) return "";
    return `${MIDDOT}${Number.isFinite(excess) ? `${probeFlow.figure(excess, 3)} times its limit` : "beyond any limit"}`;
  }

  function section(title, ...children) {
    const { el } = probeFlow;
    return el("section", {}, el("h3", {}, title), ...children);
  }

  function list(facts) {
    const { el } = probeFlow;
    return el(
      "dl",
      { class: "facts" },
      facts.filter(([, value]) => value !== null && value !== undefined).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
    );
  }

  function better(store, id) {
    const direction = store.data.definitions[id]?.better;
    return direction === "lower" ? "lower" : direction === "higher" ? "higher" : "";
  }

  /** The index of an element by dimension, C order. */
  function position(flat, shape) {
    const dims = (shape?.match(/\d+/g) ?? []).map(Number);
    if (!dims.length) return "[]";
    const index = [];
    let rest = flat;
    for (const dim of dims.reverse()) {
      index.unshift(dim ? rest % dim : 0);
      rest = dim ? Math.floor(rest / dim) : 0;
    }
    return `[${index.join(", ")}]`;
  }

  /** The values next to the largest error; all that were kept in a part that opens. */
  function values(detail, worst, shape) {
    const { el, counted } = probeFlow;
    const places = detail.target.map((_, place) => place);
    const near = places.filter((place) => worst === null || Math.abs(detail.start + place - worst) <= NEAR);
    return [
      valueTable(detail, near, worst, shape),
      near.length < places.length
        ? el("details", {}, el("summary", {}, `All ${counted(places.length, "value")} kept`), valueTable(detail, places, worst, shape))
        : null,
    ];
  }

  function valueTable(detail, places, worst, shape) {
    const { el, figure, number } = probeFlow;
    const rows = places.map((place) => {
      const target = number(detail.target[place]);
      const golden = number(detail.golden[place]);
      const at = detail.start + place;
      return el(
        "tr",
        { class: at === worst ? "worst" : null },
        el("th", { scope: "row" }, position(at, shape), at === worst ? " largest error" : ""),
        el("td", {}, figure(target, 6)),
        el("td", {}, figure(golden, 6)),
        el("td", {}, figure(target === null || golden === null ? null : Number((target - golden).toPrecision(4)), 4)),
      );
    });
    return el(
      "table",
      { class: "plain numbers" },
      el("thead", {}, el("tr", {}, ["index", "target", "golden", "difference"].map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, rows),
    );
  }

  /** Absolute errors by class, as bars with their counts; empty classes at both ends are left out. */
  function histogram(detail) {
    const { el, figure, group, number } = probeFlow;
    const all = detail.counts.reduce((sum, count) => sum + count, detail.equal);
    const most = Math.max(detail.equal, ...detail.counts, 1);
    const line = (label, count) => {
      const bar = el("span", { class: "bar", "aria-hidden": "true" });
      bar.style.width = `${(100 * count) / most}%`;
      return el("tr", {}, el("th", { scope: "row" }, label), el("td", { class: "bars" }, bar), el("td", {}, group(count)), el("td", { class: "muted" }, all ? `${((100 * count) / all).toFixed(1)} %` : ""));
    };
    const edges = detail.edges.map(number);
    const filled = detail.counts.flatMap((count, place) => (count ? [place] : []));
    const shown = detail.counts.map((_, place) => place).filter((place) => place >= filled[0] && place <= filled[filled.length - 1]);
    return el(
      "table",
      { class: "plain numbers histogram" },
      el("caption", {}, "Absolute errors"),
      el("tbody", {}, line("equal", detail.equal), shown.map((place) => line(`${figure(edges[place], 3)} to ${figure(edges[place + 1], 3)}`, detail.counts[place]))),
    );
  }

  /** A word as a shell takes it. */
  function quoted(word) {
    return /^[\w.,:/@%+=-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
  }

  /** A text that Markdown shows as it is. */
  function escaped(text) {
    return probeFlow.visible(text).replace(/[\\`*_{}[\]<>#|~]/g, "\\$&");
  }

  Object.assign(probeFlow, { Panel, position, section, facts: list, stackOf, explained });
})();
