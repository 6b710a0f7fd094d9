// Builds the component: `node toolgate/build.mjs OUTPUT.wasm`. esbuild makes one file of the plugin and its packages, and
// componentize-qjs puts it into QuickJS and runs its top level, so that a call begins behind it.
import { SourceMap } from "node:module";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { componentize } from "componentize-qjs";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const output = process.argv[2] ?? "plugin.wasm";

// Files with names of the web, of which a component has those that it uses.
const WEB = ["clone.js", "fetch.js", "signal.js", "url.js"].map((name) => join(here, name));
const names = (await Promise.all(WEB.map((file) => import(file)))).flatMap(Object.keys);

// Names of browsers and of Node that QuickJS does not have. A use of one fails in the call that comes to it.
const MISSING = [
  "Blob", "BroadcastChannel", "Buffer", "CompressionStream", "DecompressionStream", "File", "FileReader", "FormData", "Intl",
  "MessageChannel", "ReadableStream", "TransformStream", "WebAssembly", "WebSocket", "Worker", "WritableStream", "XMLHttpRequest",
  "__dirname", "__filename", "alert", "document", "global", "indexedDB", "localStorage", "location", "navigator", "process",
  "setImmediate", "sessionStorage", "window",
];
const MARK = "toolgateMissing_";

const bundle = (define) =>
  build({
    entryPoints: [join(here, "component.js")],
    bundle: true,
    write: false,
    outfile: join(here, "..", "plugin.js"),
    format: "esm",
    platform: "neutral",
    mainFields: ["module", "main"],
    external: ["toolgate:*", "wasi:*"],
    // See `runtime.js`.
    supported: { "async-await": false, "async-generator": false, "for-await": false },
    inject: WEB,
    define: { ...Object.fromEntries(names.map((name) => [`globalThis.${name}`, name])), ...define },
    sourcemap: "external",
    sourcesContent: false,
  });

async function bundleWithMap(define) {
  const { outputFiles } = await bundle(define);
  const [map, file] = outputFiles.map(({ text }) => text);
  const places = new SourceMap(JSON.parse(map));
  // Returns the file and line that a place of the bundle comes from.
  const sourceOf = (row, column) => {
    const { originalSource = "bundle", originalLine = row } = places.findEntry(row, column);
    return { file: originalSource.replace(/^.*(?=node_modules)/, ""), line: originalLine + 1 };
  };
  return { text: file, sourceOf };
}

// Warns of the uses of missing names, but in a file that asks by `typeof` whether the name is there.
async function warnOfMissingNames() {
  const { text, sourceOf } = await bundleWithMap(Object.fromEntries(MISSING.map((name) => [name, MARK + name])));
  const uses = new Map();
  const guarded = new Set();
  for (const [row, line] of text.split("\n").entries()) {
    for (const { 1: asked, 2: name, index } of line.matchAll(new RegExp(`(typeof )?\\b${MARK}(\\w+)`, "g"))) {
      const source = sourceOf(row, index);
      if (asked) guarded.add(source.file + name);
      uses.set(`${source.file}:${source.line}: a component has no \`${name}\`: a call that comes here fails`, source.file + name);
    }
  }
  for (const [use, key] of uses) if (!guarded.has(key)) console.warn(`warning: ${use}`);
}

// Rows `[first row of the bundle, index of a file, its line]` for the plugin's own files, by which `component.js` translates stack
// traces. The rows of other files have no file.
function lineTable({ text, sourceOf }) {
  const files = [];
  const rows = [];
  let next = {};
  for (const [row, line] of text.split("\n").entries()) {
    const source = sourceOf(row, line.search(/\S|$/));
    const isOwn = !/^(toolgate|node_modules)\/|^bundle$/.test(source.file);
    const file = isOwn ? source.file : undefined;
    if (file !== next.file || (isOwn && source.line !== next.line)) {
      if (isOwn && !files.includes(file)) files.push(file);
      rows.push(isOwn ? [row + 1, files.indexOf(file), source.line] : [row + 1]);
    }
    next = { file, line: source.line + 1 };
  }
  return `globalThis.toolgateLines = ${JSON.stringify({ files, rows })};\n`;
}

await warnOfMissingNames();
const built = await bundleWithMap({});

// componentize-qjs links its own WASI while it runs the top level, whose resources do not fit those of `wasi:http`. So the
// interfaces of the SDK have another name meanwhile, of the same length.
const HIDDEN = "wazi:";
const folder = await mkdtemp(join(tmpdir(), "toolgate-"));
try {
  await cp(join(here, "wit"), folder, { recursive: true });
  const wit = await readFile(join(here, "wit", "sdk.wit"), "utf8");
  await writeFile(join(folder, "sdk.wit"), wit.replaceAll("wasi:", HIDDEN));
  const source = built.text.replaceAll(/(from\s+")wasi:/g, `$1${HIDDEN}`) + lineTable(built);
  const { component } = await componentize({ witPath: folder, world: "javascript", jsSource: source, sync: true });
  for (let at = component.indexOf(HIDDEN); at >= 0; at = component.indexOf(HIDDEN, at)) component.write("wasi:", at);
  await writeFile(output, component);
  console.log(`${output}: ${component.length} bytes`);
} finally {
  await rm(folder, { recursive: true });
}
