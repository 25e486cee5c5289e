/**
 * The service worker of the dashboard: shows that a weekly report is there, and opens it.
 *
 * Rule: every push shows a notification, whatever it holds: browsers take subscriptions away from
 * workers that stay silent. Only pages of this dashboard are opened.
 */

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("push", (event) => event.waitUntil(show(event.data)));
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data?.url));
});
self.addEventListener("pushsubscriptionchange", (event) => event.waitUntil(renew(event)));

function show(data) {
  let content;
  try {
    content = data?.json();
  } catch {
    content = null; // not from this dashboard, and yet something has to be shown
  }
  const { title = "A new weekly report is ready", body = "", url = "/" } = content ?? {};
  return self.registration.showNotification(title, {
    body,
    icon: "/notifications/icon.png",
    tag: "weekly-report", // a newer one takes the place of one that was not looked at
    data: { url },
  });
}

async function open(path) {
  const asked = new URL(path ?? "/", self.location.origin);
  const url = asked.origin === self.location.origin ? asked.href : `${self.location.origin}/`;
  const pages = await self.clients.matchAll({ type: "window" });
  const page = pages.find((candidate) => candidate.url === url);
  await (page ? page.focus() : self.clients.openWindow(url));
}

/** The browser changed its subscription by itself, or lost it. */
async function renew({ oldSubscription, newSubscription }) {
  if (oldSubscription) await tell("DELETE", { endpoint: oldSubscription.endpoint });
  const { key } = await (await fetch("/notifications/key")).json();
  const options = { userVisibleOnly: true, applicationServerKey: key };
  await tell("POST", newSubscription ?? (await self.registration.pushManager.subscribe(options)));
  const pages = await self.clients.matchAll({ type: "window" });
  for (const page of pages) page.postMessage("subscription renewed");
}

function tell(method, document) {
  const headers = { "Content-Type": "application/json" };
  return fetch("/notifications/subscriptions", { method, headers, body: JSON.stringify(document) });
}
