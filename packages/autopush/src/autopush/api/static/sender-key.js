/**
 * The key pair this page signs its messages with, kept in the browser.
 *
 * Rule: a subscription is bound to the key it was made with, so the key outlives a reload; it never
 * leaves the browser by itself.
 */

import { newSenderKeys } from "./webpush.js";

const NAME = "autopush.sender-key";
const SIGNING = { name: "ECDSA", namedCurve: "P-256" };

/** The kept key pair; a new one when there is none, or none that can be read. */
export async function senderKeys() {
  return (await keptKeys()) ?? (await makeKeys());
}

/** The private key as libraries take it: base64url of its 32 bytes. */
export async function privateKeyText(keys) {
  return (await crypto.subtle.exportKey("jwk", keys.privateKey)).d;
}

async function keptKeys() {
  try {
    const jwk = JSON.parse(localStorage.getItem(NAME));
    if (!jwk) return null;
    const { d, ...open } = jwk;
    return {
      privateKey: await crypto.subtle.importKey("jwk", { ...open, d }, SIGNING, true, ["sign"]),
      publicKey: await crypto.subtle.importKey("jwk", open, SIGNING, true, ["verify"]),
    };
  } catch {
    return null; // storage is blocked, or holds something else: a new key serves as well
  }
}

async function makeKeys() {
  const keys = await newSenderKeys();
  const { kty, crv, x, y, d } = await crypto.subtle.exportKey("jwk", keys.privateKey);
  try {
    localStorage.setItem(NAME, JSON.stringify({ kty, crv, x, y, d }));
  } catch {
    // Storage is blocked. The key lasts until the page is closed; the next one makes a new subscription.
  }
  return keys;
}
