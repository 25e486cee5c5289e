/**
 * The demo: subscribe, send, arrive.
 *
 * Rule: nothing is ever sent to an endpoint that is not of the server this page came from.
 */

import { Step, element, shorten } from "./steps.js";
import { pythonCommand } from "./program.js";
import { senderKeys } from "./sender-key.js";
import * as trouble from "./trouble.js";
import { MAX_PLAINTEXT, publicKeyBytes, pushRequest, toBase64url } from "./webpush.js";

const WORKER = "/service-worker.js";
const BROWSER_PATIENCE = 20_000; // ms; Firefox and Chromium may never answer
const ARRIVAL_TIMEOUT = 10_000; // ms until the page says that nothing came
const SHOWN_ARRIVALS = 5;

const own = document.documentElement.dataset.endpoint;
const page = {
  subscribe: document.querySelector("#subscribe"),
  unsubscribe: document.querySelector("#unsubscribe"),
  form: document.querySelector("#send-form"),
  message: document.querySelector("#message"),
  ttl: document.querySelector("#ttl"),
  urgency: document.querySelector("#urgency"),
  send: document.querySelector("#send"),
  arrivals: document.querySelector("#arrivals"),
  program: document.querySelector("#program"),
  programCode: document.querySelector("#program-code"),
};
const steps = {
  subscribe: new Step("#step-subscribe"),
  send: new Step("#step-send"),
  arrive: new Step("#step-arrive"),
};

let subscription = null;
let keys = null;
const sent = new Map(); // id of a message → when it was sent, on the page's clock (ms)
const arrived = new Map(); // id of a message → the line that shows it

await start();

async function start() {
  const wsAddress = document.querySelector("#websocket-url").textContent;
  document.querySelector(".insecure-only").hidden = wsAddress.startsWith("wss:");
  document.querySelector("#steps").hidden = false;
  steps.send.show("todo", "First subscribe.");
  steps.arrive.show("todo", "Nothing was sent yet.");
  const reason = trouble.missing();
  if (reason) {
    page.subscribe.disabled = true;
    fail(steps.subscribe, reason);
    return;
  }
  page.subscribe.addEventListener("click", () => run(steps.subscribe, page.subscribe, subscribe));
  page.unsubscribe.addEventListener("click", () =>
    run(steps.subscribe, page.unsubscribe, unsubscribe),
  );
  page.form.addEventListener("submit", (event) => {
    event.preventDefault();
    run(steps.send, page.send, send);
  });
  page.message.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) page.form.requestSubmit();
  });
  navigator.serviceWorker.addEventListener("message", ({ data }) => hear(data));
  await run(steps.subscribe, page.subscribe, resume);
}

/**
 * Do one thing at a time with a button, and put its failure into words. The button is not
 * `disabled` meanwhile: that would take the focus away from it.
 */
async function run(step, button, action) {
  if (button.getAttribute("aria-disabled") === "true") return;
  button.setAttribute("aria-disabled", "true");
  try {
    await action();
  } catch (error) {
    fail(step, error);
  } finally {
    button.removeAttribute("aria-disabled");
  }
}

function fail(step, error) {
  step.show("failed", error.message, error.advice);
}

// ---------------------------------------------------------------- subscribe

/** Take up the subscription of an earlier visit. */
async function resume() {
  keys = await senderKeys();
  if (Notification.permission === "denied") throw trouble.notAllowed("denied");
  steps.subscribe.show("todo", "This browser is not subscribed.", trouble.forecast());
  const registration = await navigator.serviceWorker.getRegistration("/");
  if (!registration) return;
  steps.subscribe.show("busy", "Looking for the subscription of your last visit …");
  const found = await inTime(registration.pushManager.getSubscription());
  if (found && (await madeWith(found))) await use(found);
  else forget("This browser is not subscribed.");
}

async function subscribe() {
  const step = steps.subscribe;
  step.clearResults();
  step.show("busy", "The browser asks whether this page may show notifications …");
  const permission = await Notification.requestPermission();
  if (permission !== "granted") throw trouble.notAllowed(permission);
  step.show("busy", "Starting the service worker …");
  const registration = await startWorker();
  step.show("busy", "The browser asks its push service for an endpoint …");
  try {
    await use(await inTime(newSubscription(registration.pushManager)));
  } catch (error) {
    throw trouble.subscribeFailed(error);
  } finally {
    // The button that was pressed may be gone.
    if (page.subscribe.hidden) (usable() ? page.message : page.unsubscribe).focus();
  }
}

async function startWorker() {
  try {
    await navigator.serviceWorker.register(WORKER, { updateViaCache: "none" });
  } catch (error) {
    throw trouble.workerFailed(error);
  }
  return navigator.serviceWorker.ready;
}

async function newSubscription(pushManager) {
  const found = await pushManager.getSubscription();
  if (found) {
    if (await madeWith(found)) return found;
    await found.unsubscribe(); // bound to a key that is lost
  }
  return pushManager.subscribe({
    userVisibleOnly: true,
    applicationServerKey: await publicKeyBytes(keys),
  });
}

async function madeWith(found) {
  const key = found.options?.applicationServerKey;
  return key && toBase64url(new Uint8Array(key)) === toBase64url(await publicKeyBytes(keys));
}

async function use(found) {
  subscription = found;
  const { host } = new URL(found.endpoint);
  const reason = trouble.foreign(found.endpoint, own);
  const step = steps.subscribe;
  step.clearResults();
  step.result("Notifications", Notification.permission === "granted" ? "allowed" : "not allowed");
  step.result("Service worker", "running");
  step.result("Push service", `${host}${reason ? "" : ", this server"}`);
  step.result("Endpoint", shorten(found.endpoint, 27, 6), found.endpoint);
  page.subscribe.hidden = true;
  page.unsubscribe.hidden = false;
  if (reason) throw reason;
  step.show("done", "Subscribed at this server.");
  steps.send.show("todo", "Ready.");
  page.send.disabled = false;
  page.programCode.textContent = await pythonCommand(found.toJSON(), keys);
  page.program.hidden = false;
}

async function unsubscribe() {
  steps.subscribe.show("busy", "Unsubscribing …");
  await inTime(subscription.unsubscribe());
  forget("Unsubscribed.");
  page.subscribe.focus();
}

function forget(words) {
  subscription = null;
  steps.subscribe.clearResults();
  steps.subscribe.show("todo", words);
  steps.send.clearResults();
  steps.send.show("todo", "First subscribe.");
  page.subscribe.hidden = false;
  page.unsubscribe.hidden = true;
  page.send.disabled = true;
  page.program.hidden = true;
}

function usable() {
  return subscription !== null && !trouble.foreign(subscription.endpoint, own);
}

// ---------------------------------------------------------------- send

async function send() {
  if (!usable()) throw trouble.notSubscribed();
  const step = steps.send;
  step.clearResults();
  const id = crypto.randomUUID();
  const text = JSON.stringify({ id, text: page.message.value });
  const plaintext = new TextEncoder().encode(text);
  if (plaintext.length > MAX_PLAINTEXT) throw trouble.tooLong(plaintext.length, MAX_PLAINTEXT);

  step.show("busy", "Encrypting and sending …");
  const ttl = Number(page.ttl.value);
  const options = { keys, ttl, urgency: page.urgency.value };
  const request = await pushRequest(subscription.toJSON(), plaintext, options);
  const size = (await request.clone().arrayBuffer()).byteLength;
  steps.arrive.show("busy", "Waiting for the message …");
  sent.set(id, performance.now());
  try {
    await post(request, size);
  } catch (error) {
    sent.delete(id);
    steps.arrive.show("todo", "The message was not taken.");
    throw error;
  }
  setTimeout(() => missed(id, ttl), ARRIVAL_TIMEOUT);
}

async function post(request, size) {
  const begun = performance.now();
  let answer;
  try {
    answer = await fetch(request);
  } catch {
    throw trouble.unreachable(request.url);
  }
  const took = performance.now() - begun;
  const body = await answer.json().catch(() => null);
  if (!answer.ok) throw trouble.refused(answer.status, body);
  const step = steps.send;
  step.show("done", "The server took the message.");
  const status = `${answer.status} ${answer.statusText}`.trim(); // HTTP/2 has no words for it
  step.result("Answer", `${status}, after ${milliseconds(took)}`);
  step.result("Body", `${size} bytes, encrypted in this page (aes128gcm)`);
  const id = body?.["message-id"] ?? answer.headers.get("Location")?.split("/").at(-1);
  if (id) step.result("Message id", shorten(id, 27, 6), id);
}

function missed(id, ttl) {
  if (!sent.has(id)) return;
  steps.arrive.show(
    "failed",
    `Nothing arrived within ${ARRIVAL_TIMEOUT / 1000} seconds.`,
    ttl === 0
      ? "The server took the message, but the browser was not connected at that moment. Keep it for a minute, and send again."
      : "The server keeps the message. Firefox may be connecting again, which takes from seconds to minutes: leave this page open.",
  );
}

// ---------------------------------------------------------------- arrive

function hear(message) {
  if (message.kind === "message") arrive(message);
  if (message.kind === "notified") mark(message.id, "shown as a notification");
  if (message.kind === "not-notified") mark(message.id, `not shown as a notification (${message.reason})`);
  if (message.kind === "subscription-changed" && subscription) {
    forget("The browser dropped the subscription: its push service changed or forgot it.");
  }
}

function arrive({ id, text, receivedAt }) {
  const begun = sent.get(id);
  sent.delete(id);
  const mine = begun !== undefined;
  const words = mine
    ? `Arrived, ${milliseconds(performance.now() - begun)} after it was sent.`
    : "A message from elsewhere arrived.";
  steps.arrive.show("done", words);

  const line = document.createElement("li");
  line.append(
    element("p", "text", text || "(no text)"),
    element("p", "why", `${clockTime(receivedAt)} · decrypted by the browser`),
  );
  page.arrivals.prepend(line);
  arrived.set(id, line);
  while (page.arrivals.children.length > SHOWN_ARRIVALS) page.arrivals.lastElementChild.remove();
}

function mark(id, words) {
  arrived.get(id)?.lastElementChild.append(` · ${words}`);
  arrived.delete(id);
}

// ---------------------------------------------------------------- the rest

/** A promise of the browser, or a Trouble when it takes too long. */
function inTime(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(trouble.noAnswer()), BROWSER_PATIENCE);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function milliseconds(span) {
  return `${span < 10 ? span.toFixed(1) : Math.round(span)} ms`;
}

function clockTime(when) {
  return new Date(when).toLocaleTimeString([], { hour12: false });
}
