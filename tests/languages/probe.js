// A plugin for `tests/languages.rs`: what an SDK gives, and what a hostile plugin tries.
import { context, files, http, log, plugin, sleep, t, tool, ToolError } from "../toolgate/sdk.js";

const probe = (name, run, input = {}) =>
  tool({ name, description: `Probes ${name}.`, input, examples: [{ input: {} }].slice(Object.keys(input).length), run });
const text = { text: t.string() };

export default plugin({
  name: "probe",
  version: "0.1.0",
  capabilities: { filesystem: "workspace", network: [{ scheme: "http", host: "api.upstream.test", port: 8080 }] },
  tools: [
    probe("tasks", async () => {
      const order = [];
      const task = async (name, ms) => (await sleep(ms), order.push(name), name);
      const names = await Promise.all([task("slow", 20), task("fast", 1)]);
      const [settled] = await Promise.allSettled([Promise.reject(new Error("no"))]);
      async function* count() {
        yield 1;
        yield await Promise.resolve(2);
      }
      const counted = [];
      for await (const number of count()) counted.push(number);
      return { order, names, status: settled.status, counted };
    }),
    probe("facts", () => ({ call: context.callId(), agent: context.get("agent"), settings: context.settings(), user: context.get("user") ?? null })),
    probe("chance", () => [Math.random(), Date.now()]),
    probe("note", ({ text }) => {
      files.makeFolder("notes");
      files.write("/workspace/notes/a.txt", text);
      log.info("written", "a note", { bytes: text.length });
      return { text: files.readText("notes/a.txt"), entries: files.list("notes") };
    }, text),
    probe("outside", () => files.readText("../../etc/passwd")),
    probe("fetch", async ({ text }) => {
      const pages = await Promise.all([1, 2].map((page) => http.request(`${text}/echo?page=${page}`, { method: "POST", json: { page } })));
      return pages.map((page) => [page.status, page.text()]);
    }, text),
    probe("web", async () => {
      const url = new URL("../a b?x=1#h", "https://example.com/q/w/e");
      url.searchParams.append("y", "ü");
      const controller = new AbortController();
      setTimeout(() => controller.abort(), 1);
      const reason = await new Promise((resolve) => controller.signal.addEventListener("abort", () => resolve(controller.signal.reason.name)));
      let ticks = 0;
      await new Promise((resolve) => {
        const id = setInterval(() => {
          if (++ticks === 2) resolve(clearInterval(id));
        }, 1);
      });
      const once = Response.json({ a: 1 });
      await once.json();
      const read = await once.text().catch((error) => error.name);
      const shared = { list: [new Map([[1, new Set("a")]])] };
      const copy = structuredClone(shared);
      const isCopy = copy.list[0] !== shared.list[0] && copy.list[0].get(1).has("a");
      return { url: url.href, isUrl: URL.canParse("nope"), reason, ticks, read, isCopy, uuid: crypto.randomUUID() };
    }),
    probe("redirect", async ({ text }) => {
      const answer = await fetch(text, { method: "POST", headers: { authorization: "s3cret" }, body: new URLSearchParams({ a: "b c" }) });
      const slow = fetch(text, { signal: AbortSignal.abort() }).catch((error) => error.name);
      return [answer.status, answer.ok, answer.url, answer.redirected, answer.headers.get("Content-Type"), await answer.text(), await slow];
    }, text),
    probe("fail", ({ text }) => {
      throw new ToolError(text, { retryable: true, details: { asked: text } });
    }, text),
    probe("raise", () => undefined.name),
    probe("never", () => new Promise(() => {})),
    probe("loop", () => {
      for (;;);
    }),
    probe("recurse", () => {
      const deeper = (depth) => deeper(depth + 1) + 1;
      return deeper(0);
    }),
    probe("exhaust", () => {
      const all = [];
      for (;;) all.push(new Uint8Array(1 << 20).fill(1));
    }),
    probe("flood", () => {
      for (let line = 0; line < 2_000; line++) console.log("flood ".repeat(10));
      return "done";
    }),
    tool({
      name: "show",
      description: "Probes content blocks.",
      content: true,
      output: t.integer(),
      examples: [{ input: {} }],
      run: () => ({ output: 7, content: [{ type: "text", text: "see it" }] }),
    }),
    probe("surrogate", () => "\ud800"),
    probe("sockets", async () => {
      const found = ["process", "require", "WebSocket", "Deno", "std", "os"].filter((name) => name in globalThis);
      if (found.length) return found;
      throw new ToolError("no way out");
    }),
  ],
});
