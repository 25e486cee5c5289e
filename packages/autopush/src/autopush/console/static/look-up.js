// The page Look up: one user agent, its pending messages, and what can be done about them.
import { confirmed, post } from "./requests.js";
import { bytes, count, numbers, table, time } from "./shown.js";

const $ = (id) => document.getElementById(id);
const NODES = {
  done: ["connected", "good"], stored: ["connected", "good"], absent: "not connected",
  gone: "its node is gone", refused: "its node cannot be reached", silent: ["its node does not answer", "bad"],
  busy: "its node does not say",
};
let shown = null;

function show(found) {
  shown = found;
  $("headline").textContent = found.headline;
  $("explanation").textContent = found.explanation;
  const pending = (found.tables ?? []).map((each) => each.pending);
  const sum = (name) => pending.reduce((total, each) => total + each[name], 0);
  const more = pending.some((each) => each.has_more) ? "at least " : "";
  const record = found.record ?? {};
  numbers($("facts"), [
    ["UAID", found.uaid],
    ["In logs", found.uaid_in_logs],
    found.channel && ["Channel", found.channel],
    ["Connection", found.record ? NODES[found.node] ?? "not connected" : "no record"],
    record.connected_at && ["Connected last", new Date(record.connected_at).toLocaleString()],
    ["Subscriptions", count(found.channel_count)],
    ["Pending messages", `${more}${count(sum("count"))}, ${bytes(sum("bytes"))}`],
    sum("expired") && ["Expired, not yet removed", count(sum("expired"))],
  ]);
  $("actions").hidden = document.body.dataset.role !== "act" || !found.record;
  $("messages-why").textContent = sum("count") > found.messages.length
    ? `The first ${found.messages.length} in the order of delivery. Contents are encrypted, and not shown.`
    : "In the order of delivery. Contents are encrypted, and not shown.";
  table($("messages"), found.messages.map((each) => [
    each.stored_at ? `${time(each.age)} ago` : "–", bytes(each.size),
    each.stored_at ? time(Math.max(0, each.ttl - each.age)) : "–", each.topic ?? "–", each.urgency, each.channel,
  ]), "None");
  const items = found.channels.map((each) => {
    const item = document.createElement("li"), code = document.createElement("code");
    code.textContent = each;
    item.append(code);
    return item;
  });
  const rest = found.channel_count - found.channels.length;
  if (rest > 0 || !items.length) {
    const item = document.createElement("li");
    item.textContent = rest > 0 ? `and ${count(rest)} more` : "None";
    items.push(item);
  }
  $("channels").replaceChildren(...items);
  numbers($("record"), Object.entries(record).map(([name, value]) =>
    [name, typeof value === "object" ? JSON.stringify(value) : String(value)]));
  $("found").hidden = false;
}

async function lookUp(text) {
  $("problem").textContent = "";
  try {
    show(await post("look-up.json", { text }));
  } catch (error) {
    $("found").hidden = true;
    $("problem").textContent = error.message;
  }
}

$("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  $("done").textContent = "";
  await lookUp($("text").value);
  if (!$("found").hidden) $("headline").focus();
});

async function act(path, question, consequence, yes, done) {
  if (!await confirmed(question, consequence, yes)) return;
  try {
    const answer = await post(path, { uaid: shown.uaid });
    await lookUp(shown.uaid);
    $("done").textContent = done(answer);
  } catch (error) {
    $("done").textContent = error.message;
  }
}

$("delete").addEventListener("click", () => act(
  "delete-messages.json", "Delete its pending messages?",
  "They were accepted, and their senders are not told. This cannot be undone.", "Delete",
  (answer) => `Deleted ${count(answer.deleted)}.`));
$("drop").addEventListener("click", () => act(
  "drop-user.json", "Drop this user agent?",
  "Its subscriptions and messages are lost. It gets a new UAID when it connects, and web sites have to subscribe again.",
  "Drop", () => "Dropped."));
