// Operators and owners bring files: a plugin is dropped or chosen, with the keyboard and without a script; files of a session; assertions.
import fs from "node:fs";

import { accessibility, address, agree, api, check, expectFault, open, run, signIn, tabTo, tokens } from "./console.mjs";

const session = process.env.TOOLGATE_SESSION;
const plugin = process.env.TOOLGATE_PLUGIN;

const versionOf = async (namespace) => (await api("operator", "GET", `/v1/plugins/${namespace}`)).version;

async function accessible(page) {
  const findings = await accessibility(page);
  check(findings.length === 0, `${page.url()}: ${findings.join("\n")}`);
}

// Drops a file onto the first part of the page that takes one, as a file manager does.
async function drop(page, name, bytes) {
  const data = await page.evaluateHandle(
    ([name, text]) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))], name));
      return transfer;
    },
    [name, bytes.toString("base64")],
  );
  const target = page.locator("[data-drop]").first();
  for (const kind of ["dragover", "drop"]) await target.dispatchEvent(kind, { dataTransfer: data });
}

async function dropAPlugin(page) {
  await page.goto("/console/plugins");
  await accessible(page);
  await drop(page, "stranger.wasm", fs.readFileSync(plugin));
  check((await page.getByLabel("Namespace").inputValue()) === "stranger", "the namespace is not that of the file");
  await page.getByRole("button", { name: "Load the plugin" }).click();
  await page.waitForURL("**/console/plugins/stranger");
  check((await versionOf("stranger")) === "1.0.0", "the plugin is not loaded");
  await accessible(page);
}

async function correctAnUpload(page) {
  await page.goto("/console/upload/plugin");
  await page.getByLabel("Namespace").fill("another");
  await page.getByLabel("Plugin file").setInputFiles(plugin);
  await expectFault("422", async () => {
    await page.getByRole("button", { name: "Load the plugin" }).click();
    await page.getByText("Choose it again").waitFor();
  });
  await accessible(page);
  await page.getByLabel("Namespace").fill("stranger");
  await page.getByLabel("Plugin file").setInputFiles(plugin);
  await page.getByRole("button", { name: "Load the plugin" }).click();
  await page.waitForURL("**/console/plugins/stranger");
}

async function writeAFileWithTheKeyboard(page) {
  await page.goto(`/console/sessions/${session}`);
  await tabTo(page, "the form", (focus) => focus.tag === "summary" && focus.text === "Write a file");
  await page.keyboard.press("Enter");
  await tabTo(page, "the path", (focus) => focus.name === "path");
  await page.keyboard.type("notes/plan.md");
  await tabTo(page, "the text", (focus) => focus.name === "text");
  await page.keyboard.type("<b>Plan</b>");
  await tabTo(page, "the button", (focus) => focus.tag === "button" && focus.text === "Write the file");
  await page.keyboard.press("Enter");
  await page.waitForURL("**/view/**");
  check((await page.locator("main pre").first().innerText()).includes("<b>Plan</b>"), "the text is not shown as it is");
  await accessible(page);
  await agree("Delete the file", () => page.getByRole("button", { name: "Delete the file" }).click());
  await page.waitForURL(`**/console/sessions/${session}`);
}

async function tryAssertions(page) {
  await page.goto("/console/organizations/acme");
  await page.getByRole("link", { name: "Assertions", exact: true }).click();
  const write = (tool) => page.getByLabel("Document, as JSON").fill(JSON.stringify({ assertions: [{ name: "quiet", never: { tools: [tool] } }] }));
  await write("pay/send");
  await page.locator("section[aria-labelledby=as-text]").getByRole("button", { name: "Try them" }).click();
  await page.getByText("Not all of them hold").waitFor();
  await accessible(page);
  await write("files/delete");
  await page.locator("section[aria-labelledby=as-text]").getByRole("button", { name: "Try them" }).click();
  await page.getByRole("button", { name: "Put them in force" }).click();
  await page.getByRole("cell", { name: "holds" }).waitFor();
  await accessible(page);
  await agree("Delete these assertions", () => page.getByRole("button", { name: "Delete them" }).click());
  await page.getByText("There are no assertions yet").waitFor();
}

async function makeAnAgent(page) {
  await page.goto("/console/organizations/acme");
  await page.getByText("New agent").click();
  await page.getByLabel("Name of the agent").fill("clerk");
  await page.getByLabel("Tools that it may call").fill("arithmetic/*");
  await page.getByRole("button", { name: "Create the agent" }).click();
  await page.waitForURL("**/agents/clerk");
  check((await api("owner", "GET", "/v1/orgs/acme/agents/clerk")).enabled[0] === "arithmetic/*", "there is no such agent");
  await page.getByRole("link", { name: "Delete the agent" }).click();
  await page.getByLabel("Write clerk to confirm").fill("clerk");
  await accessible(page);
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await page.waitForURL("**/console/organizations/acme");
  const { status } = await fetch(`${address}/v1/orgs/acme/agents/clerk`, { headers: { authorization: `Bearer ${tokens.owner}` } });
  check(status === 404, `the agent is still there: ${status}`);
}

await run(async () => {
  const operator = await open();
  await signIn(operator, "operator");
  await dropAPlugin(operator);
  await correctAnUpload(operator);
  const owner = await open({ viewport: { width: 360, height: 640 } });
  await signIn(owner, "owner");
  await writeAFileWithTheKeyboard(owner);
  await tryAssertions(owner);
  await makeAnAgent(owner);

  const plain = await open({ javaScriptEnabled: false });
  await signIn(plain, "operator");
  await plain.goto("/console/upload/plugin");
  await plain.getByLabel("Namespace").fill("stranger");
  await plain.getByLabel("Plugin file").setInputFiles(plugin);
  await plain.getByRole("button", { name: "Load the plugin" }).click();
  await plain.waitForURL("**/console/plugins/stranger");
});
