// `fetch` of the web (WHATWG Fetch) over the SDK's HTTP: `build.mjs` puts this file into a component that uses one of its names.
// Bodies are whole: there are no streams, blobs or forms.
import { http } from "./sdk.js";
import { AbortSignal } from "./signal.js";
import { URL, URLSearchParams } from "./url.js";

const REDIRECTS = [301, 302, 303, 307, 308];
const MOST_REDIRECTS = 20;
const WITHOUT_BODY = [204, 205, 304];

/** `fetch` of the web, over `http.request`. A request that the host refuses is a `ToolError` with the reason. */
export async function fetch(resource, options) {
  const request = new Request(resource, options);
  request.signal.throwIfAborted();
  const aborted = new Promise((_, reject) => request.signal.addEventListener("abort", () => reject(request.signal.reason)));
  const body = new Uint8Array(await request.arrayBuffer());
  let asked = { url: request.url, method: request.method, headers: Object.fromEntries(request.headers), body: body.length ? body : undefined };
  for (let redirects = 0; ; redirects++) {
    const { status, headers, bytes } = await Promise.race([http.request(asked.url, asked), aborted]);
    const location = REDIRECTS.includes(status) && request.redirect !== "manual" && headers.location;
    if (!location) {
      const response = new Response(WITHOUT_BODY.includes(status) ? null : bytes, { status, headers });
      return Object.defineProperties(response, { url: { value: asked.url }, redirected: { value: redirects > 0 } });
    }
    if (request.redirect === "error" || redirects === MOST_REDIRECTS) throw new TypeError(`\`${asked.url}\` redirects to \`${location}\``);
    asked = redirected(asked, status, location);
  }
}

/** The next request of a redirect (WHATWG Fetch, 4.5): another origin does not get the credentials of the first. */
function redirected({ url, method, headers, body }, status, location) {
  const next = new URL(location, url);
  const isOther = next.origin !== new URL(url).origin;
  const becomesGet = (status === 303 && method !== "HEAD") || (status < 303 && method === "POST");
  const dropped = [...(isOther ? ["authorization", "cookie"] : []), ...(becomesGet ? ["content-type"] : [])];
  const kept = Object.entries(headers).filter(([name]) => !dropped.includes(name));
  return { url: next.href, method: becomesGet ? "GET" : method, headers: Object.fromEntries(kept), body: becomesGet ? undefined : body };
}

export class Headers {
  #fields = new Map();
  constructor(fields = []) {
    const pairs = typeof fields[Symbol.iterator] === "function" ? fields : Object.entries(fields);
    for (const [name, value] of pairs) this.append(name, value);
  }
  append(name, value) {
    const before = this.get(name);
    this.set(name, before === null ? value : `${before}, ${value}`);
  }
  set(name, value) {
    this.#fields.set(String(name).toLowerCase(), String(value).trim());
  }
  get(name) {
    return this.#fields.get(String(name).toLowerCase()) ?? null;
  }
  has(name) {
    return this.get(name) !== null;
  }
  delete(name) {
    this.#fields.delete(String(name).toLowerCase());
  }
  forEach(act) {
    for (const [name, value] of this) act(value, name, this);
  }
  entries() {
    return [...this.#fields].sort(([one], [other]) => (one < other ? -1 : 1)).values();
  }
  *keys() {
    for (const [name] of this) yield name;
  }
  *values() {
    for (const [, value] of this) yield value;
  }
  [Symbol.iterator]() {
    return this.entries();
  }
}

function bytesOf(body) {
  if (body == null) return new Uint8Array();
  if (body instanceof ArrayBuffer) return new Uint8Array(body.slice(0));
  if (ArrayBuffer.isView(body)) return new Uint8Array(body.buffer.slice(body.byteOffset, body.byteOffset + body.byteLength));
  if (typeof body === "object" && !(body instanceof URLSearchParams)) {
    throw new TypeError("a body is text, bytes or URLSearchParams here");
  }
  return new TextEncoder().encode(String(body));
}

const CONTENT = Symbol("content");

class Body {
  bodyUsed = false;
  constructor(body, headers) {
    this[CONTENT] = bytesOf(body);
    this.headers = new Headers(headers);
    const isForm = body instanceof URLSearchParams;
    if ((isForm || typeof body === "string") && !this.headers.has("content-type")) {
      this.headers.set("content-type", isForm ? "application/x-www-form-urlencoded;charset=UTF-8" : "text/plain;charset=UTF-8");
    }
  }
  async bytes() {
    if (this.bodyUsed) throw new TypeError("the body was read before: `clone()` it to read it twice");
    this.bodyUsed = true;
    return this[CONTENT];
  }
  async arrayBuffer() {
    return bytesOf(await this.bytes()).buffer;
  }
  async text() {
    return new TextDecoder().decode(await this.bytes());
  }
  async json() {
    return JSON.parse(await this.text());
  }
}

export class Response extends Body {
  constructor(body = null, { status = 200, statusText = "", headers } = {}) {
    super(body, headers);
    Object.assign(this, { status, statusText, ok: status >= 200 && status < 300, url: "", redirected: false, type: "default" });
  }
  static json(value, options = {}) {
    const headers = new Headers(options.headers);
    if (!headers.has("content-type")) headers.set("content-type", "application/json");
    return new Response(JSON.stringify(value), { ...options, headers });
  }
  static error() {
    return Object.assign(new Response(), { status: 0, ok: false, type: "error" });
  }
  clone() {
    return Object.assign(new Response(this[CONTENT], this), { url: this.url, redirected: this.redirected });
  }
}

export class Request extends Body {
  constructor(resource, options = {}) {
    const from = resource instanceof Request ? resource : {};
    const { method = "GET", headers, redirect = "follow", signal = new AbortSignal(), body = from[CONTENT] } = { ...from, ...options };
    super(body, headers);
    const name = String(method).toUpperCase();
    if (options.body != null && (name === "GET" || name === "HEAD")) throw new TypeError(`a request with ${name} has no body`);
    Object.assign(this, { url: from.url ?? new URL(resource).href, method: name, redirect, signal: signal ?? new AbortSignal() });
  }
  clone() {
    return new Request(this);
  }
}
