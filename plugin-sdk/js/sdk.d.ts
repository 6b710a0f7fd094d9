// Types of the SDK, from which editors and TypeScript know the arguments of `run`. `globals.d.ts` has those of global names.
/// <reference path="./globals.d.ts" />

export class ToolError extends Error {
  constructor(message: string, options?: { code?: string; retryable?: boolean; details?: unknown });
  /** Arguments that match their schema and are not valid. */
  static invalid(message: string): ToolError;
  code: string;
  retryable: boolean;
  details?: unknown;
}

declare const value: unique symbol;
declare const optional: unique symbol;

/** A JSON Schema whose values have the type `T`. */
export interface Schema<T> {
  readonly [value]?: T;
}
interface Optional<T> extends Schema<T> {
  readonly [optional]: true;
}
type Properties = Record<string, Schema<any>>;
type OptionalNames<P> = { [K in keyof P]: P[K] extends Optional<any> ? K : never }[keyof P];
type Flat<T> = { [K in keyof T]: T[K] };

/** The type of the values of a schema: `type Order = Value<typeof order>`. */
export type Value<S> = S extends Schema<infer T> ? T : never;
type Values<P> = Flat<{ [K in Exclude<keyof P, OptionalNames<P>>]: Value<P[K]> } & { [K in OptionalNames<P>]?: Value<P[K]> }>;

/** Further keywords of JSON Schema, such as `minimum`, `maxLength`, `default`. */
type Keywords = Record<string, unknown>;

export const t: {
  string(description?: string, keywords?: Keywords): Schema<string>;
  integer(description?: string, keywords?: Keywords): Schema<number>;
  number(description?: string, keywords?: Keywords): Schema<number>;
  boolean(description?: string, keywords?: Keywords): Schema<boolean>;
  any(description?: string): Schema<any>;
  choice<const V extends readonly unknown[]>(values: V, description?: string): Schema<V[number]>;
  array<S extends Schema<any>>(items: S, description?: string, keywords?: Keywords): Schema<Value<S>[]>;
  map<S extends Schema<any>>(values: S, description?: string): Schema<Record<string, Value<S>>>;
  object<P extends Properties>(properties: P, description?: string): Schema<Values<P>>;
  optional<S extends Schema<any>>(schema: S): Optional<Value<S>>;
  nullable<S extends Schema<any>>(schema: S): Schema<Value<S> | null>;
};

/** A block of content beside the output. */
export type Content =
  | { type: "text"; text: string }
  | { type: "image" | "audio"; data: string; mime_type: string }
  | { type: "file"; path: string; [field: string]: unknown };

interface Described<P extends Properties> {
  name: string;
  description: string;
  usage?: string;
  input?: P;
  hints?: { read_only?: boolean; destructive?: boolean; idempotent?: boolean; open_world?: boolean };
  examples?: { name?: string; input: Partial<Values<P>>; output?: unknown }[];
  tags?: string[];
  /** Further fields, as in `wit/describe.schema.json`. */
  [field: string]: unknown;
}

export interface Tool {
  described: Record<string, unknown>;
}

/** A tool whose `run` returns the output, and content blocks beside it. */
export function tool<P extends Properties = {}, T = unknown>(
  tool: Described<P> & { content: true; output?: Schema<T>; run(args: Values<P>): Returned<{ output: NoInfer<T>; content: Content[] }> },
): Tool;
/** A tool of the client: `run` returns what the client gets, and `output` describes the result that it sends back. */
export function tool<P extends Properties = {}>(
  tool: Described<P> & { mode: "client"; output?: Schema<any>; run(args: Values<P>): unknown },
): Tool;
/** A tool: `run` gets the arguments, and returns the result or a promise of it. */
export function tool<P extends Properties = {}, T = unknown>(
  tool: Described<P> & { content?: false; mode?: "server"; output?: Schema<T>; run(args: Values<P>): Returned<NoInfer<T>> },
): Tool;
type Returned<T> = T | Promise<T>;

interface NetworkRule {
  host: string;
  scheme?: "https" | "http";
  port?: number;
  methods?: string[];
  path?: string;
}

export interface Plugin {
  description: Record<string, unknown>;
  /** Calls a tool with arguments as an object. */
  call(name: string, args?: Record<string, unknown>): Promise<any>;
  isClient(name: string): boolean;
}

export function plugin(plugin: {
  name: string;
  version: string;
  publisher?: string;
  purpose?: string;
  capabilities?: { filesystem?: "none" | "workspace"; network?: NetworkRule[]; credentials?: string[] };
  limits?: Record<string, number>;
  /** The schema of the organization's settings: `t.object({...})`. */
  settings?: Schema<any>;
  tools: Tool[];
  [field: string]: unknown;
}): Plugin;

/** Functions of the host, by which a test replaces it. */
export interface Host {
  request?(asked: { url: string; method: string; headers: Record<string, string>; body?: Uint8Array }): Returned<{
    status: number;
    headers?: Record<string, string>;
    body?: string | Uint8Array;
  }>;
  settings?(): string;
  get?(key: string): string | undefined;
  [name: string]: ((...values: any[]) => unknown) | undefined;
}
export function useHost(functions: Host): void;

export const context: {
  callId(): string;
  /** Milliseconds until the host stops the call. */
  deadlineMs(): number;
  get(key: "session" | "conversation" | "organization" | "agent" | "user" | "channel"): string | undefined;
  /** The organization's settings, which match the schema. */
  settings<T = any>(): T;
  /** Reports progress to a person who waits. */
  progress(done: number, total?: number, message?: string): void;
};

type Log = (event: string, message?: string, fields?: Record<string, unknown>) => void;
export const log: { debug: Log; info: Log; warn: Log; error: Log };

/** Files of the session, by their path in `/workspace`. */
export const files: {
  read(path: string): Uint8Array;
  readText(path: string): string;
  write(path: string, content: string | Uint8Array): void;
  remove(path: string): void;
  makeFolder(path: string): void;
  list(path?: string): { name: string; isFolder: boolean }[];
};

export interface HttpAnswer {
  status: number;
  headers: Record<string, string>;
  bytes: Uint8Array;
  text(): string;
  json(): any;
}
export const http: {
  /** Sends a request. A status of 400 or more is a response, not an error. */
  request(
    url: string,
    options?: { method?: string; headers?: Record<string, string>; body?: string | Uint8Array; json?: unknown },
  ): Promise<HttpAnswer>;
};

/** Returns after some milliseconds. */
export function sleep(ms: number): Promise<void>;
