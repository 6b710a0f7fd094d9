// What people come to the console for, each from the overview, within a number of clicks. A key that acts as a click counts as one.
import { agree, api, check, countClicks, open, run, signIn, within } from "./console.mjs";

const session = process.env.TOOLGATE_SESSION;

async function call(id, tool, args) {
  const body = { calls: [{ id, tool, arguments: args }] };
  return (await api("orchestrator", "POST", `/v1/sessions/${session}/calls`, body)).results[0];
}

async function ask(id, amount) {
  const { approval } = await call(id, "pay/send", { to: "Bob", amount });
  return approval.id;
}

const approval = (id) => api("owner", "GET", `/v1/approvals/${id}`);

const click = (page, role, name, options = {}) => page.getByRole(role, { name, ...options }).click();

async function decide(page) {
  const id = await ask("t1", 5);
  await within(2, page, "decide an approval", async () => {
    await click(page, "link", /wants to call/);
    await click(page, "button", "Approve this call");
    await page.getByText("approved").first().waitFor();
  });
  check((await approval(id)).state === "approved", "it is not approved");
}

async function decideOtherwise(page) {
  const id = await ask("t2", 7);
  await within(5, page, "decide with changed arguments", async () => {
    await click(page, "link", /wants to call/);
    await page.getByText("Approve with other arguments").click();
    await page.getByLabel("Arguments", { exact: true }).fill('{"to": "Bob", "amount": 1}');
    await click(page, "button", "Approve with these arguments");
    await page.getByText("approved").first().waitFor();
  });
  const decided = await approval(id);
  check(decided.state === "approved" && JSON.stringify(decided.arguments_instead).includes("1"), JSON.stringify(decided));
}

async function makeATool(page) {
  await within(9, page, "make a tool and call it", async () => {
    await click(page, "link", "Catalogue", { exact: true });
    await click(page, "link", "Make a tool");
    await page.getByLabel("Namespace").fill("weather");
    await click(page, "button", "Describe it");
    const form = page.locator("section[aria-labelledby=as-form]");
    await form.getByLabel("Description").first().fill("Weather by place.");
    await form.getByLabel("Base url").fill("https://api.upstream.test:8443/shop");
    const action = form.getByRole("group", { name: "1", exact: true });
    await action.getByLabel("Name", { exact: false }).first().fill("current");
    await action.getByLabel("Description").first().fill("The weather now.");
    await action.getByLabel("Path (needed)").fill("/points/{city}");
    await action.getByText("More:").click();
    const schema = '{"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}';
    await action.getByLabel("Input schema").fill(schema);
    await form.getByRole("button", { name: "Save the tool" }).click();
    await click(page, "link", "Try it");
    await page.getByLabel("City").fill("bern");
    await click(page, "button", "Call the tool");
    await page.getByRole("heading", { name: "Parsed answer" }).waitFor();
    await page.getByText("/shop/points/bern").first().waitFor();
  });
  const stored = await api("owner", "GET", "/v1/orgs/acme/tools/weather");
  check(stored.actions[0].input_schema.required[0] === "city", JSON.stringify(stored));
}

async function importTwo(page) {
  const operation = (id) => ({ get: { operationId: id, summary: `Does ${id}.`, responses: { 200: { description: "OK" } } } });
  const paths = { "/a": operation("one"), "/b": operation("two"), "/c": operation("three") };
  const document = { openapi: "3.1.0", info: { title: "Shop", version: "1" }, servers: [{ url: "https://api.upstream.test:8443" }], paths };
  await within(7, page, "import two operations", async () => {
    await click(page, "link", "Catalogue", { exact: true });
    await click(page, "link", "Make a tool");
    await click(page, "link", "Import an OpenAPI document");
    await page.getByLabel("Namespace").fill("imported");
    await page.getByLabel("OpenAPI document").fill(JSON.stringify(document));
    await click(page, "button", "Show its operations");
    for (const name of ["one", "three"]) {
      await page.getByRole("listitem").filter({ hasText: `Does ${name}.` }).getByRole("checkbox").check();
    }
    await click(page, "button", "Import the chosen ones");
    await page.waitForURL("**/console/tools/acme/imported");
  });
  const { actions } = await api("owner", "GET", "/v1/orgs/acme/tools/imported");
  check(JSON.stringify(actions.map(({ name }) => name)) === '["one","three"]', JSON.stringify(actions));
}

async function giveATool(page) {
  await within(5, page, "give an agent a tool that it lacks", async () => {
    await page.keyboard.press("/");
    await page.keyboard.type("bot");
    await page.keyboard.press("Enter");
    await click(page, "link", "acme/bot");
    await click(page, "link", "Its tools, to be switched");
    const tool = page.getByRole("listitem").filter({ hasText: "arithmetic/evaluate" });
    await tool.getByText("not listed in").waitFor();
    await tool.getByRole("checkbox").check();
    await click(page, "button", "Show what would change");
    await click(page, "button", "Put it in force");
    await page.waitForURL("**/console/organizations/acme/agents/bot");
  });
}

async function findFailures(page) {
  await call("f1", "pay/quote", { to: 5 });
  await within(3, page, "find the failed calls of an agent", async () => {
    await click(page, "link", "Calls", { exact: true });
    await page.getByLabel("Agent").fill("bot");
    await page.getByLabel("Status").selectOption("error");
    await click(page, "button", "Filter");
    await page.getByRole("link", { name: "yesterday" }).waitFor();
    // The call of just now was not yesterday.
    await click(page, "link", "7 days");
    await page.locator(`a[href="/console/calls/${session}/f1"]`).waitFor();
  });
}

async function rollBack(page) {
  const put = (policy, revision) => api("owner", "PUT", "/v1/orgs/acme/policy", policy, { "if-match": revision });
  const before = await api("owner", "GET", "/v1/orgs/acme/policy");
  await put({ ...before, disabled: ["pay/quote"] }, "*");
  await within(7, page, "roll a policy back", async () => {
    await click(page, "link", "Organizations", { exact: true });
    await page.getByRole("table").getByRole("link", { name: "acme", exact: true }).click();
    await click(page, "link", "Edit the policy");
    await click(page, "link", "History, comparison and rollback");
    await page.getByRole("row").nth(2).getByRole("link").click();
    await click(page, "button", "Show what a return would change");
    await click(page, "button", "Put it in force");
    await page.waitForURL("**/console/organizations/acme");
  });
  check(!(await api("owner", "GET", "/v1/orgs/acme/policy")).disabled?.length, "the policy is not as it was");
}

async function seeWhatEnds(page) {
  await api("owner", "POST", "/v1/tokens", { role: "approver", organization: "acme", label: "desk", expires_at: Date.now() + 20 * 24 * 3600 * 1000 });
  await within(1, page, "see what ends this month", async () => {
    await page.getByText("Ends within a month:").click();
    await page.getByRole("listitem").filter({ hasText: "Token desk ends" }).waitFor();
  });
}

async function revoke(page) {
  await within(4, page, "revoke a token", async () => {
    await click(page, "link", "Tokens", { exact: true });
    const row = page.getByRole("row").filter({ hasText: "desk" });
    await agree("Revoke the token", () => row.getByRole("button", { name: "Revoke" }).click());
    await row.waitFor({ state: "detached" });
  });
}

async function follow(page) {
  await within(3, page, "follow a conversation", async () => {
    await click(page, "link", "Sessions", { exact: true });
    await page.locator(`a[href="/console/sessions/${session}"]`).click();
    await click(page, "link", "See its calls");
    await call("l1", "pay/quote", { to: "Ann", amount: 3 });
    await page.locator(`a[href="/console/calls/${session}/l1"]`).waitFor();
  });
}

await run(async () => {
  const page = await open();
  await countClicks(page);
  await signIn(page, "owner");
  await decide(page);
  await decideOtherwise(page);
  await makeATool(page);
  await importTwo(page);
  await giveATool(page);
  await findFailures(page);
  await rollBack(page);
  await seeWhatEnds(page);
  await revoke(page);
  await follow(page);
});
