// The page Accounts: users, their quotas and ends, new links, and the end of one.
import { confirmed, post } from "./requests.js";
import { count, row, table } from "./shown.js";

const $ = (id) => document.getElementById(id);
let devices = null;

const date = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 10);

function button(text, label, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "copy";
  made.textContent = text;
  made.setAttribute("aria-label", label);
  made.addEventListener("click", () => act().catch((error) => { $("said").textContent = error.message; }));
  return made;
}

function invite({ name, link, qr }) {
  $("invitation-title").textContent = `The link of ${name}`;
  $("link").textContent = link;
  const code = new DOMParser().parseFromString(qr, "text/html").querySelector("svg");
  code.setAttribute("role", "img");
  code.setAttribute("aria-label", `QR code of the link of ${name}`);
  $("code").replaceChildren(code);
  $("invitation").showModal();
}

async function change(action, name, fields = {}) {
  $("said").textContent = "";
  const answer = await post("accounts-change.json", { action, name, ...fields });
  if (answer.link) invite(answer);
  await list();
}

async function renew(name) {
  const consequence = "Whoever has the former link cannot connect with it any more; devices that have connected go on.";
  if (await confirmed(`A new link for ${name}?`, consequence, "New link", "primary")) await change("renew", name);
}

async function revoke(name) {
  const consequence = "Its sessions end, and its devices are admitted no more. This cannot be undone.";
  if (await confirmed(`Revoke ${name}?`, consequence, "Revoke")) await change("revoke", name);
}

async function ask(label, value, most, question, consequence) {
  $("number-label").textContent = label;
  $("number").value = value;
  $("number").max = most;
  $("ask").hidden = false;
  const isSure = await confirmed(question, consequence, "Set", "primary");
  $("ask").hidden = true;
  return isSure ? $("number").value : null;
}

async function quota({ name, connections }) {
  const wanted = await ask("Connections at once, 0 for any", connections, 1_000_000,
    `The quota of ${name}`, "At each node, of all devices together. Open connections stay.");
  if (wanted !== null) await change("quota", name, { connections: wanted });
}

async function expire({ name, expires_at: ends }) {
  const left = ends ? Math.max(1, Math.ceil((ends - Date.now() / 1000) / 86_400)) : 0;
  const wanted = await ask("Days from now, 0 for never", left, 36_500,
    `The end of ${name}`, "From then on its sessions end and its devices are not admitted, until it gets another end.");
  if (wanted !== null) await change("expire", name, { days: wanted });
}

async function list() {
  const answer = await fetch("/console/accounts.json");
  if (answer.status === 401) location.assign("/console/log-in");
  if (!answer.ok) throw new Error((await answer.json()).error);
  const { required, accounts, most } = await answer.json();
  $("required").textContent = required ? "Only these users connect." : "accounts_required is off: everybody may connect.";
  $("total").textContent = `${count(accounts.length)} of at most ${count(most)}.`;
  table($("users"), [], "No user yet");
  if (!accounts.length) return;
  $("users").replaceChildren(...accounts.map((each) => {
    const line = row("td", "tr", [
      each.name, each.connections ? `${count(each.connections)} at once` : "none",
      each.expires_at ? [date(each.expires_at), each.has_expired ? "bad" : ""] : "never",
      devices ? count(devices[each.name] ?? 0) : "–", date(each.created_at),
    ]);
    const cell = document.createElement("td");
    cell.className = "act-only actions";
    cell.append(
      button("New link", `New link for ${each.name}`, () => renew(each.name)),
      button("Quota", `Quota of ${each.name}`, () => quota(each)),
      button("End", `End of ${each.name}`, () => expire(each)),
      button("Revoke", `Revoke ${each.name}`, () => revoke(each.name)));
    line.firstChild.after(cell);
    return line;
  }));
}

$("add").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    await change("add", $("name").value, { connections: $("connections").value, days: $("days").value });
    $("name").value = "";
  } catch (error) {
    $("said").textContent = error.message;
  }
});
$("count").addEventListener("click", async () => {
  $("said").textContent = "";
  try {
    ({ devices } = await post("accounts-devices.json"));
    await list();
  } catch (error) {
    $("said").textContent = error.message;
  }
});
$("copy").addEventListener("click", () => navigator.clipboard?.writeText($("link").textContent)
  .then(() => { $("copy").textContent = "Copied"; }));
$("done").addEventListener("click", () => $("invitation").close());
$("invitation").addEventListener("close", () => {
  $("link").textContent = "";
  $("code").replaceChildren();
  $("copy").textContent = "Copy the link";
});
list().catch((error) => { $("said").textContent = error.message; });
