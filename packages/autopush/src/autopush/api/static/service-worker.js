/**
 * Receives push messages for the start page: posts each to every open page and shows a notification.
 *
 * Rule: a message is posted to the pages before anything that can fail. It is the JSON text
 * `{id, text}` when the page sent it, and any text or nothing when another program did.
 */

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("push", (event) => {
  const message = { kind: "message", receivedAt: Date.now(), ...read(event.data) };
  event.waitUntil(receive(message));
});

// The push service dropped the subscription (or the browser changed to another service).
self.addEventListener("pushsubscriptionchange", (event) => {
  event.waitUntil(tellPages({ kind: "subscription-changed" }));
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(showPage());
});

async function receive(message) {
  await tellPages(message);
  try {
    await self.registration.showNotification("autopush", {
      body: message.text || "(a message without text)",
      icon: "/start/icon.svg",
    });
    await tellPages({ kind: "notified", id: message.id });
  } catch (error) {
    await tellPages({ kind: "not-notified", id: message.id, reason: error.message || error.name });
  }
}

function read(data) {
  const text = data?.text() ?? "";
  try {
    const { id, text: inner } = JSON.parse(text);
    if (typeof id === "string" && typeof inner === "string") return { id, text: inner };
  } catch {
    // Not from the page: the text is shown as it is.
  }
  return { id: crypto.randomUUID(), text };
}

async function tellPages(message) {
  for (const page of await pages()) page.postMessage(message);
}

async function showPage() {
  const [page] = await pages();
  await (page ? page.focus() : self.clients.openWindow("/"));
}

function pages() {
  return self.clients.matchAll({ type: "window", includeUncontrolled: true });
}
