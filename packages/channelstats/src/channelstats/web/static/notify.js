/**
 * The panel in which a visitor subscribes to notifications about new weekly reports.
 *
 * Rule: whatever keeps the browser from it is said in words, with what can be done about it.
 */

const BROWSER_TIMEOUT = 20_000; // ms; a browser without its push service may never answer
const DENIED = "Notifications are blocked for this page. Allow them in the page settings beside the address, then try again.";
const LATE = "The browser cannot reach its push service yet. This can take some seconds after the browser starts; try again.";

const panel = document.querySelector("#notify");
const words = panel.querySelector("[role=status]");
const subscribeButton = panel.querySelector("#notify-subscribe");
const unsubscribeButton = panel.querySelector("#notify-unsubscribe");

panel.hidden = false;
if (missing()) {
  say("impossible", missing());
} else {
  subscribeButton.addEventListener("click", () => run(subscribe));
  unsubscribeButton.addEventListener("click", () => run(unsubscribe));
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
    say("failed", error.message);
  } finally {
    panel.setAttribute("aria-busy", "false");
  }
}

/** Take up what an earlier visit left. */
async function resume() {
  show(false, "");
  if (Notification.permission === "denied") throw new Error(DENIED);
  const registration = await navigator.serviceWorker.getRegistration("/");
  if (!(await currentOf(registration))) return;
  show(true, "This browser gets notifications.");
  await subscribeWith(registration);
}

async function subscribe() {
  say("busy", "Your browser asks whether this page may show notifications …");
  const permission = await Notification.requestPermission();
  if (permission !== "granted") {
    throw new Error(permission === "denied" ? DENIED : "The question was closed without an answer. Press Subscribe again and choose Allow.");
  }
  say("busy", "Subscribing …");
  await navigator.serviceWorker.register("/worker.js", { updateViaCache: "none" });
  await subscribeWith(await inTime(navigator.serviceWorker.ready));
  show(true, "Subscribed: this browser gets a notification when there is a new weekly report.");
  unsubscribeButton.focus();
}

/** Subscribe, or keep the subscription that there is, unless it was made with another key. */
async function subscribeWith({ pushManager }) {
  const { key } = await ask("/notifications/key");
  const options = { userVisibleOnly: true, applicationServerKey: key };
  const old = await inTime(pushManager.getSubscription());
  const subscription = await inTime(pushManager.subscribe(options).catch(async (error) => {
    if (error.name !== "InvalidStateError") throw error;
    await drop(old);
    return pushManager.subscribe(options);
  }));
  try {
    await tell("POST", subscription);
  } catch (error) {
    if (subscription.endpoint !== old?.endpoint) await subscription.unsubscribe();
    throw error;
  }
}

async function unsubscribe() {
  say("busy", "Unsubscribing …");
  const subscription = await currentOf(await navigator.serviceWorker.getRegistration("/"));
  if (subscription) await drop(subscription);
  show(false, "Unsubscribed.");
  subscribeButton.focus();
}

async function drop(subscription) {
  // Should the dashboard not hear of it, its next message finds nobody, and it forgets by itself.
  await Promise.allSettled([tell("DELETE", { endpoint: subscription.endpoint })]);
  await inTime(subscription.unsubscribe());
}

function currentOf(registration) {
  return registration && inTime(registration.pushManager.getSubscription());
}

function tell(method, document) {
  const headers = { "Content-Type": "application/json" };
  return ask("/notifications/subscriptions", { method, headers, body: JSON.stringify(document) });
}

async function ask(path, options) {
  const answer = await fetch(path, { ...options, cache: "no-store" }).catch(() => {
    throw new Error("The dashboard does not answer. Is it still running?");
  });
  const content = await answer.json().catch(() => null);
  if (answer.ok) return content;
  throw new Error(`The dashboard refused this (${answer.status}): ${content?.error ?? "no reason"}.`);
}

/** What a browser answers, or an error when it takes too long or has no push service. */
async function inTime(promise) {
  const late = new Promise((_, reject) => setTimeout(reject, BROWSER_TIMEOUT, new Error(LATE)));
  return Promise.race([promise, late]).catch((error) => {
    if (error.name === "NotAllowedError") throw new Error(DENIED);
    if (error.message === LATE) throw error;
    throw new Error(`The browser got no subscription from its push service (${error.message}). It may be switched off, or blocked on this network.`);
  });
}

function show(subscribed, text) {
  subscribeButton.hidden = subscribed;
  unsubscribeButton.hidden = !subscribed;
  say(subscribed ? "subscribed" : "unsubscribed", text);
}

function say(state, text) {
  panel.dataset.state = state;
  words.textContent = text;
}
