// The page Look up: one user agent, its pending messages, a test push, and what else can be done.
import { confirmed, post } from "./requests.js";
import { bytes, count, numbers, table, time } from "./shown.js";

const $ = (id) => document.getElementById(id);
const NODES = {
  done: ["connected", "good"], stored: ["connected", "good"], absent: "not connected",
  gone: "its node is gone", refused: "its node cannot be reached", silent: ["its node does not answer", "bad"],
  busy: "its node does not say",
};
const STEPS = [
  ["stored", "Stored, and its sender answered"], ["retrieved", "Read from the store to be sent"],
  ["transmitted", "Sent to the user agent"], ["accepted", "Accepted by the bridge"],
  ["delivered", "Acked by the user agent"], ["errored", "Not usable for the user agent"],
  ["expired", "Discarded"],
];
const FOLLOWED_FOR = 95_000; // ms: its TTL, and a while in which it may be acked
let shown = null, asked = "", following = 0;

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
  const listed = found.channels.length || !found.channel ? found.channels : [found.channel];
  const items = listed.map((each) => {
    const item = document.createElement("li"), code = document.createElement("code");
    const button = document.createElement("button");
    code.textContent = each;
    button.type = "button";
    button.className = "copy act-only";
    button.textContent = "Test push …";
    button.setAttribute("aria-label", `Test push to ${each}`);
    button.addEventListener("click", () => testPush(each));
    item.append(code, " ", button);
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
  $("test").hidden = true;
  following += 1; // what was followed is not any more
  asked = $("text").value;
  await lookUp(asked);
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

function showSteps(push) {
  const steps = [["Accepted", 0], ...STEPS.filter(([name]) => name in push.times)
    .map(([name, title]) => [title, push.times[name], name])];
  if (push.state === "refused") steps.shift();
  $("steps").replaceChildren(...steps.sort((one, other) => one[1] - other[1]).map(([title, after, name]) => {
    const item = document.createElement("li"), at = document.createElement("b");
    at.textContent = `${after} ms`;
    const where = name === "transmitted" && push.node ? ` (${push.node})` : "";
    const code = push.code !== null && (name === "delivered" || name === "errored") ? `, code ${push.code}` : "";
    item.append(at, `${title}${code}${where}`);
    if (name === "delivered") item.className = "good";
    if (name === "errored") item.className = "bad";
    return item;
  }));
  const waits = "transmitted" in push.times ? "Waiting for the ack …" : "Waiting to be sent: see above why …";
  $("steps-why").textContent = push.explanation || (push.is_final ? "Times are by the clocks of the nodes." : waits);
  $("steps-why").classList.toggle("problem", Boolean(push.explanation));
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function testPush(channel) {
  const question = "Send a test push?";
  const consequence = "The service worker of its web site gets an event without data, and may show a notification. "
    + "It is kept for 60 seconds; contents cannot be sent, as only the web site has the keys.";
  if (!await confirmed(question, consequence, "Send", "primary")) return;
  const mine = following += 1, began = Date.now();
  $("done").textContent = "";
  $("test-channel").textContent = channel;
  try {
    let push = await post("test-push.json", { uaid: shown.uaid, channel });
    $("test").hidden = false;
    showSteps(push);
    $("test-title").focus();
    let isExplained = false;
    while (!push.is_final && Date.now() - began < FOLLOWED_FOR) {
      await pause(Date.now() - began < 3000 ? 150 : 1000);
      if (mine !== following) return;
      if (document.hidden) continue;
      // What lasts has a reason, which is that of the look-up.
      if (!isExplained && !("transmitted" in push.times) && Date.now() - began > 1000) {
        isExplained = true;
        await lookUp(asked);
      }
      push = await post("test-push-state.json", { message: push.message });
      showSteps(push);
    }
    await lookUp(asked);
  } catch (error) {
    $("done").textContent = error.message;
  }
}
