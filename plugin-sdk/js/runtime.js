// Parts of a JavaScript environment that QuickJS does not have in a component: promises that run inside a call of a
// synchronous export, timers, `console`, UTF-8, and random numbers that differ between calls.
//
// `build.mjs` compiles `async` functions to generators that use the global `Promise`, since the engine runs jobs of its own
// promises only after an export has returned.
import random from "wasi:random/random@0.2.0";
import clock from "wasi:clocks/monotonic-clock@0.2.0";
import poll from "wasi:io/poll@0.2.0";
import hostLog from "toolgate:plugin/log@0.1.0";

const jobs = [];
const waits = new Map();
let lastWait = 0;

class Deferred {
  #state = "pending";
  #value;
  #reactions = [];

  constructor(executor) {
    const { resolve, reject } = this.#functions();
    try {
      executor(resolve, reject);
    } catch (error) {
      reject(error);
    }
  }
  // Only the first of the two functions that is called has an effect.
  #functions() {
    let isDone = false;
    const once = (settle) => (value) => {
      if (!isDone) {
        isDone = true;
        settle(value);
      }
    };
    return { resolve: once((value) => this.#resolve(value)), reject: once((error) => this.#settle("rejected", error)) };
  }
  #resolve(value) {
    if (value === this) return this.#settle("rejected", new TypeError("a promise cannot resolve to itself"));
    let then;
    try {
      then = Object(value) === value ? value.then : undefined;
    } catch (error) {
      return this.#settle("rejected", error);
    }
    if (typeof then !== "function") return this.#settle("fulfilled", value);
    const { resolve, reject } = this.#functions();
    jobs.push(() => {
      try {
        then.call(value, resolve, reject);
      } catch (error) {
        reject(error);
      }
    });
  }
  #settle(state, value) {
    this.#state = state;
    this.#value = value;
    jobs.push(...this.#reactions.splice(0));
  }
  then(onFulfilled, onRejected) {
    return new Deferred((resolve, reject) => {
      const react = () => {
        const isFulfilled = this.#state === "fulfilled";
        const handler = isFulfilled ? onFulfilled : onRejected;
        if (typeof handler !== "function") return (isFulfilled ? resolve : reject)(this.#value);
        try {
          resolve(handler(this.#value));
        } catch (error) {
          reject(error);
        }
      };
      (this.#state === "pending" ? this.#reactions : jobs).push(react);
    });
  }
  catch(onRejected) {
    return this.then(undefined, onRejected);
  }
  finally(act) {
    const after = (pass) => (value) => Deferred.resolve(act()).then(() => pass(value));
    return this.then(after((value) => value), after((error) => Deferred.reject(error)));
  }
  static resolve(value) {
    return value instanceof Deferred ? value : new Deferred((resolve) => resolve(value));
  }
  static reject(error) {
    return new Deferred((_, reject) => reject(error));
  }
  static withResolvers() {
    let functions;
    const promise = new Deferred((resolve, reject) => (functions = { resolve, reject }));
    return { promise, ...functions };
  }
  static all(values) {
    return new Deferred((resolve, reject) => {
      const results = [...values];
      let left = results.length;
      if (left === 0) resolve(results);
      results.forEach((value, at) => Deferred.resolve(value).then((result) => {
        results[at] = result;
        if (--left === 0) resolve(results);
      }, reject));
    });
  }
  static allSettled(values) {
    const entry = (status, key) => (value) => ({ status, [key]: value });
    return Deferred.all([...values].map((value) =>
      Deferred.resolve(value).then(entry("fulfilled", "value"), entry("rejected", "reason"))));
  }
  static race(values) {
    return new Deferred((resolve, reject) => {
      for (const value of values) Deferred.resolve(value).then(resolve, reject);
    });
  }
  static any(values) {
    const swap = (promise) => Deferred.resolve(promise).then((value) => Deferred.reject(value), (error) => error);
    return Deferred.all([...values].map(swap)).then(
      (errors) => Deferred.reject(new AggregateError(errors, "all promises were rejected")), (value) => value);
  }
}

/** Returns a promise that is fulfilled when a `pollable` is ready. */
export function ready(pollable) {
  return new Promise((resolve) => waits.set(++lastWait, { pollable, resolve }));
}

/** Runs jobs and waits until a promise is settled; returns its value or throws its error. */
export function settle(promise) {
  let outcome;
  promise.then((value) => (outcome = { value }), (error) => (outcome = { error, isError: true }));
  while (!outcome) {
    const job = jobs.shift();
    if (job) job();
    else if (waits.size) pollOnce();
    else throw new Error("the tool waits for a promise that nothing settles");
  }
  if (outcome.isError) throw outcome.error;
  return outcome.value;
}

function pollOnce() {
  const pending = [...waits];
  for (const at of poll.poll(pending.map(([, wait]) => wait.pollable))) {
    const [id, { pollable, resolve }] = pending[at];
    waits.delete(id);
    pollable[Symbol.dispose]();
    resolve();
  }
}

function setTimer(id, act, ms) {
  const nanoseconds = Math.max(0, Math.round(Number(ms) * 1e6)) || 0;
  waits.set(id, { pollable: clock.subscribeDuration(nanoseconds), resolve: () => jobs.push(act) });
  return id;
}

const setTimeout = (act, ms = 0, ...values) => setTimer(++lastWait, () => act(...values), ms);

function setInterval(act, ms = 0, ...values) {
  const id = ++lastWait;
  const next = () => setTimer(id, () => (next(), act(...values)), ms);
  return next();
}

const clearTimer = (id) => void waits.delete(id);

const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value) ?? String(value));
const printer = (level) => (...values) =>
  hostLog.write(level, "console", values.map(shown).join(" ").toWellFormed(), []);

class TextEncoder {
  encode(text = "") {
    return Uint8Array.from(unescape(encodeURIComponent(String(text).toWellFormed())), (byte) => byte.charCodeAt(0));
  }
}

class TextDecoder {
  decode(bytes = []) {
    let text = "";
    for (let at = 0; at < bytes.length; at += 4096) text += String.fromCharCode(...bytes.subarray(at, at + 4096));
    try {
      return decodeURIComponent(escape(text));
    } catch {
      throw new TypeError("the data is not UTF-8");
    }
  }
}

// While the component is built there is no host. Packages take random numbers there for names, which need not be secret.
const randomOfBuild = Math.random;
let isBuilt = false;
/** Ends the build: from now on random numbers are those of the call. */
export const endBuild = () => void (isBuilt = true);

Math.random = () => {
  if (!isBuilt) return randomOfBuild();
  const [high, low] = new Uint32Array(random.getRandomBytes(8).buffer);
  return ((high >>> 5) * 2 ** 26 + (low >>> 6)) / 2 ** 53;
};

function getRandomValues(array) {
  if (!isBuilt) throw new Error("secret random numbers are made in a call: the component is being built");
  new Uint8Array(array.buffer, array.byteOffset, array.byteLength).set(random.getRandomBytes(array.byteLength));
  return array;
}

function randomUUID() {
  const bytes = getRandomValues(new Uint8Array(16));
  // Version 4, and the variant of RFC 9562.
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const digits = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

Object.assign(globalThis, {
  self: globalThis,
  Promise: Deferred,
  queueMicrotask: (job) => void jobs.push(job),
  setTimeout,
  setInterval,
  clearTimeout: clearTimer,
  clearInterval: clearTimer,
  console: { debug: printer("debug"), log: printer("info"), info: printer("info"), warn: printer("warn"), error: printer("error") },
  TextEncoder,
  TextDecoder,
  crypto: { getRandomValues, randomUUID },
});
