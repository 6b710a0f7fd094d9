// Gives a script `tools` and `console`, and returns the function that runs its body. `call`, `list` and `log` are the plugin's.
((call, list, log) => {
  const { stringify } = JSON;
  // Half of a surrogate pair, as a text cut in an emoji has, is no JSON for others.
  const json = (value) => {
    const text = stringify(value);
    if (!text?.includes("\\ud")) return text;
    return text.replace(/\\\\|\\ud[0-9a-f]{3}/g, (part) => (part === "\\\\" ? part : "\ufffd"));
  };
  // An engine or a caller asks any object for these: they name no tool.
  const isName = (key) => typeof key === "string" && key !== "then" && key !== "toJSON" && !(key in Object.prototype);
  const members = (keys, member) =>
    new Proxy({}, {
      get: (_, key) => (isName(key) ? member(key) : undefined),
      ownKeys: () => [...new Set(keys())],
      getOwnPropertyDescriptor: (_, key) => ({ value: member(key), enumerable: true, configurable: true }),
    });
  const namespace = (space) =>
    members(
      () => list().filter(([of]) => of === space).map(([, name]) => name),
      (name) => async (input = {}) => call(`${space}/${name}`, json(input)),
    );
  const show = (value) => {
    if (typeof value === "string") return value;
    if (value instanceof Error) return String(value);
    try {
      return stringify(value) ?? String(value);
    } catch {
      return String(value);
    }
  };
  const print = (...values) => log(values.map(show).join(" "));
  globalThis.tools = members(() => list().map(([space]) => space), namespace);
  globalThis.console = { log: print, info: print, debug: print, warn: print, error: print };
  Object.defineProperty(Promise.prototype, "toJSON", {
    value() {
      throw new TypeError("a promise is not a value: write `await` before it");
    },
  });
  return async (body) => json(await body());
})
