/**
 * Copy buttons: `<button class="copy" data-copy="#id">` copies the text of that element.
 *
 * Rule: a button that could not copy selects the text instead, so that Ctrl+C does it.
 */

const SHOWN_MS = 1800;
const live = document.querySelector("#copied");

for (const button of document.querySelectorAll("button[data-copy]")) prepare(button);

/** Make a button copy the text of the element it names. It is hidden until a script can serve it. */
export function prepare(button) {
  button.hidden = false;
  button.addEventListener("click", () => copy(button));
}

async function copy(button) {
  const source = document.querySelector(button.dataset.copy);
  // `data-full` holds the whole text where only a part is shown.
  const text = source.dataset.full ?? source.textContent;
  const done = await toClipboard(text);
  if (!done) getSelection().selectAllChildren(source);
  tell(button, done ? "Copied" : "Press Ctrl+C");
}

/** The clipboard exists in secure contexts only; the old command works in the others. */
async function toClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyByCommand(text);
  }
}

function copyByCommand(text) {
  const field = document.createElement("textarea");
  field.className = "for-readers";
  field.value = text;
  const focused = document.activeElement;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  focused?.focus();
  return done;
}

function tell(button, words) {
  const label = (button.dataset.label ??= button.textContent);
  button.textContent = words;
  live.textContent = words;
  clearTimeout(button.timer);
  button.timer = setTimeout(() => {
    button.textContent = label;
    live.textContent = "";
  }, SHOWN_MS);
}
