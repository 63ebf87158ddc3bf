"use strict";
// The graph: target and golden side by side, a line for each pair of calls. Only the lines in sight are in the page.
(() => {
  const LINE = 28;
  const SPARE = 8; // lines drawn above and below those in sight
  const INDENT = 16;
  const MOST_INDENTS = 16; // deeper calls stand below each other, so that their names stay in sight
  const MOST_OPEN = 40; // a graph of so few calls is shown whole
  const SEARCH_PAUSE_MS = 140;
  const HASH = "#graph?";
  const MEETINGS = {
    same: ["=", "same call on both sides"],
    renamed: ["\u2248", "renamed"],
    moved: ["\u21c4", "moved"],
    target_only: ["+", "only in the target"],
    golden_only: ["\u2212", "only in the golden"],
    shared: ["\u222a", "compared together with another call"],
  };
  const LEVELS = {
    critical: "NaN or infinities come out and none goes in",
    high: "they go in and come out, or the norm grows more than 100 times",
    medium: "they go in and none comes out",
  };
  const ABSENT = { target: "not in the target", golden: "not in the golden" };

  class Graph {
    constructor(store, { onOpen, panel }) {
      this.store = store;
      this.onOpen = onOpen;
      this.panel = panel;
      this.card = document.getElementById("graph");
      this.calls = probeFlow.callsOf(store);
      this.isExamined = store.count > 0; // else the run only shows a dump
      this.unmarked = this.isExamined ? "no tensors" : "not examined";
      if (this.calls === null) return;
      this.card.hidden = false;
      document.getElementById("graph-jump").hidden = false;
      this.card.classList.toggle("single", !this.calls.hasGolden);
      this.card.classList.toggle("with-levels", store.node.hasLevels);
      this.card.classList.toggle("unexamined", !this.isExamined);
      this.detail = new probeFlow.CallDetail(store, this);
      this.opened = new Set(this.calls.roots);
      this.state = { text: "", marks: new Set(), meetings: new Set() };
      this.current = null;
      const first = store.summary.findings.find((each) => each.row !== null);
      const start = first === undefined ? null : this.calls.callOf(first.row);
      this.execution = start?.execution ?? this.calls.roots[0]?.execution ?? 0;
      const firstOff = start ?? this.calls.lines.find((call) => probeFlow.isOffCall(call)) ?? null;
      if (this.calls.lines.length <= MOST_OPEN) for (const call of this.calls.lines) this.opened.add(call);
      else if (firstOff !== null) this.openAround(firstOff);
      this.frame();
      this.show();
      if (start !== null) this.choose(start);
      addEventListener("hashchange", () => this.follow());
      new ResizeObserver(() => this.draw()).observe(this.box);
    }

    /** Go where the address points; called when the page is there, and when it changes. */
    follow() {
      if (!location.hash.startsWith(HASH)) return;
      const wanted = new URLSearchParams(location.hash.slice(HASH.length));
      const side = wanted.get("side") ?? "target";
      const found = this.calls?.lines.find((call) => {
        const node = call[side === "golden" ? "golden" : "target"];
        return node !== null && this.nameOf(node) === wanted.get("call") && (wanted.get("execution") ?? this.label(call)) === this.label(call);
      });
      this.card.scrollIntoView({ behavior: "instant" });
      if (found) this.open(found);
      else probeFlow.say("This report has no such call.");
    }

    hashOf(call) {
      const wanted = { call: this.nameOf(call.node) };
      if (call.target === null) wanted.side = "golden";
      if (this.executions().length > 1) wanted.execution = this.label(call);
      return HASH + new URLSearchParams(wanted);
    }

    nameOf(node) {
      return this.store.entry(node) ?? this.store.nodeName(node);
    }

    label(call) {
      return this.store.executions[call.execution]?.label ?? "";
    }

    executions() {
      return [...new Set(this.calls.roots.map((group) => group.execution))];
    }

    has(node) {
      return this.calls !== null && this.calls.of[node] !== null;
    }

    reveal(node) {
      this.card.scrollIntoView({ behavior: "instant" });
      this.open(this.calls.of[node]);
    }

    frame() {
      const { el, fill } = probeFlow;
      const { calls } = this;
      this.search = el("input", {
        type: "search", id: "graph-search", placeholder: "Find a module or call", "aria-label": "Find a module or call in the graph",
        autocomplete: "off", spellcheck: "false", input: () => this.searchSoon(), keydown: (event) => this.searchKey(event),
      });
      const counted = calls.lines.filter((call) => !call.isGroup);
      const chip = (kind, name, label) => el(
        "button",
        { type: "button", class: "chip", "aria-pressed": "false", "data-kind": kind, "data-name": name, click: (event) => this.toggleFilter(event.currentTarget) },
        label, el("span", { class: "number" }),
      );
      this.chips = [
        ...[...probeFlow.marks].reverse().map(({ name }) => chip("marks", name, probeFlow.badge(name))),
        ...Object.keys(MEETINGS).slice(1).map((name) => chip("meetings", name, meetingBadge(name))),
      ];
      this.reset = el("button", { type: "button", class: "quiet", id: "graph-reset", hidden: true, click: () => this.clear() }, "Reset");
      const button = (id, text, title, click) => el("button", { type: "button", class: "quiet", id, title, click }, text);
      fill(
        document.getElementById("graph-filters"),
        this.search,
        el("div", { class: "chips", role: "group", "aria-label": "Show calls that are" }, this.chips),
        this.executionChoice(),
        el("span", { class: "grow" }),
        el(
          "div",
          { class: "tools" },
          this.reset,
          button("graph-previous", "\u2191 p", "The call before that is not fine", () => this.step(-1)),
          button("graph-next", "\u2193 n", "The next call that is not fine", () => this.step(1)),
          button("graph-unfold", "Unfold", "Show all calls inside of modules", () => this.fold(false)),
          button("graph-fold", "Fold", "Show the outermost calls alone", () => this.fold(true)),
        ),
      );
      this.head = el(
        "div",
        { class: "graph-head", role: "row", "aria-hidden": "true" },
        el("span", { class: "around" }, calls.hasGolden ? "target" : "call", (this.around = el("span", { class: "name" }))),
        calls.hasGolden ? [el("span", {}), el("span", {}, "golden")] : null,
        this.store.node.hasLevels ? el("span", {}, "overflow") : null,
        el("span", { class: "figure" }, calls.figureName),
        el("span", { class: "severity" }, "severity"),
      );
      this.space = el("div", { class: "graph-space", role: "presentation" });
      this.box = el(
        "div",
        { class: "graph-box", id: "graph-box", role: "treegrid", tabindex: "0", "aria-label": "Calls of target and golden", scroll: () => this.drawSoon(), keydown: (event) => this.key(event), click: (event) => this.click(event) },
        this.space,
      );
      fill(document.getElementById("graph-body"), this.head, this.box);
      fill(document.getElementById("graph-legend"), legend(calls, counted));
      this.elements = new Map();
    }

    executionChoice() {
      const { el } = probeFlow;
      if (this.executions().length < 2) return null;
      const select = el(
        "select",
        { id: "graph-execution", change: (event) => this.showExecution(Number(event.target.value)) },
        this.executions().map((each) => el("option", { value: each, selected: each === this.execution }, this.store.executions[each].label)),
      );
      return el("label", {}, "Execution ", select);
    }

    showExecution(execution) {
      this.execution = execution;
      const select = document.getElementById("graph-execution");
      if (select) select.value = String(execution);
      this.show();
    }

    searchSoon() {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => {
        this.state.text = this.search.value.trim().toLowerCase();
        this.show();
        if (this.state.text) probeFlow.say(`${probeFlow.counted(this.hits, "call")} found`);
      }, SEARCH_PAUSE_MS);
    }

    searchKey(event) {
      if (event.key === "Enter") {
        event.preventDefault();
        this.step(1);
        this.box.focus({ preventScroll: true });
      }
      if (event.key !== "Escape" || !this.search.value) return;
      event.stopPropagation();
      this.search.value = "";
      this.state.text = "";
      this.show();
    }

    toggleFilter(chip) {
      const chosen = this.state[chip.dataset.kind];
      if (!chosen.delete(chip.dataset.name)) chosen.add(chip.dataset.name);
      chip.setAttribute("aria-pressed", String(chosen.has(chip.dataset.name)));
      this.show();
    }

    clear() {
      this.state = { text: "", marks: new Set(), meetings: new Set() };
      this.search.value = "";
      for (const chip of this.chips) chip.setAttribute("aria-pressed", "false");
      this.show();
    }

    isFiltered() {
      return Boolean(this.state.text || this.state.marks.size || this.state.meetings.size);
    }

    takes(call) {
      const { text, marks, meetings } = this.state;
      if (call.isGroup) return false;
      const isMarked = call.mark !== null && marks.has(probeFlow.marks[call.mark].name);
      const isChosen = !(marks.size + meetings.size) || isMarked || meetings.has(this.calls.meeting(call));
      return isChosen && (!text || this.haystack(call).includes(text));
    }

    /** Lower-case names of both sides, made once. */
    haystack(call) {
      call.haystack ??= [call.target, call.golden].filter((node) => node !== null).map((node) => `${this.store.nodeName(node)}\n${this.store.entry(node) ?? ""}`).join("\n").toLowerCase();
      return call.haystack;
    }

    /** Find the lines to show: of the execution, those that the filters take with what is around them, or the unfolded. */
    show() {
      const { lines } = this.calls;
      const filtered = this.isFiltered();
      const wanted = filtered ? new Uint8Array(lines.length) : null;
      this.hits = 0;
      for (const call of filtered ? lines : []) {
        if (call.execution !== this.execution || !this.takes(call)) continue;
        this.hits += 1;
        for (let at = call; at !== null && !wanted[at.place]; at = at.parent) wanted[at.place] = 1;
      }
      this.shown = [];
      for (let place = 0; place < lines.length; ) {
        const call = lines[place];
        if (call.execution !== this.execution || (filtered && !wanted[place])) {
          place = call.end;
          continue;
        }
        call.line = this.shown.length;
        this.shown.push(call);
        place = filtered || this.opened.has(call) ? place + 1 : call.end;
      }
      this.space.style.height = `${this.shown.length * LINE}px`;
      this.box.setAttribute("aria-rowcount", String(this.shown.length));
      this.reset.hidden = !filtered;
      this.count();
      this.draw({ anew: true });
    }

    count() {
      const { group, counted } = probeFlow;
      const totals = this.totals();
      document.getElementById("graph-count").textContent = this.isFiltered() ? `${group(this.hits)} of ${counted(totals.calls, "call")}` : `${counted(totals.calls, "call")}${this.isExamined ? "" : ", not examined"}`;
      for (const chip of this.chips) {
        const count = totals[chip.dataset.kind].get(chip.dataset.name) ?? 0;
        chip.lastChild.textContent = group(count);
        chip.hidden = !count && chip.getAttribute("aria-pressed") === "false";
      }
    }

    /** How many calls the execution has, by mark and by how their sides meet; made once. */
    totals() {
      this.known ??= new Map();
      if (!this.known.has(this.execution)) this.known.set(this.execution, totalsOf(this.calls, this.execution));
      return this.known.get(this.execution);
    }

    drawSoon() {
      if (this.isDue) return;
      this.isDue = true;
      requestAnimationFrame(() => {
        this.isDue = false;
        this.draw();
      });
    }

    /** Put the lines in sight into the page, and take the others out. */
    draw({ anew = false } = {}) {
      const first = Math.max(0, Math.floor(this.box.scrollTop / LINE) - SPARE);
      const last = Math.min(this.shown.length, Math.ceil((this.box.scrollTop + this.box.clientHeight) / LINE) + SPARE);
      if (anew) {
        this.elements.clear();
        this.space.replaceChildren();
      }
      for (const [call, element] of this.elements) {
        if (call.line >= first && call.line < last) continue;
        element.remove();
        this.elements.delete(call);
      }
      const made = document.createDocumentFragment();
      for (let line = first; line < last; line += 1) {
        const call = this.shown[line];
        if (this.elements.has(call)) continue;
        const element = this.element(call);
        this.elements.set(call, element);
        made.append(element);
      }
      this.space.append(made);
      this.around.textContent = this.pathText(this.shown[Math.ceil(this.box.scrollTop / LINE)]);
      if (!this.shown.length && anew) this.space.replaceChildren(probeFlow.el("p", { class: "muted nothing" }, "No call fits."));
      this.choose(this.current, { scroll: false });
    }

    /** What lies around the first line in sight, for the head. */
    pathText(call) {
      const path = call?.path() ?? [];
      return path.length ? probeFlow.visible(path.map((each) => this.detail.words(each.node)).join(" \u203a ")) : "";
    }

    element(call) {
      const { el, group } = probeFlow;
      const isOpen = call.children.length > 0 && (this.isFiltered() || this.opened.has(call));
      const line = el(
        "div",
        {
          class: "call", role: "row", id: `call-${call.place}`, "aria-level": call.depth + 1, "aria-rowindex": call.line + 1,
          "aria-expanded": call.children.length ? String(isOpen) : null, "aria-selected": "false", "aria-label": this.spoken(call, isOpen),
          "data-place": call.place, "data-role": call.mark === null ? null : probeFlow.marks[call.mark].name, "data-meeting": this.calls.meeting(call) || null,
        },
        call.isGroup ? el("span", { class: "half group", role: "gridcell" }, twisty(call, isOpen), el("b", {}, call.label), el("span", { class: "muted" }, ` ${group(call.end - call.place - 1)}`)) : this.halves(call, isOpen),
        call.isGroup && this.calls.hasGolden ? [el("span", {}), el("span", {})] : null,
        this.store.node.hasLevels ? el("span", { role: "gridcell" }, this.calls.levels(call).map(([, level]) => el("span", { class: `level ${level}` }, level))) : null,
        this.figure(call),
        el("span", { class: "severity", role: "gridcell" }, this.severity(call, isOpen)),
      );
      line.style.top = `${call.line * LINE}px`;
      return line;
    }

    halves(call, isOpen) {
      const { el } = probeFlow;
      const half = (side) => {
        const node = call[side];
        const cell = el("span", { class: node === null ? "half absent" : "half", role: "gridcell" }, side === "target" ? twisty(call, isOpen) : null);
        cell.style.paddingLeft = `${indent(call) + (side === "target" ? 4 : 8)}px`;
        if (node === null) return probeFlow.el("span", { class: "half absent", role: "gridcell" }, side === "target" ? indented(twisty(call, isOpen), call) : null, el("span", {}, this.calls.isShared(call) ? "compared with another line" : ABSENT[side]));
        const { label, detail, number } = probeFlow.callWords(this.store, node, this.store.node.above(node));
        cell.append(el("span", { class: "name label", title: this.nameOf(node) }, label, detail ? el("span", { class: "detail" }, ` ${detail}`) : null, number ? el("span", { class: "detail" }, number) : null));
        return cell;
      };
      if (!this.calls.hasGolden) return half("target");
      const [sign, word] = MEETINGS[this.calls.meeting(call)];
      return [half("target"), el("span", { class: "sign", role: "gridcell", title: word, "aria-label": word }, sign), half("golden")];
    }

    figure(call) {
      const { el } = probeFlow;
      const value = call.isGroup ? null : this.calls.figure(call);
      const cell = el("span", { class: "figure", role: "gridcell" }, this.figureText(value));
      if (value !== null && probeFlow.isOffCall(call)) cell.style.background = `var(--${probeFlow.fillOf(probeFlow.marks[call.mark].name, this.store.excess(call.worstRow))})`;
      return cell;
    }

    figureText(value) {
      if (value === null) return "";
      return this.calls.figureName === "error" ? probeFlow.small(value) : probeFlow.figure(value, 4);
    }

    /** The mark of a call; of a folded one the worst inside too, where that is worse. */
    severity(call, isOpen) {
      const { el, marks } = probeFlow;
      const own = call.isGroup || call.mark === null ? null : this.badgeOf(call.mark);
      if (!call.children.length || isOpen || call.worst <= (call.mark ?? -1) || !call.off) return own ?? (call.isGroup ? "" : el("span", { class: "muted none" }, this.unmarked));
      const inside = probeFlow.badge(marks[call.worst].name);
      inside.classList.add("inside");
      inside.append(" inside");
      return [inside, call.off > 1 ? el("span", { class: "muted" }, ` ${probeFlow.group(call.off)}`) : null];
    }

    badgeOf(mark) {
      const { el, marks } = probeFlow;
      return mark === null ? el("span", { class: "badge gap" }, this.unmarked) : probeFlow.badge(marks[mark].name);
    }

    meetingOf(call) {
      const meeting = this.calls.meeting(call);
      return meeting && meeting !== "same" ? meetingBadge(meeting) : null;
    }

    spoken(call, isOpen) {
      const { counted, marks } = probeFlow;
      if (call.isGroup) return `${call.label}: ${counted(call.end - call.place - 1, "call")}`;
      const meeting = this.calls.meeting(call);
      const own = call.mark === null ? this.unmarked : marks[call.mark].word;
      const inside = !isOpen && call.off && call.worst > (call.mark ?? -1) ? `, inside ${marks[call.worst].word}` : "";
      const value = this.calls.figure(call);
      return `${this.detail.words(call.node)}: ${own}${value === null ? "" : `, ${this.calls.figureName} ${this.figureText(value)}`}${inside}${meeting && meeting !== "same" ? `, ${MEETINGS[meeting][1]}` : ""}`;
    }

    click(event) {
      const line = event.target.closest(".call");
      if (line === null) return;
      const call = this.calls.lines[Number(line.dataset.place)];
      if (call.isGroup || event.target.classList.contains("twisty")) this.toggle(call);
      else this.open(call);
    }

    toggle(call, isOpen = !this.opened.has(call)) {
      if (!call.children.length || this.isFiltered()) return;
      if (isOpen) this.opened.add(call);
      else this.opened.delete(call);
      this.show();
      this.choose(call);
    }

    fold(isFolded) {
      this.opened = new Set(isFolded ? this.calls.roots : this.calls.lines);
      this.show();
      let at = this.current;
      while (at !== null && isFolded && at.parent !== null && !at.parent.isGroup) at = at.parent;
      if (at !== null) this.choose(at);
    }

    openAround(call) {
      for (let at = call.parent; at !== null; at = at.parent) this.opened.add(at);
    }

    /** Make a call the current one, and bring its line into sight. */
    choose(call, { scroll = true } = {}) {
      if (this.current !== null) this.elements.get(this.current)?.setAttribute("aria-selected", "false");
      this.current = call;
      const isShown = call !== null && this.shown[call.line] === call;
      if (!isShown) return this.box.removeAttribute("aria-activedescendant");
      if (scroll) this.scrollTo(call);
      this.elements.get(call)?.setAttribute("aria-selected", "true");
      return this.box.setAttribute("aria-activedescendant", `call-${call.place}`);
    }

    scrollTo(call) {
      const top = call.line * LINE;
      const { scrollTop, clientHeight } = this.box;
      if (top >= scrollTop && top + LINE <= scrollTop + clientHeight) return;
      const isNext = Math.abs(top - scrollTop) < 2 * LINE || Math.abs(top + LINE - scrollTop - clientHeight) < 2 * LINE;
      this.box.scrollTop = isNext ? (top < scrollTop ? top : top + LINE - clientHeight) : top - clientHeight / 2;
      this.draw();
    }

    /** Show a call with what is around it, and all that is known of it. */
    open(call) {
      if (call.execution !== this.execution) this.showExecution(call.execution);
      if (this.isFiltered() && this.shown[call.line] !== call) this.clear();
      this.openAround(call);
      if (this.shown[call.line] !== call) this.show();
      this.choose(call);
      this.panel.openCall(call, this.detail.head(call, this.panel), this.detail.sections(call));
      history.replaceState(null, "", this.hashOf(call));
      probeFlow.say(this.spoken(call, true));
    }

    /** Mark the call of a row. */
    select(row) {
      if (this.calls === null) return;
      const call = row === null ? null : this.calls.callOf(row);
      if (call !== null && call.execution === this.execution) this.choose(call);
    }

    /** Go to the next call (`step` 1 or -1) that the filters take, or without filters that is not fine. */
    step(step) {
      const { lines } = this.calls;
      const wanted = this.isFiltered() ? (call) => this.takes(call) : probeFlow.isOffCall;
      const start = this.current?.place ?? this.ends(step);
      for (let place = start + step; place >= 0 && place < lines.length; place += step) {
        if (wanted(lines[place])) return this.open(lines[place]);
      }
      return probeFlow.say(step > 0 ? "Nothing more to look at below." : "Nothing more to look at above.");
    }

    /** The place before the first line of the execution shown, or behind the last one. */
    ends(step) {
      const mine = this.calls.roots.filter((group) => group.execution === this.execution);
      return step > 0 ? mine[0].place - 1 : mine[mine.length - 1].end;
    }

    key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const at = this.current !== null && this.shown[this.current.line] === this.current ? this.current.line : -1;
      const call = at < 0 ? null : this.current;
      const go = (line) => this.shown.length && this.choose(this.shown[Math.max(0, Math.min(line, this.shown.length - 1))]);
      const page = Math.max(1, Math.floor(this.box.clientHeight / LINE) - 1);
      const actions = {
        ArrowDown: () => go(at + 1),
        ArrowUp: () => go(at - 1),
        PageDown: () => go(at + page),
        PageUp: () => go(at - page),
        Home: () => go(0),
        End: () => go(this.shown.length - 1),
        ArrowRight: () => (call === null ? null : this.opened.has(call) || this.isFiltered() ? call.children.length && go(at + 1) : this.toggle(call, true)),
        ArrowLeft: () => (call === null ? null : this.opened.has(call) && call.children.length && !this.isFiltered() ? this.toggle(call, false) : call.parent && go(call.parent.line)),
        Enter: () => (call === null ? null : call.isGroup ? this.toggle(call) : this.open(call)),
        " ": () => (call === null ? null : call.isGroup ? this.toggle(call) : this.open(call)),
        n: () => this.step(1),
        p: () => this.step(-1),
        "/": () => this.search.focus(),
      };
      const action = actions[event.key];
      if (!action) return;
      event.preventDefault();
      event.stopPropagation();
      action();
    }
  }

  function totalsOf(calls, execution) {
    const found = { calls: 0, marks: new Map(), meetings: new Map() };
    const add = (map, name) => map.set(name, (map.get(name) ?? 0) + 1);
    for (const call of calls.lines) {
      if (call.isGroup || call.execution !== execution) continue;
      found.calls += 1;
      add(found.meetings, calls.meeting(call));
      if (call.mark !== null) add(found.marks, probeFlow.marks[call.mark].name);
    }
    return found;
  }

  function twisty(call, isOpen) {
    return probeFlow.el("span", { class: call.children.length ? "twisty" : "twisty none", "aria-hidden": "true" }, isOpen ? "\u25be" : "\u25b8");
  }

  function indent(call) {
    return Math.min(call.depth - 1, MOST_INDENTS) * INDENT;
  }

  function indented(element, call) {
    element.style.marginLeft = `${indent(call)}px`;
    return element;
  }

  function meetingBadge(name) {
    const { el } = probeFlow;
    const [sign, word] = MEETINGS[name];
    return el("span", { class: `badge meeting ${name}` }, el("span", { class: "sign", "aria-hidden": "true" }, sign), word);
  }

  /** What the signs of this graph mean. */
  function legend(calls, counted) {
    const { el, marks } = probeFlow;
    const used = new Set(counted.map((call) => call.mark));
    const meetings = new Set(counted.map((call) => calls.meeting(call)));
    const levels = new Set(calls.store.node.hasLevels ? counted.flatMap((call) => calls.levels(call).map(([, level]) => level)) : []);
    return [
      [...marks].reverse().filter((look) => used.has(marks.indexOf(look))).map((look) => el("li", {}, probeFlow.badge(look.name), el("span", {}, look.meaning))),
      Object.keys(MEETINGS).filter((name) => meetings.has(name)).map((name) => el("li", {}, el("b", { class: "meeting-sign" }, MEETINGS[name][0]), MEETINGS[name][1])),
      Object.keys(LEVELS).filter((level) => levels.has(level)).map((level) => el("li", {}, el("span", { class: `level ${level}` }, level), LEVELS[level])),
    ];
  }

  Object.assign(probeFlow, { Graph });
})();
