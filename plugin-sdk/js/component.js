// The entry of the component: exports the contract for the plugin in `../src/plugin.js`, and gives the SDK its host.
import { endBuild, ready, settle } from "./runtime.js";
import hostContext from "toolgate:plugin/context@0.1.0";
import config from "toolgate:plugin/config@0.1.0";
import hostLog from "toolgate:plugin/log@0.1.0";
import hostProgress from "toolgate:plugin/progress@0.1.0";
import preopens from "wasi:filesystem/preopens@0.2.0";
import { Fields, OutgoingBody, OutgoingRequest } from "wasi:http/types@0.2.0";
import outgoing from "wasi:http/outgoing-handler@0.2.0";
import { ToolError, useHost } from "./sdk.js";
import plugin from "../src/plugin.js";

const CHUNK_BYTES = 65_536;
// An output stream takes at most 4,096 bytes in one blocking write.
const WRITE_BYTES = 4_096;

// A text with half a surrogate pair would end the call as a crash.
const textOf = (value) => String(value).toWellFormed();
const drop = (resource) => resource[Symbol.dispose]();
const codeOf = (error) => error?.payload?.tag ?? error?.payload ?? error?.tag ?? error?.message ?? String(error);

// Calls a function of WASI; its error becomes a failure that names the subject.
function attempt(subject, act) {
  try {
    return act();
  } catch (error) {
    const code = codeOf(error);
    throw new ToolError(`${subject}: ${code === "no-entry" ? "not found; list the workspace to see what exists" : code}`);
  }
}

function workspace(path, use) {
  return attempt(`file \`${path}\``, () => {
    const [folder] = preopens.getDirectories();
    if (!folder) throw new Error("there is no workspace; the plugin asks for it with `filesystem`, and the operator grants it");
    return use(folder[0], path.replace(/^\/workspace\/?/, "") || ".");
  });
}

function readFile(path) {
  return workspace(path, (folder, name) => {
    const file = folder.openAt({}, name, {}, { read: true });
    const chunks = [];
    let size = 0;
    for (let isEnd = false; !isEnd; ) {
      const [bytes, end] = file.read(CHUNK_BYTES, size);
      chunks.push(bytes);
      size += bytes.length;
      isEnd = end || bytes.length === 0;
    }
    return concatenate(chunks);
  });
}

function writeFile(path, bytes) {
  return workspace(path, (folder, name) => {
    const file = folder.openAt({}, name, { create: true, truncate: true }, { write: true });
    for (let at = 0; at < bytes.length; ) at += Number(file.write(bytes.subarray(at, at + CHUNK_BYTES), at));
  });
}

function listFolder(path) {
  return workspace(path, (folder, name) => {
    const opened = folder.openAt({}, name, { directory: true }, { read: true });
    const entries = opened.readDirectory();
    const found = [];
    for (let entry = entries.readDirectoryEntry(); entry; entry = entries.readDirectoryEntry()) {
      found.push({ name: entry.name, isFolder: entry.type === "directory" });
    }
    drop(entries);
    drop(opened);
    return found;
  });
}

function concatenate(chunks) {
  const whole = new Uint8Array(chunks.reduce((size, chunk) => size + chunk.length, 0));
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}

const METHODS = ["get", "head", "post", "put", "delete", "options", "patch"];
const methodOf = (name) =>
  METHODS.includes(name.toLowerCase()) ? { tag: name.toLowerCase() } : { tag: "other", val: name };

function outgoingRequest({ method, url, headers, body }) {
  const parts = /^(https?):\/\/([^/?#]+)([^#]*)/i.exec(url);
  if (!parts) throw new ToolError(`\`${url}\` is not a URL of http or https`);
  const fields = Object.entries(headers).map(([name, value]) => [name, new TextEncoder().encode(String(value))]);
  const request = new OutgoingRequest(Fields.fromList(fields));
  request.setMethod(methodOf(method));
  request.setScheme({ tag: parts[1].toUpperCase() });
  request.setAuthority(parts[2]);
  request.setPathWithQuery(parts[3].startsWith("/") ? parts[3] : `/${parts[3]}`);
  return [request, body && request.body()];
}

async function request(asked) {
  const subject = `request to \`${asked.url}\``;
  const [pending, body] = attempt(subject, () => {
    const [request, body] = outgoingRequest(asked);
    return [outgoing.handle(request, null), body];
  });
  if (body) attempt(subject, () => send(body, asked.body));
  await ready(pending.subscribe());
  const response = attempt(subject, () => unwrap(unwrap(pending.get())));
  const headers = {};
  for (const [name, value] of response.headers().entries()) {
    const text = String.fromCharCode(...value);
    headers[name] = name in headers ? `${headers[name]}, ${text}` : text;
  }
  const content = await receive(subject, response);
  return { status: response.status(), headers, body: content };
}

function send(body, bytes) {
  const stream = body.write();
  for (let at = 0; at < bytes.length; at += WRITE_BYTES) stream.blockingWriteAndFlush(bytes.subarray(at, at + WRITE_BYTES));
  drop(stream);
  OutgoingBody.finish(body, null);
}

async function receive(subject, response) {
  // A resource must not be dropped before those that came from it, so each has a name and is dropped here.
  const body = response.consume();
  const stream = body.stream();
  const chunks = [];
  try {
    for (;;) {
      await ready(stream.subscribe());
      chunks.push(stream.read(CHUNK_BYTES));
    }
  } catch (error) {
    if (codeOf(error) !== "closed") throw new ToolError(`${subject}: the response ended early`);
    return concatenate(chunks);
  } finally {
    drop(stream);
    drop(body);
  }
}

// A nested `result` is an object with a tag.
function unwrap(result) {
  if (result.tag === "err") throw result.val;
  return result.val;
}

useHost({
  callId: () => hostContext.callId(),
  deadlineMs: () => Number(hostContext.deadlineMs()),
  get: (key) => hostContext.get(key),
  settings: () => config.settings(),
  progress: (done, total, message) => hostProgress.report(Math.trunc(done), total == null ? null : Math.trunc(total), message == null ? null : textOf(message)),
  log: (level, event, message, fields) =>
    hostLog.write(level, textOf(event), textOf(message), Object.entries(fields).map((field) => field.map(textOf))),
  readFile,
  writeFile,
  listFolder,
  removeFile: (path) => workspace(path, (folder, name) => folder.unlinkFileAt(name)),
  makeFolder: (path) => workspace(path, (folder, name) => folder.createDirectoryAt(name)),
  request,
});

endBuild();

// Replaces places in the bundle by those in the sources; `build.mjs` adds the table.
function translated(stack) {
  const { files, rows } = globalThis.toolgateLines;
  return stack.replace(/componentize-qjs:user\.js:(\d+)(:\d+)?/g, (_, row) => {
    const [first, file, line] = rows.findLast(([first]) => first <= row) ?? [];
    return file === undefined ? `bundle:${row}` : `${files[file]}:${line + Number(row) - first}`;
  });
}

function failureOf(error) {
  const isTool = error instanceof ToolError;
  if (!isTool) hostLog.write("error", "exception", textOf(`${error}\n${translated(error?.stack ?? "")}`), []);
  const { code = "TOOL_FAILED", retryable = false, details } = isTool ? error : {};
  const message = textOf(isTool ? error.message : error);
  return { code, message, retryable, details: details === undefined ? null : JSON.stringify(details) };
}

export const tools = {
  describe: () => JSON.stringify(plugin.description),
  call(tool, args) {
    try {
      const result = settle(plugin.call(tool, JSON.parse(args)));
      return { tag: plugin.isClient(tool) ? "client" : "output", val: JSON.stringify(result ?? null).toWellFormed() };
    } catch (error) {
      throw failureOf(error);
    }
  },
};
