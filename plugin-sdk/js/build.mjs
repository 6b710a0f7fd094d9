// Builds the component: `node toolgate/build.mjs OUTPUT.wasm`. esbuild makes one file of the plugin and its packages, and
// componentize-qjs puts it into QuickJS and runs its top level, so that a call begins behind it.
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { componentize } from "componentize-qjs";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const output = process.argv[2] ?? "plugin.wasm";

const bundle = await build({
  entryPoints: [join(here, "component.js")],
  bundle: true,
  write: false,
  format: "esm",
  platform: "neutral",
  mainFields: ["module", "main"],
  external: ["toolgate:*", "wasi:*"],
  // See `runtime.js`.
  supported: { "async-await": false, "async-generator": false, "for-await": false },
});

// componentize-qjs links its own WASI while it runs the top level, whose resources do not fit those of `wasi:http`. So the
// interfaces of the SDK have another name meanwhile, of the same length.
const HIDDEN = "wazi:";
const folder = await mkdtemp(join(tmpdir(), "toolgate-"));
try {
  await cp(join(here, "wit"), folder, { recursive: true });
  const wit = await readFile(join(here, "wit", "sdk.wit"), "utf8");
  await writeFile(join(folder, "sdk.wit"), wit.replaceAll("wasi:", HIDDEN));
  const source = bundle.outputFiles[0].text.replaceAll(/(from\s+")wasi:/g, `$1${HIDDEN}`);
  const { component } = await componentize({ witPath: folder, world: "javascript", jsSource: source, sync: true });
  for (let at = component.indexOf(HIDDEN); at >= 0; at = component.indexOf(HIDDEN, at)) component.write("wasi:", at);
  await writeFile(output, component);
  console.log(`${output}: ${component.length} bytes`);
} finally {
  await rm(folder, { recursive: true });
}
