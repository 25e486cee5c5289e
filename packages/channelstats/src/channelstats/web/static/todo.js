// Marks what is to be done in place: by its buttons, by keys, all that is checked at once. Without
// this file each mark is a form that leads to the page again.

const table = document.querySelector("#table-queue");
const status = document.querySelector("#said");
const keys = document.querySelector("#keys");
const bulk = document.querySelector("#checked");

const PATIENCE = 15_000; // milliseconds
const MARKS = { d: "done", s: "snoozed", n: "not_a_question" };

const rows = () => [...table.querySelectorAll("tbody tr:not([hidden])")];
const current = () => table.querySelector("tbody tr:focus-within");
const boxOf = (row) => row.querySelector("[type=checkbox]");
const checked = () => rows().filter((row) => boxOf(row)?.checked);

const focusOn = (row) => {
  (boxOf(row) ?? row.querySelector("button")).focus({ preventScroll: true });
  row.scrollIntoView({ block: "nearest" });
};

const say = (text, withUndo = false) => {
  document.querySelector("form.said")?.remove();
  status.replaceChildren(text);
  if (!withUndo) return;
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Undo" });
  button.addEventListener("click", undo);
  status.append(button);
};

const send = async (as, some, person = "") => {
  const items = some.map((row) => ["item", row.dataset.item]);
  const answer = await fetch("/marks", {
    method: "POST",
    headers: { Accept: "application/json" },
    body: new URLSearchParams([...items, ["as", as], ["person", person]]),
    signal: AbortSignal.timeout(PATIENCE),
  });
  if (answer.ok) return;
  const { error } = await answer.json().catch(() => ({ error: `the answer was ${answer.status}` }));
  throw new Error(error);
};

// What was done, the last at the end: { said, undone, rows, revert, sendBack }. One request follows
// another.
const history = [];
let sending = Promise.resolve();
const inTurn = (work) => {
  sending = sending.then(work).catch((error) => say(`Not saved: ${error.message}.`));
};

const undo = () =>
  inTurn(async () => {
    const change = history.at(-1);
    if (!change) return say("There is nothing to undo.");
    await change.sendBack();
    history.pop();
    change.revert();
    focusOn(change.rows[0]);
    say(change.undone);
  });

const commit = (change, request) =>
  inTurn(async () => {
    try {
      await request();
    } catch (error) {
      change.revert();
      throw error;
    }
    history.push(change);
    say(change.said + (rows().length ? "" : " Nothing else is listed here."), true);
    if (!rows().length) status.querySelector("button").focus();
  });

const sentence = (said, some) =>
  `${said}: ${some.length === 1 ? some[0].dataset.label : `${some.length} items`}.`;

const hide = (some, hidden) => {
  for (const row of some) row.hidden = hidden;
};

const mark = (some, { value, dataset }) => {
  const last = some.at(-1);
  hide(some, true);
  for (const row of some) if (boxOf(row)) boxOf(row).checked = false;
  const left = rows();
  const next = left.find((row) => last.compareDocumentPosition(row) & Node.DOCUMENT_POSITION_FOLLOWING);
  if (left.length) focusOn(next ?? left.at(-1));
  const change = {
    said: sentence(dataset.said, some),
    undone: sentence("Listed again", some),
    rows: some,
    revert: () => hide(some, false),
    sendBack: () => send("listed", some),
  };
  commit(change, () => send(value, some));
};

const assign = (some, { dataset }, { value, selectedOptions }) => {
  const cells = some.map((row) => row.querySelector(".assignee"));
  const before = cells.map((cell) => [cell.dataset.assignee, cell.textContent]);
  const show = (cell, uid, text) => {
    cell.dataset.assignee = uid;
    cell.textContent = text;
  };
  const name = value && selectedOptions[0].textContent;
  for (const cell of cells) show(cell, value, name);
  for (const row of some) boxOf(row).checked = false;
  focusOn(some[0]);
  const change = {
    said: sentence(`${dataset.said} to ${name || "nobody"}`, some),
    undone: sentence("Assigned as before", some),
    rows: some,
    revert: () => cells.forEach((cell, at) => show(cell, ...before[at])),
    sendBack: async () => {
      for (const uid of new Set(before.map(([uid]) => uid)))
        await send("assigned", some.filter((_, at) => before[at][0] === uid), uid);
    },
  };
  commit(change, () => send("assigned", some, value));
};

table.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches(".marking")) return;
  event.preventDefault();
  const some = form === bulk ? checked() : [form.closest("tr")];
  if (!some.length) say("Nothing is checked.");
  else if (event.submitter.value === "assigned") assign(some, event.submitter, form.elements.person);
  else mark(some, event.submitter);
});

// ── keys ─────────────────────────────────────────────────────────────────────────────────────────

const UNUSED = "channelstats-no-keys";
const use = document.querySelector("#use-keys");
use.checked = !localStorage.getItem(UNUSED);
use.addEventListener("change", () =>
  use.checked ? localStorage.removeItem(UNUSED) : localStorage.setItem(UNUSED, "yes"),
);

const showKeys = () => keys.showModal();
const button = document.querySelector("#show-keys");
if (button) {
  button.hidden = false;
  button.addEventListener("click", showKeys);
}

const step = (by) => {
  const all = rows();
  const at = all.indexOf(current());
  const row = at < 0 ? all[0] : all[Math.min(Math.max(at + by, 0), all.length - 1)];
  if (row) focusOn(row);
};

const press = (value) => {
  const form = checked().length ? bulk : current();
  const found = form?.querySelector(`button[value=${value}]`);
  if (found) found.click();
  else if (form) say("Only a question can be marked as not a question.");
};

const ACTIONS = { j: () => step(1), k: () => step(-1), u: undo, "?": showKeys };
for (const [key, value] of Object.entries(MARKS)) ACTIONS[key] = () => press(value);

addEventListener("keydown", (event) => {
  const { key, target, ctrlKey, altKey, metaKey, repeat } = event;
  const isTyping = target.closest?.("input:not([type=checkbox]), select, textarea, [contenteditable]");
  if (isTyping || ctrlKey || altKey || metaKey || keys.open || !use.checked) return;
  if (!Object.hasOwn(ACTIONS, key) || (repeat && key !== "j" && key !== "k")) return;
  event.preventDefault();
  ACTIONS[key]();
});
