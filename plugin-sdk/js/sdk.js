// The SDK for plugins in JavaScript: tools with schemas, the call's context, files, HTTP and errors.
//
// Its functions reach the host through `host`, which `component.js` sets in a component and `useHost` in a test.

/** A failure that the model reads: what went wrong, and what to do next. Any other error becomes one, by its message. */
export class ToolError extends Error {
  /** @param {{code?: string, retryable?: boolean, details?: unknown}} options `retryable`: the same call can succeed later */
  constructor(message, { code = "TOOL_FAILED", retryable = false, details } = {}) {
    super(message);
    Object.assign(this, { code, retryable, details });
  }
  /** Arguments that match their schema and are not valid. */
  static invalid(message) {
    return new ToolError(message, { code: "INVALID_ARGUMENTS" });
  }
}

const OPTIONAL = Symbol("optional");
const typed = (type) => (description, keywords) => ({ type, description, ...keywords });

/** Types of arguments and results, as JSON Schema. Each takes a description, and further keywords as an object. */
export const t = {
  string: typed("string"),
  integer: typed("integer"),
  number: typed("number"),
  boolean: typed("boolean"),
  any: (description) => ({ description }),
  choice: (values, description) => ({ enum: values, description }),
  array: (items, description, keywords) => ({ type: "array", items, description, ...keywords }),
  map: (values, description) => ({ type: "object", additionalProperties: values, description }),
  /** An object with these properties and no others; all are required but those in `t.optional`. */
  object: (properties, description) => ({
    type: "object",
    description,
    properties,
    required: Object.keys(properties).filter((name) => !properties[name][OPTIONAL]),
    additionalProperties: false,
  }),
  /** A property that may be left out. */
  optional: (schema) => ({ ...schema, [OPTIONAL]: true }),
  /** A value or null. */
  nullable: (schema) => ({ anyOf: [schema, { type: "null" }] }),
};

/**
 * A tool. `run` gets the arguments, and returns the result or a promise of it.
 *
 * @param {{name: string, description: string, usage?: string, input?: object, output?: object, hints?: object,
 *   examples?: object[], run: (args: any) => unknown}} tool further fields as in `wit/describe.schema.json`; with
 *   `content: true`, `run` returns `{ output, content: [...] }`
 */
export function tool({ name, description, usage = description, input = {}, output, run, ...more }) {
  return { described: { name, description, usage, input_schema: t.object(input), output_schema: output, ...more }, run };
}

/**
 * A plugin: the description that a host reads, and `call` for a component and for tests.
 *
 * @param {{name: string, version: string, publisher?: string, purpose?: string, capabilities?: object, limits?: object,
 *   settings?: object, tools: object[]}} plugin `settings` is the schema of the organization's settings; further fields as in `wit/describe.schema.json`
 */
export function plugin({ tools, capabilities = {}, settings, ...facts }) {
  const { filesystem = "none", network = [] } = capabilities;
  // The runtime imports files and the SDK imports HTTP, used or not.
  const unused = [filesystem === "none" && "filesystem", network.length === 0 && "network"].filter(Boolean);
  const description = {
    ...facts,
    ...(settings && { config_schema: settings }),
    capabilities: { ...capabilities, ...(unused.length && { unused }) },
    tools: tools.map((tool) => tool.described),
  };
  return {
    description,
    /** Calls a tool with arguments as an object. */
    async call(name, args = {}) {
      const found = tools.find((tool) => tool.described.name === name);
      if (!found) throw new ToolError(`plugin \`${facts.name}\` has no tool \`${name}\``);
      return found.run(args);
    },
    isClient: (name) => tools.some(({ described }) => described.name === name && described.mode === "client"),
  };
}

let host = {};
/** Replaces the host's functions, for a test: `useHost({ request: async () => ({ status: 200, body: "{}" }) })`. */
export function useHost(functions) {
  host = functions;
}
const ask = (name, ...values) => {
  if (host[name]) return host[name](...values);
  throw new ToolError(`the host function \`${name}\` is not there: a test gives it with \`useHost\``);
};

/** Facts about the call. */
export const context = {
  callId: () => ask("callId"),
  /** Milliseconds until the host stops the call. */
  deadlineMs: () => ask("deadlineMs"),
  /** One of `session`, `conversation`, `organization`, `agent`, `user`, `channel`; undefined where it has no value. */
  get: (key) => ask("get", key) ?? undefined,
  /** The organization's settings, as an object. */
  settings: () => JSON.parse(ask("settings")),
  /** Reports progress to a person who waits. */
  progress: (done, total, message) => ask("progress", done, total, message),
};

const level = (name) => (event, message = "", fields = {}) => ask("log", name, event, message, fields);
/** Structured logging: `log.info("cache_miss", "the page is not cached", { url })`. */
export const log = { debug: level("debug"), info: level("info"), warn: level("warn"), error: level("error") };

/** Files of the session, by their path in `/workspace`; with `capabilities: { filesystem: "workspace" }`. */
export const files = {
  /** Returns a file's content as a Uint8Array. */
  read: (path) => ask("readFile", path),
  readText: (path) => new TextDecoder().decode(ask("readFile", path)),
  /** Writes a whole file, from text or a Uint8Array. Its folder must exist. */
  write: (path, content) => ask("writeFile", path, bytesOf(content)),
  remove: (path) => ask("removeFile", path),
  makeFolder: (path) => ask("makeFolder", path),
  /** Returns the entries of a folder: `{ name, isFolder }`. */
  list: (path = ".") => ask("listFolder", path),
};

const bytesOf = (content) => (typeof content === "string" ? new TextEncoder().encode(content) : content);

/** Outgoing HTTP, to the hosts of `capabilities.network` that the operator granted. */
export const http = {
  /**
   * Sends a request. A status of 400 or more is a response, not an error.
   *
   * @param {string} url
   * @param {{method?: string, headers?: Record<string, string>, body?: string | Uint8Array, json?: unknown}} options
   */
  async request(url, { method = "GET", headers = {}, body, json } = {}) {
    if (json !== undefined) {
      body = JSON.stringify(json);
      headers = { "content-type": "application/json", ...headers };
    }
    const answer = await ask("request", { method, url, headers, body: body === undefined ? undefined : bytesOf(body) });
    const bytes = bytesOf(answer.body ?? "");
    const text = () => new TextDecoder().decode(bytes);
    return { status: answer.status, headers: answer.headers ?? {}, bytes, text, json: () => JSON.parse(text()) };
  },
};

/** Returns after some milliseconds. */
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
