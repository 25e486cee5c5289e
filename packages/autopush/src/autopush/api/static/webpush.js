/**
 * A Web Push sender on WebCrypto alone: message encryption (RFC 8291) and VAPID (RFC 8292).
 *
 * Rule: values in, values out. Nothing here reads the page, keeps a key or uses the network.
 *
 * Keys of the sender are `CryptoKeyPair`s for ECDSA on P-256 (`newSenderKeys`); a subscription is
 * what `PushSubscription.toJSON()` gives: `{endpoint, keys: {p256dh, auth}}`.
 */

/** Bytes of plaintext that make a body of 4096 bytes, the most every push service takes. */
export const MAX_PLAINTEXT = 3993;

const RECORD_SIZE = 4096;
const LAST_RECORD = 2; // the delimiter of RFC 8188, section 2, which starts the padding
const TOKEN_LIFETIME = 12 * 60 * 60; // seconds; RFC 8292 allows 24 hours
const SIGNING = { name: "ECDSA", namedCurve: "P-256" };
const AGREEMENT = { name: "ECDH", namedCurve: "P-256" };

const utf8 = new TextEncoder();

/** A new key pair for signing. The private key can be exported, so that the page may keep it. */
export function newSenderKeys() {
  return crypto.subtle.generateKey(SIGNING, true, ["sign", "verify"]);
}

/** The public key as `pushManager.subscribe()` takes it: an uncompressed point of 65 bytes. */
export async function publicKeyBytes(keys) {
  return new Uint8Array(await crypto.subtle.exportKey("raw", keys.publicKey));
}

/**
 * The HTTP request that sends `plaintext` (bytes) to a subscription (RFC 8030, section 5).
 *
 * `ttl` is in seconds, `urgency` one of very-low, low, normal, high.
 */
export async function pushRequest(subscription, plaintext, { keys, ttl, urgency = "normal" }) {
  return new Request(subscription.endpoint, {
    method: "POST",
    headers: {
      Authorization: await vapid(subscription.endpoint, keys),
      "Content-Encoding": "aes128gcm",
      "Content-Type": "application/octet-stream",
      TTL: String(ttl),
      Urgency: urgency,
    },
    body: await encrypt(plaintext, subscription.keys),
    credentials: "omit",
    cache: "no-store",
  });
}

/**
 * Encrypt bytes for a user agent: one aes128gcm record (RFC 8291, section 3.4).
 *
 * `salt` (16 bytes) and `ephemeral` (an ECDH key pair) are fresh for each message; only a test
 * vector gives them.
 */
export async function encrypt(plaintext, { p256dh, auth }, { salt, ephemeral } = {}) {
  if (plaintext.length > MAX_PLAINTEXT) {
    throw new RangeError(`the message has ${plaintext.length} bytes, at most ${MAX_PLAINTEXT} fit`);
  }
  salt ??= crypto.getRandomValues(new Uint8Array(16));
  ephemeral ??= await crypto.subtle.generateKey(AGREEMENT, false, ["deriveBits"]);
  const theirs = fromBase64url(p256dh);
  const ours = new Uint8Array(await crypto.subtle.exportKey("raw", ephemeral.publicKey));

  const theirKey = await crypto.subtle.importKey("raw", theirs, AGREEMENT, false, []);
  const shared = await crypto.subtle.deriveBits(
    { name: "ECDH", public: theirKey },
    ephemeral.privateKey,
    256,
  );
  const info = concat(utf8.encode("WebPush: info\0"), theirs, ours);
  const input = await hkdf(fromBase64url(auth), shared, info, 32);
  const contentKey = await hkdf(salt, input, utf8.encode("Content-Encoding: aes128gcm\0"), 16);
  const nonce = await hkdf(salt, input, utf8.encode("Content-Encoding: nonce\0"), 12);

  const key = await crypto.subtle.importKey("raw", contentKey, "AES-GCM", false, ["encrypt"]);
  const record = await crypto.subtle.encrypt(
    { name: "AES-GCM", iv: nonce },
    key,
    concat(plaintext, [LAST_RECORD]),
  );
  return concat(salt, uint32(RECORD_SIZE), [ours.length], ours, new Uint8Array(record));
}

/** The Authorization header of RFC 8292. `now` is in seconds since the epoch. */
export async function vapid(endpoint, keys, now = Date.now() / 1000) {
  const claims = { aud: new URL(endpoint).origin, exp: Math.floor(now) + TOKEN_LIFETIME };
  const parts = [{ typ: "JWT", alg: "ES256" }, claims].map((part) =>
    toBase64url(utf8.encode(JSON.stringify(part))),
  );
  const signed = parts.join(".");
  // WebCrypto signs as r ‖ s, which is the form a JWT wants.
  const signature = await crypto.subtle.sign(
    { name: "ECDSA", hash: "SHA-256" },
    keys.privateKey,
    utf8.encode(signed),
  );
  const token = `${signed}.${toBase64url(new Uint8Array(signature))}`;
  return `vapid t=${token}, k=${toBase64url(await publicKeyBytes(keys))}`;
}

/** Bytes as base64url without padding. */
export function toBase64url(bytes) {
  const text = btoa(String.fromCharCode(...bytes));
  return text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/** The bytes of base64url text, padded or not. */
export function fromBase64url(text) {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/").replace(/=+$/, ""));
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}

async function hkdf(salt, input, info, length) {
  const key = await crypto.subtle.importKey("raw", input, "HKDF", false, ["deriveBits"]);
  const parameters = { name: "HKDF", hash: "SHA-256", salt, info };
  return new Uint8Array(await crypto.subtle.deriveBits(parameters, key, length * 8));
}

function uint32(number) {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, number);
  return bytes;
}

function concat(...parts) {
  return Uint8Array.from(parts.flatMap((part) => [...part]));
}
