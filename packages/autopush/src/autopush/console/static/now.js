// The page Now: events once a second, none while the page is hidden.
import { chart, draw } from "./chart.js";
import { bytes, count, numbers, rate, table, time } from "./shown.js";

const $ = (id) => document.getElementById(id);
const TILES = [
  ["connected", "Connected", count],
  ["received", "Pushes", rate],
  ["sent", "Sent to user agents", rate],
  ["acked", "Acked", rate],
  ["refused", "Refused", rate],
  ["push_time", "Push accepted, 95 %", time],
  ["store_time", "Stored, 95 %", time],
  ["lag", "Event-loop lag", time],
];
const tiles = new Map(TILES.map(([name, title, shown]) => {
  const box = document.createElement("div"), heading = document.createElement("h2");
  const value = document.createElement("p"), range = document.createElement("p");
  const left = document.createElement("span"), right = document.createElement("span");
  const picture = chart();
  box.className = "tile"; heading.textContent = title; value.className = "value"; value.textContent = "–";
  value.dataset.name = name; range.className = "range"; range.append(left, right);
  box.append(heading, value, picture.svg, range);
  $("tiles").append(box);
  return [name, { title, shown, value, picture, left, right }];
}));
let columns = [], rows = [], before = null, source = null;

function drawHistory() {
  const until = rows.length ? rows.at(-1)[0] : Date.now() / 1000;
  for (const [name, { title, shown, picture, left, right }] of tiles) {
    const column = columns.indexOf(name);
    const points = rows.map((each) => [each[0], each[column]]);
    const top = Math.max(0, ...points.map(([, value]) => value));
    const span = rows.length ? time(until - rows[0][0] + 10) : "";
    left.textContent = span ? `last ${span}` : "no history yet";
    right.textContent = span ? `≤ ${shown(top)}` : "";
    draw(picture, points, until, span ? `${title}, last ${span}: at most ${shown(top)}` : `${title}: no history yet`);
  }
}

function set(name, text) {
  const { value } = tiles.get(name);
  if (value.textContent !== text) value.textContent = text;
}

const entries = (object) => Object.entries(object);
const failed = (number) => [count(number), number ? "bad" : ""];

function show(now) {
  const counts = now.counts;
  set("connected", count(now.connected));
  const seconds = before ? now.at - before.at : 0;
  for (const name of ["received", "sent", "acked", "refused"]) {
    if (seconds > 0.2) set(name, rate(Math.max(0, counts[name] - before.counts[name]) / seconds));
  }
  const last = rows.at(-1);
  for (const name of ["push_time", "store_time"]) {
    set(name, time(last ? last[columns.indexOf(name)] : now.times[name].p95));
  }
  set("lag", time(now.lag));
  before = now;
  numbers($("pushes"), [
    ["Received", count(counts.received)],
    ["Delivered directly", count(now.outcomes.Direct ?? 0)],
    ["Stored for later", count(now.outcomes.Stored ?? 0)],
    ["Discarded: TTL 0, not connected", count(now.outcomes.Discarded ?? 0)],
    ["Refused", count(counts.refused)],
    ["Sent to user agents", count(counts.sent)],
    ["Acked by them", count(counts.acked)],
    ["Unusable for them", failed(counts.unusable)],
    ["Time to accept: half, 99 %", `${time(now.times.push_time.median)}, ${time(now.times.push_time.p99)}`],
  ]);
  numbers($("refused"), [
    ...entries(now.refused_by_status).map(([code, number]) => [`Status ${code}`, count(number)]),
    ...entries(now.refused_by_errno).map(([errno, number]) => [`Errno ${errno}`, count(number)]),
    ...entries(now.refused_by_limit).map(([limit, number]) => [`Limit ${limit}`, count(number)]),
    !counts.refused && !counts.limited && ["Nothing", "0"],
  ]);
  const disk = now.disk;
  const { messages } = now;
  numbers($("store"), [
    ["Waiting messages", !now.messages_are_counted ? "not counted on DynamoDB"
      : messages ? `${messages.is_estimate ? "about " : ""}${count(messages.count)}` : "counting …"],
    messages?.oldest && [messages.is_estimate ? "Oldest of 5,000 rows" : "The oldest", `${time(now.at - messages.oldest)} ago`],
    ["Stored since the start", count(counts.stored)],
    ["Deleted: acked, or taken back", count(counts.deleted)],
    ["Expired and removed", count(counts.expired)],
    ["Read for user agents", count(counts.retrieved)],
    ...entries(now.store_failures).map(([kind, number]) => [`Failed: ${kind}`, failed(number)]),
    ["Time to store: half, 99 %", `${time(now.times.store_time.median)}, ${time(now.times.store_time.p99)}`],
    disk && ["Store", bytes(disk.store)],
    disk && ["Free on its disk", [bytes(disk.free), disk.free < 2 * disk.refuses_below ? "bad" : ""]],
  ]);
  const ready = now.workers_ready === now.workers_expected, certificate = now.certificate;
  numbers($("service"), [
    ["Version", now.version],
    ["Console began", `${time(now.at - now.started)} ago`],
    ["Workers", [`${now.workers_ready} of ${now.workers_expected} ready`, ready ? "good" : "bad"]],
    ["Upgrade", now.upgrade ? "under way: the version before still has connections" : "none under way"],
    ["Certificate", certificate
      ? [`${certificate.days_left} days left`, certificate.days_left < 14 || certificate.failure ? "bad" : "good"]
      : "no TLS here"],
    certificate?.failure && ["Renewal failed", [certificate.failure, "bad"]],
    now.unanswered && ["Workers without an answer", failed(now.unanswered)],
  ]);
  table($("workers"), now.workers.map((each, n) => [
    n, each.ready ? ["ready", "good"] : ["missing", "bad"], count(each.connected), time(each.lag), time(each.cpu), bytes(each.memory),
  ]), "none");
  table($("busy"), Object.entries(now.busy_senders).map(([key, number]) => [`${key.slice(0, 24)}…`, count(number)]), "None has signed");
  table($("senders"), now.senders.map((each) => [
    each.key ? `${each.key.slice(0, 24)}…` : "without VAPID", count(each.sent), count(each.delayed), count(each.refused),
  ]), "None");
  table($("bridges"), now.bridges.map((each) => [
    each.bridge, each.application || "–", each.is_open ? ["open: refuses at once", "bad"] : ["closed: works", "good"], count(each.failures),
  ]), "No bridge has been used");
}

function say(state, text) {
  const line = $("state");
  if (line.textContent !== text) line.textContent = text;
  line.dataset.state = state;
}

function open() {
  source = new EventSource("/console/now.events");
  source.addEventListener("history", (event) => {
    ({ columns, rows } = JSON.parse(event.data));
    drawHistory();
  });
  source.addEventListener("sample", (event) => {
    rows = [...rows, JSON.parse(event.data)].slice(-360);
    drawHistory();
  });
  source.addEventListener("now", (event) => { show(JSON.parse(event.data)); say("live", "live"); });
  source.addEventListener("error", async () => {
    say("lost", "no connection; trying again …");
    if (source?.readyState !== EventSource.CLOSED) return;
    close();
    const status = await fetch("/console/now.json", { method: "HEAD" }).then((answer) => answer.status, () => 0);
    if (status === 401) location.assign("/console/log-in");
    else setTimeout(() => { if (!source && !document.hidden) open(); }, 3000);
  });
}

function close() {
  source?.close();
  source = before = null;
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) { close(); say("paused", "paused while hidden"); } else if (!source) open();
});
drawHistory();
if (!document.hidden) open();
