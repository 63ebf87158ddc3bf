"use strict";
// Elements and words. Every text from a dump passes `visible` and becomes a text node, never markup.
(() => {
  const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
  const MAX_WORD = 96;
  const NAMED = { "\n": "\\n", "\t": "\\t", "\r": "\\r" };

  /** Show control, direction and other invisible characters by their codes. */
  function visible(text) {
    return String(text).replace(HIDDEN, (found) => {
      if (NAMED[found]) return NAMED[found];
      const code = found.codePointAt(0).toString(16);
      return code.length <= 2 ? `\\x${code.padStart(2, "0")}` : `\\u${code.padStart(4, "0")}`;
    });
  }

  /** Return an element. Attributes that are functions are listeners; null and false are left out. */
  function el(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      if (typeof value === "function") element.addEventListener(name, value);
      else element.setAttribute(name, value === true ? "" : visible(value));
    }
    add(element, children);
    return element;
  }

  function add(element, children) {
    for (const child of children.flat(Infinity)) {
      if (child === null || child === undefined || child === false) continue;
      element.append(child instanceof Node ? child : visible(child));
    }
    return element;
  }

  function fill(element, ...children) {
    element.replaceChildren();
    return add(element, children);
  }

  /** A sentence of ours, in which names stand in backquotes; words above `most` characters lose their middle. */
  function prose(text, most = MAX_WORD) {
    const parts = String(text).split(/`([^`]+)`/);
    return el("span", { class: "prose" }, parts.map((part, place) => (place % 2 ? el("code", {}, readable(part, most)) : readable(part, most))));
  }

  /** What ends other sentences elsewhere, as a sentence of its own. */
  function sentence(text) {
    return prose(capital(text));
  }

  function capital(text) {
    return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
  }

  function readable(text, most) {
    return String(text).split(/(\S+)/).map((part) => (part.length > most ? abridged(part, most) : breakable(part)));
  }

  /** A text whose long names end their lines behind a slash, not inside of a word; what is copied stays as it is. */
  function breakable(text) {
    return String(text).split(/(?<=[\w)]\/)(?=\w)/).flatMap((part, place) => (place ? [el("wbr"), unbroken(part)] : [unbroken(part)]));
  }

  /** A text whose numbers do not end their lines behind a minus: browsers take `1e-05` for two words. */
  function unbroken(text) {
    return text.split(/(\d[\d.]*e-\d+)/i).map((part, place) => (place % 2 ? el("span", { class: "whole" }, part) : part));
  }

  /** A long name that shows both ends; where one points it is told whole, and copied and found it is whole too. */
  function abridged(name, most = MAX_WORD) {
    const text = visible(name);
    if (text.length <= most) return breakable(text);
    const { head, tail } = ends(text, most);
    const middle = el("span", { class: "middle" }, text.slice(head.length, -tail.length));
    return el("span", { class: "abridged", title: text }, el("span", { class: "cut" }, head), middle, tail);
  }

  /** A number for people, at most `digits` digits. */
  function figure(value, digits = 5) {
    if (value === null || value === undefined) return "\u2013";
    if (typeof value === "boolean") return value ? "yes" : "no";
    if (Number.isNaN(value)) return "NaN";
    if (!Number.isFinite(value)) return value > 0 ? "\u221e" : "\u2212\u221e";
    return sign(plainFigure(value, digits));
  }

  function plainFigure(value, digits) {
    const size = Math.abs(value);
    if (value === 0 || (Number.isInteger(value) && size < 1e9)) return String(value);
    if (size >= 0.99 && size < 1) return nearOne(value);
    if (size >= 1e-3 && size < 1e6) return String(Number(value.toPrecision(digits)));
    return exponential(value, Math.min(digits, 4)).replace(/\.?0+e/, "e");
  }

  /** Something below 1 never reads as 1. */
  function nearOne(value) {
    for (let digits = 6; digits < 15; digits += 3) {
      const text = value.toFixed(digits);
      if (Math.abs(Number(text)) < 1) return text;
    }
    return String(value);
  }

  function exponential(value, digits) {
    return value.toExponential(digits - 1).replace("e+", "e");
  }

  /** An error, the same width for all sizes. */
  function small(value) {
    if (value === null || value === undefined) return "";
    if (value === 0) return "0";
    return Number.isFinite(value) ? sign(exponential(value, 3)) : figure(value);
  }

  function sign(text) {
    return text.replace(/-/g, "\u2212");
  }

  const GROUPED = new Intl.NumberFormat("en-US");

  function counted(value, word, plural = `${word}s`) {
    return `${GROUPED.format(value)} ${value === 1 ? word : plural}`;
  }

  function words(name) {
    return String(name).replace(/_/g, " ");
  }

  /** A label that says by sign, word and colour what a tensor's role is. */
  function badge(name) {
    const { sign, word } = probeFlow.looks.get(name);
    return el("span", { class: `badge ${name}` }, el("span", { class: "sign", "aria-hidden": "true" }, sign), word);
  }

  /** The published verdict of a row, named and small: it says nothing of where an error begins. */
  function ruleWord(status, policy = "") {
    return el("span", { class: "rule" }, policy ? `row rule ${policy}: ` : "row rule: ", el("b", {}, words(status)));
  }

  /** A long name loses its middle: its end tells calls apart. */
  function shortened(name, most) {
    if (name.length <= most) return name;
    const { head, tail } = ends(name, most);
    return `${head}\u2026${tail}`;
  }

  function called(name) {
    return el("span", { class: "name" }, abridged(name));
  }

  function ends(name, most) {
    const tail = Math.floor((most - 1) / 2);
    return { head: name.slice(0, most - 1 - tail), tail: name.slice(-tail) };
  }

  /** Announce something to screen readers. */
  function say(text) {
    document.getElementById("said").textContent = visible(text);
  }

  Object.assign(probeFlow, {
    visible, el, fill, prose, sentence, capital, abridged, called, breakable, figure, small, counted, words, badge, ruleWord, shortened, say, group: (value) => GROUPED.format(value),
  });
})();
