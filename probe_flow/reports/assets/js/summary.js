"use strict";
// The first screen: the verdict, where it begins, how much was compared, what to do next.
(() => {
  const KINDS = {
    origin: "Origin",
    nonfinite_origin: "NaN or infinity begins at",
    checksum_origin: "Checksums first differ at",
    drift: "Drift",
    coverage: "Coverage",
    golden_error: "Not to blame",
    not_deterministic: "Not deterministic",
    suspect: "Near to an origin",
    failure: "Fails",
    random_state: "Random state differs",
  };
  const GATE_WORDS = { pass: " passed", incomplete: " not decided: the run is incomplete" }; // where nothing failed it
  const MAX_SUSPECTS = 4;
  const MAX_HEADLINE_WORD = 64; // characters
  const FIGURES = ["relative_euclidean_distance", "cosine", "max_abs_err", "max_rel_err"];

  function summaryOf(store, open) {
    const { el, fill } = probeFlow;
    const { summary } = store;
    fill(
      document.getElementById("verdict"),
      el("p", { class: "muted dumps", id: "dumps" }, probeFlow.prose(summary.dumps)),
      el(
        "div",
        { class: "headline" },
        el("span", { class: `word ${summary.verdict}` }, summary.word),
        el("h1", { id: "headline" }, probeFlow.prose(summary.headline, MAX_HEADLINE_WORD)),
      ),
      summary.caveats.length
        ? el("ul", { class: "caveats", id: "caveats" }, summary.caveats.map((text) => el("li", {}, probeFlow.prose(text))))
        : null,
      summary.incomplete.length ? causes(summary.incomplete) : null,
      findings(summary, open),
      counts(summary),
    );
    fill(
      document.getElementById("coverage"),
      el("h2", { id: "coverage-title" }, `How much was ${summary.done}`),
      Object.entries(summary.coverage).map(([side, found]) => coverage(side, found)),
      coverageKey(summary.done),
      gaps(summary.gaps, summary.done),
    );
    next(store, open);
  }

  function causes(texts) {
    const { el } = probeFlow;
    return el("ul", { class: "causes" }, texts.map((text) => el("li", {}, probeFlow.prose(text))));
  }

  function findings(summary, open) {
    const { el, counted } = probeFlow;
    const failing = summary.findings.filter((finding) => finding.fails);
    const first = failing[0] ?? null;
    const others = summary.findings.filter((finding) => finding !== first && !finding.repeats);
    const rest = others.length - MAX_SUSPECTS + summary.more_findings;
    return [
      first ? finding(first, open, true) : null,
      others.length
        ? el(
            "details",
            { class: "others", open: first === null },
            el("summary", {}, counted(others.length + summary.more_findings, "further finding")),
            others.slice(0, MAX_SUSPECTS).map((each) => finding(each, open, false)),
            rest > 0 ? el("p", { class: "muted" }, `${counted(rest, "more finding")} in run.json`) : null,
          )
        : null,
    ];
  }

  function finding(found, open, isFirst) {
    const { el, called } = probeFlow;
    const place = found.operator
      ? el(
          "p",
          { class: "place" },
          el("span", { class: "label" }, KINDS[found.kind] ?? found.kind),
          found.row === null
            ? el("strong", {}, called(found.operator))
            : el("button", { type: "button", class: "link", click: () => open(found.row) }, called(found.operator)),
          el("span", { class: "muted" }, [found.slot, found.where].filter(Boolean).join(" \u00b7 ")),
          found.entry ? el("span", { class: "muted" }, "in the dump ", called(found.entry)) : null,
          found.golden ? el("span", { class: "muted" }, "golden ", called(found.golden)) : null,
        )
      : el("p", { class: "place" }, el("span", { class: "label" }, KINDS[found.kind] ?? found.kind));
    return el(
      "div",
      { class: isFirst ? "finding first" : "finding" },
      place,
      el("p", { class: "evidence" }, probeFlow.sentence(found.evidence)),
      found.also ? el("p", { class: "muted" }, `Also in ${found.also}.`) : null,
      isFirst ? figures(found.metrics) : null,
    );
  }

  function figures(metrics) {
    const { el, figure, number } = probeFlow;
    const known = FIGURES.filter((id) => id in metrics);
    const ids = (known.length ? known : Object.keys(metrics)).slice(0, FIGURES.length);
    if (!ids.length) return null;
    return el(
      "dl",
      { class: "figures" },
      ids.map((id) => el("div", {}, el("dt", { "data-metric": id, tabindex: "0" }, id), el("dd", {}, figure(number(metrics[id]))))),
    );
  }

  function counts(summary) {
    const { el, badge, group, counted } = probeFlow;
    const found = summary.roles.map(({ name, count, excused }) =>
      el("li", { "data-role": name }, el("b", {}, group(count)), badge(name), excused ? el("span", { class: "muted" }, `(${group(excused)} waived or accepted)`) : null),
    );
    return [
      found.length ? el("ul", { class: "counts", "aria-label": "Tensors by role" }, found) : el("p", { class: "muted" }, counted(0, "row")),
      found.length ? rowRule(summary) : null,
    ];
  }

  /** The counts of the published rule, small: it fails most rows of many healthy runs. */
  function rowRule(summary) {
    const { el, group, words } = probeFlow;
    const verdicts = Object.entries(summary.counts).filter(([, count]) => count > 0);
    return el(
      "p",
      { class: "muted note", id: "row-rule" },
      "Row rule ",
      summary.gate.policy ? [el("code", {}, summary.gate.policy), ": "] : null,
      verdicts.map(([status, count]) => `${group(count)} ${words(status)}`).join(", "),
      summary.note ? `. ${probeFlow.capital(summary.note)}.` : ".",
    );
  }

  function coverage(side, found) {
    const { el, group } = probeFlow;
    const share = (count) => (found.tensors ? (100 * count) / found.tensors : 0);
    const bar = el("div", { class: "share", "aria-hidden": "true" });
    for (const part of ["compared", "expected", "outside", "missing"]) {
      if (!found[part]) continue; // of no width, it would still have the gap before it
      const piece = el("span", { class: part });
      piece.style.width = `${share(found[part])}%`;
      bar.append(piece);
    }
    return el(
      "div",
      { class: "side" },
      el(
        "p",
        {},
        el("b", {}, side),
        el("span", {}, `${group(found.compared)} of ${group(found.tensors)} tensors`),
      ),
      bar,
      el(
        "p",
        { class: "muted" },
        `${probeFlow.counted(found.expected, "expected gap")}, `,
        found.outside ? `${group(found.outside)} not asked for, ` : "",
        `${group(found.missing)} missing`,
        found.unreadable ? `, ${group(found.unreadable)} unreadable` : "",
      ),
    );
  }

  function coverageKey(done) {
    const { el } = probeFlow;
    const entry = (name, text) => el("li", {}, el("span", { class: `swatch ${name}`, "aria-hidden": "true" }), text);
    return el(
      "ul",
      { class: "key" },
      entry("compared", done),
      entry("expected", "expected gap"),
      entry("outside", "not asked for"),
      entry("missing", "missing"),
    );
  }

  function gaps(found, done) {
    const { el, group } = probeFlow;
    if (!found.length) return null;
    return el(
      "details",
      {},
      el("summary", {}, `Why tensors were not ${done}`),
      el(
        "ul",
        { class: "gaps" },
        found.map((gap) =>
          el(
            "li",
            {},
            el("b", {}, `${group(gap.count)} ${gap.kind} (${gap.side})`),
            " e.g. ",
            probeFlow.prose(gap.example),
          ),
        ),
      ),
    );
  }

  function next(store, open) {
    const { el, fill } = probeFlow;
    const { summary } = store;
    const place = summary.findings.find((found) => found.fails && found.row !== null);
    fill(
      document.getElementById("next"),
      el("h2", { id: "next-title" }, "Next step"),
      el("p", {}, probeFlow.prose(summary.next)),
      place
        ? el("button", { type: "button", class: "primary", id: "open-origin", click: () => open(place.row) }, "Open this tensor")
        : null,
      summary.advice.map((text) => el("p", { class: "advice" }, probeFlow.sentence(text))),
      summary.gate.name
        ? el(
            "p",
            { class: "muted" },
            "Gate ",
            el("code", {}, summary.gate.name),
            summary.gate.passed ? GATE_WORDS[summary.verdict] : " failed",
            ", policy ",
            el("code", {}, summary.gate.policy || "none"),
            ". Every row is in comparison.jsonl, with exact numbers.",
          )
        : null,
    );
  }

  Object.assign(probeFlow, { summaryOf });
})();
