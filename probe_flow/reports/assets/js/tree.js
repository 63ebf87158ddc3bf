"use strict";
// Modules and the calls inside them as a tree, with the worst of everything below each; a click shows its rows alone.
(() => {
  const PAGE = 200;
  const SEARCH_PAUSE_MS = 140;
  const MIDDOT = " \u00b7 ";

  /** A module, a call, or a group of them (an execution, a phase): what is below it, and how that fared. */
  class Item {
    constructor(label, { node = null, detail = "", title = label } = {}) {
      Object.assign(this, { label, node, detail, title, parent: null, children: [], rows: 0, count: 0, worst: 0, first: Infinity });
    }

    adopt(child) {
      child.parent = this;
      this.children.push(child);
    }

    /** Count a row here and in all that holds this; `worst` is the most important mark, `count` how many have it. */
    take(row, rank) {
      for (let at = this; at !== null; at = at.parent) {
        at.rows += 1;
        if (rank > at.worst) Object.assign(at, { worst: rank, count: 0 });
        if (rank === at.worst) at.count += 1;
        at.first = Math.min(at.first, row);
      }
    }

    sort() {
      this.children.sort((one, other) => one.first - other.first);
      for (const child of this.children) child.sort();
    }

    path() {
      return this.parent === null ? [] : [...this.parent.path(), this];
    }
  }

  const QUIET = new Set(["fine", "gap"]);

  function lookOf(item) {
    return [...probeFlow.looks.values()][item.worst];
  }

  /** The items of all rows below one root; null when no node names its caller. */
  function build(store) {
    if (!store.node.hasAbove) return null;
    const root = new Item("");
    const groups = new Map();
    const items = new Map();
    const partners = partnersOf(store);
    const above = (node) => {
      const caller = store.node.above(node);
      return caller === null ? null : (partners.get(caller) ?? caller);
    };
    const group = (node) => {
      const execution = store.node.execution(node) ?? 0;
      const phase = store.phaseOf(node);
      const key = `${execution} ${phase}`;
      if (!groups.has(key)) groups.set(key, attach(new Item(probeFlow.groupWords[phase] ?? phase), place(store, root, groups, execution)));
      return groups.get(key);
    };
    const itemOf = (node) => {
      if (items.has(node)) return items.get(node);
      const caller = above(node);
      const item = new Item(...described(store, node, caller));
      items.set(node, item);
      return attach(item, caller === null ? group(node) : itemOf(caller));
    };
    for (let row = 0; row < store.count; row += 1) {
      const node = store.nodeOf(row);
      if (node !== null) itemOf(node).take(row, store.markNumber(row));
    }
    root.sort();
    root.items = items;
    return root;
  }

  function attach(item, parent) {
    parent.adopt(item);
    return item;
  }

  function place(store, root, groups, execution) {
    if (store.executions.length < 2) return root;
    if (!groups.has(execution)) groups.set(execution, attach(Object.assign(new Item(store.executions[execution].label), { execution }), root));
    return groups.get(execution);
  }

  /** Golden nodes by the target node they are compared with, so that what only the golden has finds its place. */
  function partnersOf(store) {
    const partners = new Map();
    const { target, golden } = store.sides;
    if (!target || !golden) return partners;
    for (let row = 0; row < store.count; row += 1) {
      const [one, other] = [target.node(row), golden.node(row)];
      if (one !== null && other !== null && one !== other && !partners.has(other)) partners.set(other, one);
    }
    return partners;
  }

  /** What a module or call is named below its caller, and what else its item says. */
  function described(store, node, caller) {
    const { label, detail, number } = probeFlow.callWords(store, node, caller);
    const isGradient = (store.node.name(node) ?? "").endsWith(".parameters_grad");
    return [isGradient ? label : `${label}${number}`, { node, detail: isGradient ? number.trim() : detail, title: store.nodeName(node) }];
  }

  class Tree {
    constructor(store, { onPick }) {
      this.store = store;
      this.onPick = onPick;
      this.root = build(store);
      this.box = document.getElementById("tree");
      this.isThere = this.root !== null;
      this.box.hidden = !this.isThere;
      document.getElementById("rows-grid").classList.toggle("with-tree", this.isThere);
      document.getElementById("tree-jump").hidden = !this.isThere;
      if (!this.isThere) return;
      this.opened = new Set();
      this.shown = null;
      this.pages = new Map();
      this.takes = () => true;
      this.picked = null;
      this.active = null;
      const finding = store.summary.findings.find((each) => each.row !== null);
      const [first] = this.root.children;
      const groups = store.executions.length < 2 ? this.root.children : finding || !first ? [] : [first, ...first.children];
      for (const group of groups) this.opened.add(group);
      if (finding) this.openPath(finding.row);
      this.frame();
      this.draw();
      this.mark(finding ? finding.row : null);
      new ResizeObserver(() => this.mark(this.marked)).observe(this.list);
    }

    openPath(row) {
      const item = this.itemOf(row);
      const path = item?.path() ?? [];
      for (const each of path) if (each !== item) this.opened.add(each);
      // Of many siblings only the first are drawn: as many as it takes to see this one.
      for (const parent of [this.root, ...path]) {
        const place = parent.children.findIndex((each) => path.includes(each));
        if (place >= PAGE) this.pages.set(parent, Math.ceil((place + 1) / PAGE) * PAGE);
      }
    }

    itemOf(row) {
      return this.root.items.get(this.store.nodeOf(row)) ?? null;
    }

    frame() {
      const { el } = probeFlow;
      this.search = el("input", {
        type: "search", id: "tree-search", placeholder: "Find a module or call", "aria-label": "Find a module or call",
        autocomplete: "off", spellcheck: "false", input: () => this.searchSoon(), keydown: (event) => this.searchKey(event),
      });
      this.list = el("ul", { role: "tree", "aria-label": "Modules and calls", class: "items", keydown: (event) => this.key(event) });
      this.box.append(el("h3", { class: "unseen" }, "Modules and calls"), this.search, this.list);
    }

    searchSoon() {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.find(this.search.value.trim().toLowerCase()), SEARCH_PAUSE_MS);
    }

    searchKey(event) {
      if (event.key !== "Escape" || !this.search.value) return;
      event.stopPropagation();
      this.search.value = "";
      this.find("");
    }

    find(text) {
      this.shown = null;
      if (text) {
        this.shown = new Set();
        let found = 0;
        for (const item of this.root.items.values()) {
          if (!`${item.title}\n${this.store.entry(item.node) ?? ""}`.toLowerCase().includes(text)) continue;
          for (const each of item.path()) this.shown.add(each);
          found += 1;
          if (found === PAGE) break;
        }
        probeFlow.say(`${probeFlow.counted(found, "module or call", "modules and calls")} found`);
      }
      this.draw();
    }

    childrenOf(item) {
      const all = item === this.root ? item.children.filter((each) => !("execution" in each) || this.takes(this.store.executions[each.execution])) : item.children;
      return this.shown ? all.filter((each) => this.shown.has(each)) : all;
    }

    isOpen(item) {
      return this.shown ? true : this.opened.has(item);
    }

    /** Show the executions that `takes` accepts. */
    show(takes) {
      if (!this.isThere) return;
      this.takes = takes;
      if (this.store.executions.length > 1) this.draw();
    }

    draw() {
      const { el } = probeFlow;
      const hadFocus = this.list.contains(document.activeElement);
      const { scrollTop } = this.list;
      this.elements = new Map();
      this.owners = new WeakMap();
      this.list.replaceChildren(...this.entries(this.root, 1));
      if (!this.list.children.length) this.list.append(el("li", { role: "none", class: "muted nothing" }, "Nothing is named so."));
      if (!this.elements.has(this.active)) this.active = this.childrenOf(this.root)[0] ?? null;
      this.activate(this.active, hadFocus);
      this.list.scrollTop = scrollTop;
    }

    entries(item, level) {
      const children = this.childrenOf(item);
      const limit = this.pages.get(item) ?? PAGE;
      const entries = children.slice(0, limit).map((child) => this.entry(child, level));
      if (children.length > limit) entries.push(this.more(item, children.length - limit));
      return entries;
    }

    more(item, rest) {
      const { el, group } = probeFlow;
      const label = `show ${group(Math.min(rest, PAGE))} more of ${group(rest)}`;
      const show = () => {
        this.pages.set(item, (this.pages.get(item) ?? PAGE) + PAGE);
        this.draw();
      };
      return el("li", { role: "none" }, el("button", { type: "button", class: "link more", click: show }, label));
    }

    entry(item, level) {
      const { el, group } = probeFlow;
      const hasChildren = this.childrenOf(item).length > 0;
      const isOpen = hasChildren && this.isOpen(item);
      const line = el(
        "div",
        { class: item.node === null ? "line group" : "line", title: item.node === null ? null : this.store.entry(item.node) ?? item.title, click: (event) => this.click(item, event) },
        el("span", { class: hasChildren ? "twisty" : "twisty none", "aria-hidden": "true" }, isOpen ? "\u25be" : "\u25b8"),
        el("span", { class: "label name" }, item.label, item.detail ? el("span", { class: "muted" }, ` ${item.detail}`) : null),
        el("span", { class: "number" }, group(item.rows)),
        this.worst(item),
      );
      line.style.paddingLeft = `${(level - 1) * 14 + 4}px`;
      const element = el(
        "li",
        {
          role: "treeitem", tabindex: "-1", "aria-level": level, "aria-expanded": hasChildren ? String(isOpen) : null,
          "aria-selected": String(item === this.picked), "aria-label": this.spoken(item),
        },
        line,
        isOpen ? el("ul", { role: "group" }, this.entries(item, level + 1)) : null,
      );
      this.elements.set(item, element);
      this.owners.set(element, item);
      return element;
    }

    worst(item) {
      const { el, badge } = probeFlow;
      const look = lookOf(item);
      if (QUIET.has(look.name)) return el("span", { class: `badge ${look.name} sign-only`, title: look.word, "aria-hidden": "true" }, look.sign);
      const shown = badge(look.name);
      if (item.count > 1) shown.append(` ${probeFlow.group(item.count)}`);
      return shown;
    }

    spoken(item) {
      const { counted, group } = probeFlow;
      const { word } = lookOf(item);
      return `${[item.label, item.detail].filter(Boolean).join(" ")}: ${word}, ${item.count < item.rows ? `${group(item.count)} of ` : ""}${counted(item.rows, "tensor")}`;
    }

    click(item, event) {
      if (event.target.classList.contains("twisty") && !event.target.classList.contains("none")) this.toggle(item);
      else this.pick(item);
    }

    toggle(item, isOpen = !this.opened.has(item)) {
      if (isOpen) this.opened.add(item);
      else this.opened.delete(item);
      this.active = item;
      this.draw();
    }

    /** Show the rows of an item alone; picking it again gives that up. */
    pick(item) {
      this.picked = this.picked === item ? null : item;
      this.active = item;
      if (item.children.length && this.picked) this.opened.add(item);
      this.draw();
      this.activate(item, true);
      this.onPick(this.picked);
    }

    pickNode(node) {
      const item = this.root?.items.get(node);
      if (!item) return;
      for (const each of item.path()) this.opened.add(each);
      this.picked = null;
      this.pick(item);
      this.scrollTo(item);
    }

    clear() {
      if (!this.isThere || this.picked === null) return;
      this.picked = null;
      this.draw();
    }

    /** The numbers of all nodes below an item, itself included. */
    nodesOf(item) {
      const found = new Set();
      const open = [item];
      while (open.length) {
        const each = open.pop();
        if (each.node !== null) found.add(each.node);
        open.push(...each.children);
      }
      return found;
    }

    /** Mark the item of a row; it is not opened for that. */
    mark(row) {
      if (!this.isThere) return;
      this.marked = row;
      this.list.querySelector(".line.current")?.classList.remove("current");
      const item = row === null ? null : this.itemOf(row);
      const line = this.elements.get(item)?.querySelector(".line");
      if (!line) return;
      line.classList.add("current");
      const top = this.topOf(item);
      if (top < 0 || top + line.offsetHeight > this.list.clientHeight) this.scrollTo(item);
    }

    scrollTo(item) {
      if (this.elements.has(item)) this.list.scrollTop += this.topOf(item) - this.list.clientHeight / 2;
    }

    topOf(item) {
      return this.elements.get(item).getBoundingClientRect().top - this.list.getBoundingClientRect().top;
    }

    activate(item, focus) {
      this.elements.get(this.active)?.setAttribute("tabindex", "-1");
      this.active = item;
      const element = this.elements.get(item);
      element?.setAttribute("tabindex", "0");
      if (focus) element?.focus({ preventScroll: true });
      if (focus && element) element.querySelector(".line").scrollIntoView({ block: "nearest" });
    }

    key(event) {
      const item = this.owners.get(event.target.closest("[role=treeitem]"));
      if (!item || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("button")) return;
      const order = [...this.elements.keys()].sort((one, other) => (this.elements.get(one).compareDocumentPosition(this.elements.get(other)) & 4 ? -1 : 1));
      const at = order.indexOf(item);
      const hasChildren = this.childrenOf(item).length > 0;
      const actions = {
        ArrowDown: () => this.activate(order[Math.min(at + 1, order.length - 1)], true),
        ArrowUp: () => this.activate(order[Math.max(at - 1, 0)], true),
        Home: () => this.activate(order[0], true),
        End: () => this.activate(order[order.length - 1], true),
        ArrowRight: () => (hasChildren && !this.isOpen(item) ? this.toggle(item, true) : hasChildren ? this.activate(this.childrenOf(item)[0], true) : null),
        ArrowLeft: () => (hasChildren && this.opened.has(item) && !this.shown ? this.toggle(item, false) : item.parent !== this.root ? this.activate(item.parent, true) : null),
        Enter: () => this.pick(item),
        " ": () => this.pick(item),
      };
      const action = actions[event.key];
      if (!action) return;
      event.preventDefault();
      event.stopPropagation();
      action();
    }
  }

  Object.assign(probeFlow, { Tree, pathText: (item) => item.path().map((each) => each.label).join(MIDDOT) });
})();
