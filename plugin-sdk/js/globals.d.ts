// Global names of a component besides those of ECMAScript. A name that is not here does not exist in a component.

declare function setTimeout<A extends unknown[]>(act: (...values: A) => void, ms?: number, ...values: A): number;
declare function setInterval<A extends unknown[]>(act: (...values: A) => void, ms?: number, ...values: A): number;
declare function clearTimeout(id: number | undefined): void;
declare function clearInterval(id: number | undefined): void;
declare function queueMicrotask(job: () => void): void;
declare function structuredClone<T>(value: T): T;
declare function atob(text: string): string;
declare function btoa(text: string): string;
declare const console: Record<"debug" | "log" | "info" | "warn" | "error", (...values: unknown[]) => void>;
declare const crypto: { getRandomValues<A extends ArrayBufferView>(array: A): A; randomUUID(): string };
declare const performance: { now(): number };
declare class TextEncoder {
  encode(text?: string): Uint8Array;
}
declare class TextDecoder {
  decode(bytes?: Uint8Array): string;
}

declare class DOMException extends Error {
  constructor(message?: string, name?: string);
}
declare class Event {
  constructor(type: string);
  readonly type: string;
  readonly target: EventTarget;
}
type Listener = ((event: Event) => void) | { handleEvent(event: Event): void };
declare class EventTarget {
  addEventListener(type: string, act: Listener, options?: { once?: boolean }): void;
  removeEventListener(type: string, act: Listener): void;
  dispatchEvent(event: Event): boolean;
}
declare class AbortSignal extends EventTarget {
  static abort(reason?: unknown): AbortSignal;
  static timeout(ms: number): AbortSignal;
  static any(signals: Iterable<AbortSignal>): AbortSignal;
  readonly aborted: boolean;
  readonly reason: any;
  onabort: ((event: Event) => void) | null;
  throwIfAborted(): void;
}
declare class AbortController {
  readonly signal: AbortSignal;
  abort(reason?: unknown): void;
}

declare class URLSearchParams {
  constructor(fields?: string | Record<string, string> | Iterable<[string, string]>);
  readonly size: number;
  append(name: string, value: string): void;
  delete(name: string, value?: string): void;
  get(name: string): string | null;
  getAll(name: string): string[];
  has(name: string, value?: string): boolean;
  set(name: string, value: string): void;
  sort(): void;
  forEach(act: (value: string, name: string) => void): void;
  entries(): IterableIterator<[string, string]>;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  [Symbol.iterator](): IterableIterator<[string, string]>;
}
declare class URL {
  constructor(url: string | URL, base?: string | URL);
  static canParse(url: string | URL, base?: string | URL): boolean;
  static parse(url: string | URL, base?: string | URL): URL | null;
  href: string;
  readonly origin: string;
  protocol: string;
  username: string;
  password: string;
  host: string;
  hostname: string;
  port: string;
  pathname: string;
  search: string;
  readonly searchParams: URLSearchParams;
  hash: string;
  toJSON(): string;
}

type HeadersInit = Headers | Record<string, string> | Iterable<[string, string]>;
type BodyInit = string | ArrayBuffer | ArrayBufferView | URLSearchParams;
declare class Headers {
  constructor(fields?: HeadersInit);
  append(name: string, value: string): void;
  delete(name: string): void;
  get(name: string): string | null;
  has(name: string): boolean;
  set(name: string, value: string): void;
  forEach(act: (value: string, name: string, headers: Headers) => void): void;
  entries(): IterableIterator<[string, string]>;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  [Symbol.iterator](): IterableIterator<[string, string]>;
}
interface Body {
  readonly bodyUsed: boolean;
  readonly headers: Headers;
  arrayBuffer(): Promise<ArrayBuffer>;
  bytes(): Promise<Uint8Array>;
  text(): Promise<string>;
  json(): Promise<any>;
}
interface RequestInit {
  method?: string;
  headers?: HeadersInit;
  body?: BodyInit | null;
  redirect?: "follow" | "manual" | "error";
  signal?: AbortSignal | null;
}
interface Request extends Body {
  readonly url: string;
  readonly method: string;
  readonly redirect: string;
  readonly signal: AbortSignal;
  clone(): Request;
}
declare const Request: { new (resource: string | URL | Request, options?: RequestInit): Request };
interface ResponseInit {
  status?: number;
  statusText?: string;
  headers?: HeadersInit;
}
interface Response extends Body {
  readonly status: number;
  readonly statusText: string;
  readonly ok: boolean;
  readonly url: string;
  readonly redirected: boolean;
  clone(): Response;
}
declare const Response: {
  new (body?: BodyInit | null, options?: ResponseInit): Response;
  json(value: unknown, options?: ResponseInit): Response;
  error(): Response;
};
declare function fetch(resource: string | URL | Request, options?: RequestInit): Promise<Response>;
