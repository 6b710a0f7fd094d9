// Minimal orchestrator: a session, its tool lists, and calls.
//
// `TOOLGATE_ADDRESS` (`http://127.0.0.1:7300`), `TOOLGATE_TOKEN` and `TOOLGATE_AGENT` (`ORGANIZATION/AGENT`) configure it.
// The agent may call the tools of the built-in plugin `arithmetic`.

const { TOOLGATE_ADDRESS, TOOLGATE_TOKEN, TOOLGATE_AGENT } = process.env;

export const TOOL = "call_arithmetic_evaluate";
export const NO_TOOL = "call_nothing_there";
export const SOUND = { expression: "6*7" };
export const UNSOUND = { formula: "6*7" };

async function send(method, path, body) {
  const response = await fetch(TOOLGATE_ADDRESS + path, {
    method,
    headers: { authorization: `Bearer ${TOOLGATE_TOKEN}`, "content-type": "application/json" },
    body: body && JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return JSON.parse(text);
}

export async function openSession() {
  const { session } = await send("POST", "/v1/sessions", { agent: TOOLGATE_AGENT });
  const path = `/v1/sessions/${session}`;
  return {
    tools: async (format) => (await send("GET", `${path}/tools?format=${format}`)).tools,
    call: (request) => send("POST", `${path}/calls`, request),
  };
}

export function check(holds, what) {
  if (!holds) throw new Error(what);
}

// Checks the results of a valid call, a call with invalid arguments, and a call of an unknown tool.
export function checkContents([sound, unsound, none]) {
  check(sound.includes('"decimal":"42"'), `the result is missing: ${sound}`);
  check(unsound.includes("INVALID_ARGUMENTS: Validation Error: "), `the refusal of the arguments is missing: ${unsound}`);
  check(none.includes("TOOL_NOT_FOUND: "), `the refusal of the unknown tool is missing: ${none}`);
}
