// Events and signals of the web (WHATWG DOM): `build.mjs` puts this file into a component that uses one of its names.

export class DOMException extends Error {
  constructor(message = "", name = "Error") {
    super(message);
    Object.defineProperty(this, "name", { value: name });
  }
}

export class Event {
  constructor(type) {
    this.type = String(type);
  }
}

export class EventTarget {
  #listeners = [];
  addEventListener(type, act, options) {
    if (act && !this.#listeners.some((listener) => listener.type === type && listener.act === act)) {
      this.#listeners.push({ type, act, isOnce: Boolean(options?.once) });
    }
  }
  removeEventListener(type, act) {
    this.#listeners = this.#listeners.filter((listener) => listener.type !== type || listener.act !== act);
  }
  dispatchEvent(event) {
    event.target = this;
    this[`on${event.type}`]?.(event);
    for (const { type, act, isOnce } of [...this.#listeners]) {
      if (type !== event.type) continue;
      if (isOnce) this.removeEventListener(type, act);
      if (typeof act === "function") act.call(this, event);
      else act.handleEvent(event);
    }
    return true;
  }
}

export class AbortSignal extends EventTarget {
  aborted = false;
  reason = undefined;
  onabort = null;
  throwIfAborted() {
    if (this.aborted) throw this.reason;
  }
  static abort(reason) {
    const { signal, abort } = controlled();
    abort(reason);
    return signal;
  }
  static timeout(ms) {
    const { signal, abort } = controlled();
    setTimeout(() => abort(new DOMException(`no result after ${ms} ms`, "TimeoutError")), ms);
    return signal;
  }
  static any(signals) {
    const { signal, abort } = controlled();
    for (const each of signals) {
      if (each.aborted) abort(each.reason);
      else each.addEventListener("abort", () => abort(each.reason), { once: true });
    }
    return signal;
  }
}

export class AbortController {
  signal = new AbortSignal();
  abort(reason = new DOMException("it was aborted", "AbortError")) {
    if (this.signal.aborted) return;
    Object.assign(this.signal, { aborted: true, reason });
    this.signal.dispatchEvent(new Event("abort"));
  }
}

function controlled() {
  const controller = new AbortController();
  return { signal: controller.signal, abort: (reason) => controller.abort(reason) };
}
