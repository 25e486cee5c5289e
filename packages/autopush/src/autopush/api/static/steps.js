/**
 * How a step of the demo shows itself: its state, one sentence, advice, and a table of results.
 *
 * Rule: everything is set as text, never as markup; messages come from outside.
 */

import { prepare } from "./copy.js";

export class Step {
  constructor(id) {
    this.element = document.querySelector(id);
    this.said = this.element.querySelector(".said");
    this.results = this.element.querySelector(".results");
  }

  /** `state` is todo, busy, done or failed. `advice` is text, or `{text, href, link}`. */
  show(state, words, advice) {
    this.element.dataset.state = state;
    this.said.replaceChildren(element("p", "what", words));
    if (advice) this.said.append(adviceOf(advice));
  }

  clearResults() {
    this.results.replaceChildren();
  }

  /** A row of the table. With `full`, `value` is a shortened form and the whole can be copied. */
  result(name, value, full) {
    const row = document.createElement("div");
    const content = element("dd", full ? "copyable" : "", full ? null : value);
    if (full) content.append(...copyable(name, value, full));
    row.append(element("dt", "", name), content);
    this.results.append(row);
  }
}

/** An element with a class and a text. */
export function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text != null) made.textContent = text;
  return made;
}

/** The beginning and the end of a long text. */
export function shorten(text, head, tail) {
  return text.length <= head + tail + 1 ? text : `${text.slice(0, head)}…${text.slice(-tail)}`;
}

function adviceOf(advice) {
  const paragraph = element("p", "advice", advice.text ?? advice);
  if (advice.href) {
    const link = element("a", "", advice.link);
    link.href = advice.href;
    paragraph.append(" ", link);
  }
  return paragraph;
}

function copyable(name, value, full) {
  const code = element("code", "", value);
  code.id = `result-${name.toLowerCase().replaceAll(" ", "-")}`;
  code.dataset.full = full;
  code.title = full;
  const button = element("button", "copy", "Copy");
  button.type = "button";
  button.dataset.copy = `#${code.id}`;
  button.setAttribute("aria-label", `Copy the ${name.toLowerCase()}`);
  prepare(button);
  return [code, button];
}
