"use strict";
// Where the result comes from: workflow, dumps, versions, timings, and the problems met on the way.
(() => {
  function provenanceOf(store) {
    const { el, fill } = probeFlow;
    const { run, dumps, problems } = store.data;
    const { workflow } = run;
    document.getElementById("run-name").textContent = probeFlow.visible(workflow?.name ?? "");
    fill(
      document.getElementById("provenance"),
      facts("Workflow", [
        ["name", workflow?.name],
        ["description", workflow?.description],
        ["file", workflow?.path],
        ["run", run.run_id],
        ["started", text(run.timings?.started)],
        ["took", seconds(run.timings?.wall_s)],
        ...entries(run.executor),
      ]),
      facts("Params", entries(run.params)),
      ...dumps.map((dump) =>
        facts(`Dump: ${dump.side}`, [
          ["folder", dump.root],
          ["format", `${dump.framework}, ${dump.task}`],
          ["nodes", probeFlow.group(dump.nodes)],
          ["tensors", probeFlow.group(dump.tensors)],
          ["fingerprint", dump.fingerprint || null],
        ]),
      ),
      facts("Stages", (run.stages ?? []).map((stage) => [stage.name, stageText(stage)])),
      facts("Versions", entries(run.versions)),
      problems.count
        ? el(
            "details",
            { class: "problems" },
            el("summary", {}, probeFlow.counted(problems.count, "problem"), " met while reading, matching and comparing"),
            el("ul", {}, problems.shown.map(problem)),
            problems.count > problems.shown.length ? el("p", { class: "muted" }, "The rest is in events.jsonl.") : null,
          )
        : null,
    );
  }

  function entries(mapping) {
    return Object.entries(mapping ?? {}).map(([name, value]) => [name, text(value)]);
  }

  function seconds(value) {
    return typeof value === "number" ? `${value.toFixed(2)} s` : null;
  }

  function text(value) {
    if (value === null || value === undefined) return null;
    return typeof value === "object" ? JSON.stringify(value) : String(value);
  }

  function stageText(stage) {
    return [stage.uses, stage.status, seconds(stage.wall_s)].filter(Boolean).join(", ");
  }

  function facts(title, pairs) {
    const { el } = probeFlow;
    const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
    if (!known.length) return null;
    return el(
      "section",
      {},
      el("h3", {}, title),
      el("dl", { class: "facts" }, known.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))),
    );
  }

  function problem(found) {
    const { el } = probeFlow;
    return el(
      "li",
      {},
      el("code", {}, `${found.severity} ${found.code}`),
      ` ${found.origin}: `,
      probeFlow.prose(found.message),
      found.place ? [" ", el("code", { class: "path" }, found.place)] : null,
      found.help ? el("span", { class: "muted" }, ` ${found.help}`) : null,
    );
  }

  Object.assign(probeFlow, { provenanceOf });
})();
