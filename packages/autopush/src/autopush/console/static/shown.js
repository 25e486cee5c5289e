// Numbers and tables as people read them. Texts are set as text, never as markup.
const whole = new Intl.NumberFormat("en");

export const count = (number) => whole.format(Math.round(number));
export const rate = (number) => `${number < 10 ? Number(number.toFixed(1)) : count(number)}/s`;

export function time(seconds) {
  if (!seconds) return "0 s";
  if (seconds < 1) return `${Number((seconds * 1000).toPrecision(2))} ms`;
  if (seconds < 120) return `${Number(seconds.toPrecision(3))} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}

export function bytes(number) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (number >= 1024 && unit < 4) { number /= 1024; unit += 1; }
  return `${Number(number.toPrecision(3))} ${units[unit]}`;
}

/** Children of that tag, one per text; `[text, class]` for one with a class. */
export function row(tag, outer, texts) {
  const made = document.createElement(outer);
  texts.forEach((each, n) => {
    const [text, kind] = Array.isArray(each) ? each : [each, ""];
    const cell = document.createElement(outer === "div" ? ["dt", "dd"][n] : tag);
    cell.textContent = text;
    if (kind) cell.className = kind;
    made.append(cell);
  });
  return made;
}

export function numbers(list, pairs) {
  list.replaceChildren(...pairs.filter(Boolean).map((pair) => row("", "div", pair)));
}

export function table(body, rows, none) {
  const shown = rows.map((cells) => row("td", "tr", cells));
  if (!rows.length) {
    const made = row("td", "tr", [[none, "none"]]);
    made.firstChild.colSpan = body.closest("table").rows[0].cells.length;
    shown.push(made);
  }
  body.replaceChildren(...shown);
}
