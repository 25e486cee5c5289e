/**
 * The panel in which a visitor subscribes to notifications about new weekly reports.
 *
 * Rule: whatever keeps the browser from it is said in words, with what can be done about it.
 */

const SUBSCRIPTIONS = "/notifications/subscriptions";
const BROWSER_PATIENCE = 20_000; // ms; a browser without its push service may never answer

const panel = document.querySelector("#notify");
const state = panel.querySelector("[role=status]");
const buttons = {
  subscribe: panel.querySelector("#notify-subscribe"),
  unsubscribe: panel.querySelector("#notify-unsubscribe"),
};

class Trouble extends Error {}

panel.hidden = false;
const reason = missing();
if (reason) {
  say("impossible", reason);
} else {
  buttons.subscribe.addEventListener("click", () => run(subscribe));
  buttons.unsubscribe.addEventListener("click", () => run(unsubscribe));
  navigator.serviceWorker.addEventListener("message", () => run(resume));
  await run(resume);
}

/** Why this browser cannot be notified at all, or "". */
function missing() {
  if (!isSecureContext) {
    return `Browsers allow notifications only over https://, or at http://localhost and http://127.0.0.1 on the machine that the dashboard runs on. This page is at ${location.origin}.`;
  }
  if (!("serviceWorker" in navigator)) {
    return "Service workers are not available: use a normal window, not a private one, and allow site data.";
  }
  if (!("PushManager" in window) || !("Notification" in window)) {
    return "This browser does not support push messages here. On an iPhone or iPad, add the page to the home screen first.";
  }
  return "";
}

/** One thing at a time; the buttons keep the focus meanwhile. */
async function run(action) {
  if (panel.getAttribute("aria-busy") === "true") return;
  panel.setAttribute("aria-busy", "true");
  try {
    await action();
  } catch (error) {
    say("failed", error instanceof Trouble ? error.message : `That did not work: ${error.message}`);
  } finally {
    panel.setAttribute("aria-busy", "false");
  }
}

/** Take up what an earlier visit left. */
async function resume() {
  show(false, "");
  if (Notification.permission === "denied") throw denied();
  const registration = await navigator.serviceWorker.getRegistration("/");
  const found = registration && (await inTime(registration.pushManager.getSubscription()));
  if (!found) return;
  show(true, "This browser gets notifications.");
  const key = await serverKey();
  if (madeWith(found, key)) return tell("POST", found);
  // The dashboard has another key now, and nothing sent with that arrives at the old subscription.
  await drop(found);
  await make(registration, key);
}

async function subscribe() {
  say("busy", "Your browser asks whether this page may show notifications …");
  const permission = await Notification.requestPermission();
  if (permission === "denied") throw denied();
  if (permission !== "granted") {
    throw new Trouble("The question was closed without an answer. Press Subscribe again and choose Allow.");
  }
  say("busy", "Subscribing …");
  const key = await serverKey();
  const registration = await worker();
  const found = await inTime(registration.pushManager.getSubscription());
  if (found && !madeWith(found, key)) await drop(found);
  await make(registration, key);
  show(true, "Subscribed: this browser gets a notification when there is a new weekly report.");
  buttons.unsubscribe.focus();
}

async function make(registration, key) {
  let made;
  try {
    made = await inTime(
      registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key }),
    );
  } catch (error) {
    if (error instanceof Trouble) throw error;
    if (error.name === "NotAllowedError") throw denied();
    throw new Trouble(
      `The browser got no subscription from its push service (${error.message}). It may be switched off, or blocked on this network.`,
    );
  }
  try {
    await tell("POST", made);
  } catch (error) {
    await made.unsubscribe();
    throw error;
  }
}

async function unsubscribe() {
  say("busy", "Unsubscribing …");
  const registration = await navigator.serviceWorker.getRegistration("/");
  const found = registration && (await inTime(registration.pushManager.getSubscription()));
  if (found) await drop(found);
  show(false, "Unsubscribed.");
  buttons.subscribe.focus();
}

async function drop(found) {
  // Should the dashboard not hear of it, its next message finds nobody, and it forgets by itself.
  await Promise.allSettled([tell("DELETE", { endpoint: found.endpoint })]);
  await inTime(found.unsubscribe());
}

async function worker() {
  try {
    await navigator.serviceWorker.register("/worker.js", { updateViaCache: "none" });
  } catch (error) {
    throw new Trouble(`The service worker could not be started: ${error.message} There is none in private windows or where site data is blocked.`);
  }
  return inTime(navigator.serviceWorker.ready);
}

async function serverKey() {
  return (await ask("/notifications/key")).key;
}

function tell(method, document) {
  const headers = { "Content-Type": "application/json" };
  return ask(SUBSCRIPTIONS, { method, headers, body: JSON.stringify(document) });
}

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(path, { ...options, cache: "no-store" });
  } catch {
    throw new Trouble("The dashboard does not answer. Is it still running?");
  }
  const content = await answer.json().catch(() => null);
  if (!answer.ok) {
    throw new Trouble(`The dashboard refused this (${answer.status})${content?.error ? `: ${content.error}.` : "."}`);
  }
  return content;
}

function madeWith(subscription, key) {
  const own = subscription.options?.applicationServerKey;
  if (!own) return false;
  const text = btoa(String.fromCharCode(...new Uint8Array(own)));
  return text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "") === key;
}

function denied() {
  return new Trouble("Notifications are blocked for this page. Allow them in the page settings beside the address, then try again.");
}

/** A promise of the browser, or a Trouble when it takes too long. */
function inTime(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    const words = "The browser cannot reach its push service yet. This can take some seconds after the browser starts; try again.";
    timer = setTimeout(() => reject(new Trouble(words)), BROWSER_PATIENCE);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function show(subscribed, words) {
  buttons.subscribe.hidden = subscribed;
  buttons.unsubscribe.hidden = !subscribed;
  say(subscribed ? "subscribed" : "unsubscribed", words);
}

function say(name, words) {
  panel.dataset.state = name;
  state.textContent = words;
}
