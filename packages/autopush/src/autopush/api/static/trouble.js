/**
 * What can go wrong in the demo, in words: what happened, and what to do about it.
 *
 * Rule: every failure a visitor can meet ends in a `Trouble` made here.
 */

const FIREFOX = navigator.userAgent.includes("Firefox/");
const STEPS = { href: "#firefox", link: "Point Firefox at it" };
/** What to add where this server admits users with a token only; the browser does not say so. */
const TOKEN =
  document.documentElement.dataset.accounts === "required"
    ? " This server admits users with a token only: dom.push.serverURL must end with yours."
    : "";
const MAKERS = {
  "push.services.mozilla.com": "Mozilla’s push service",
  "googleapis.com": "Google’s push service",
  "push.apple.com": "Apple’s push service",
  "notify.windows.com": "Microsoft’s push service",
};

export class Trouble extends Error {
  constructor(words, advice) {
    super(words);
    this.advice = advice;
  }
}

/** Why this browser cannot take part at all, or null. */
export function missing() {
  if (!isSecureContext) {
    return new Trouble(
      `Push needs a secure context, and ${location.origin} is none.`,
      "Open this page at https://, or, on the machine the server runs on, at http://localhost or http://127.0.0.1.",
    );
  }
  if (!("serviceWorker" in navigator)) {
    return new Trouble(
      "There are no service workers here.",
      FIREFOX
        ? "This may be a private window, or Firefox deletes cookies and site data when it is closed. Use an ordinary window and allow site data for this address."
        : "Use an ordinary window (not a private one) of an up-to-date browser.",
    );
  }
  if (!("PushManager" in window) || !("Notification" in window)) {
    return new Trouble(
      "This browser has no Push API here.",
      FIREFOX
        ? "In about:config, dom.push.enabled and dom.webnotifications.enabled must be true."
        : "On an iPhone or iPad, only pages added to the home screen have it. Elsewhere, use an up-to-date Firefox.",
    );
  }
  return null;
}

/** What to know before subscribing: only Firefox can use this server. Nothing for Firefox itself. */
export function forecast() {
  return FIREFOX
    ? undefined
    : { text: "Only Firefox can be pointed at this server. This browser will ask its maker’s push service; you will see that, and nothing will be sent there.", ...STEPS };
}

/** The visitor, or the browser on its own, said no to notifications. */
export function notAllowed(permission) {
  if (permission === "denied") {
    return new Trouble(
      "Notifications are blocked for this address.",
      "Allow them with the symbol at the left of the address bar. If this is a private window, use an ordinary one.",
    );
  }
  return new Trouble(
    "The question about notifications was closed without an answer.",
    "Press Subscribe again and choose Allow.",
  );
}

export function workerFailed(error) {
  return new Trouble(
    `The service worker could not be started: ${error.message}`,
    "Reload the page. In Firefox, a private window or blocked site data is the usual reason.",
  );
}

/** The browser did not answer in time; it does not say so itself. */
export function noAnswer() {
  return new Trouble(
    "The browser did not answer: it does not reach its push service.",
    FIREFOX
      ? { text: `Just after the start Firefox takes some seconds: reload and try again.${TOKEN} Then check the settings, and that the server is running:`, ...STEPS }
      : { text: "Its maker’s push service must be reachable for that. To use this server, open the page in Firefox:", ...STEPS },
  );
}

export function subscribeFailed(error) {
  if (error instanceof Trouble) return error;
  if (error.name === "NotAllowedError") return notAllowed("denied");
  return new Trouble(
    `The browser could not subscribe: ${error.message}`,
    FIREFOX
      ? { text: `It does not reach the server of its settings, or that refused.${TOKEN} Check them, and that dom.push.connection.enabled is true:`, ...STEPS }
      : { text: "To use this server, open the page in Firefox:", ...STEPS },
  );
}

/** Null when the subscription is one of this server; otherwise whose it is and what to do. */
export function foreign(endpoint, own) {
  const url = new URL(endpoint);
  if (url.origin === new URL(own).origin) return null;
  const maker = Object.entries(MAKERS).find(([host]) => `.${url.hostname}`.endsWith(`.${host}`));
  return new Trouble(
    `This browser uses ${url.host}${maker ? ` (${maker[1]})` : ""}, not this server.`,
    FIREFOX
      ? { text: "Nothing was sent there. Unsubscribe, then", ...STEPS, link: "point Firefox at this server." }
      : { text: "Nothing was sent there, and this browser cannot be pointed elsewhere. Unsubscribe, open this page in Firefox and", ...STEPS, link: "point that at this server." },
  );
}

export function notSubscribed() {
  return new Trouble("This browser is not subscribed at this server.", "First press Subscribe.");
}

export function tooLong(length, limit) {
  return new Trouble(
    `The message is too long by ${length - limit} bytes.`,
    "A push message has at most 4096 bytes after encryption.",
  );
}

export function unreachable(endpoint) {
  return new Trouble(
    `The message did not get to ${new URL(endpoint).origin}.`,
    "Is the server still running? Was it started with no_cors? Then pages of other addresses may not send to it.",
  );
}

const ADVICE = {
  401: "If the message speaks of time, compare the clocks of the two machines. Otherwise unsubscribe, and subscribe again.",
  404: "The server cannot read this endpoint, perhaps it has new keys. Unsubscribe, and subscribe again.",
  410: "The server does not know this subscription any more. Unsubscribe, and subscribe again.",
  413: "Send a shorter message.",
  503: "The server is busy. Try again in a moment.",
};

/** The server answered with an error; `document` is its JSON, or null. */
export function refused(status, document) {
  const number = document?.errno ? `, error ${document.errno}` : "";
  const words = document?.message ? `: ${document.message}` : "";
  return new Trouble(
    `The server refused the message (${status}${number})${words}`,
    {
      text: ADVICE[status] ?? "The log of the server tells more.",
      href: document?.more_info?.match(/^https?:\/\//) && document.more_info,
      link: "What this error means",
    },
  );
}
