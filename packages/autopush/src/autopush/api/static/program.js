/** How a program sends to the subscription of this page, ready to be pasted into a shell. */

import { privateKeyText } from "./sender-key.js";

/** `subscription` as `PushSubscription.toJSON()` gives it; `keys` are the sender's. */
export async function pythonCommand({ endpoint, keys: theirs }, keys) {
  return [
    `python3 -c 'from pywebpush import webpush; print(webpush(`,
    `  {"endpoint": "${endpoint}",`,
    `   "keys": {"p256dh": "${theirs.p256dh}",`,
    `            "auth": "${theirs.auth}"}},`,
    `  "Hello from Python",`,
    `  ttl=60,`,
    `  vapid_private_key="${await privateKeyText(keys)}",`,
    `  vapid_claims={"sub": "mailto:you@example.com"}).status_code)'`,
  ].join("\n");
}
