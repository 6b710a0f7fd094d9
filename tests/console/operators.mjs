// Owners and operators watch calls, find out why an agent may not, and change tokens, plugins and sessions.
import { address, agree, api, check, open, run, signIn, tokens, until } from "./console.mjs";

const session = process.env.TOOLGATE_SESSION;

async function call(id, tool, args) {
  const body = { calls: [{ id, tool, arguments: args }] };
  return (await api("orchestrator", "POST", `/v1/sessions/${session}/calls`, body)).results[0];
}

async function watchCalls(page) {
  await page.goto("/console/calls");
  await page.evaluate(() => document.body.setAttribute("data-mark", "1"));
  await call("q1", "pay/quote", { to: "Bob", amount: 5 });
  const link = page.locator(`a[href="/console/calls/${session}/q1"]`);
  await link.waitFor();
  check(await page.locator("body[data-mark]").count(), "the page was loaded again");
  await link.click();
  await page.getByRole("heading", { name: "Gate", exact: true }).waitFor();
  await page.getByText('"Bob"').first().waitFor();
  check((await page.locator("svg.waterfall rect").count()) > 0, "no phase has a bar");
  check((await page.locator("#records ~ .table tbody tr").count()) === 2, "intent and outcome have no hashes");
}

async function pauseUpdates(page) {
  const twin = await page.context().newPage();
  for (const each of [page, twin]) await each.goto("/console/calls");
  await page.getByRole("button", { name: "Pause updates" }).click();
  await call("q2", "pay/quote", { to: "Ann", amount: 6 });
  const link = `a[href="/console/calls/${session}/q2"]`;
  await twin.locator(link).waitFor();
  check((await page.locator(link).count()) === 0, "a paused page changes");
  await page.getByRole("button", { name: "Go on with updates" }).click();
  await page.locator(link).waitFor();
  await twin.close();
}

// A row that has the focus stays as it is, among newer ones, and is made anew when the person goes on.
async function focusACall(page) {
  const link = (id) => page.locator(`a[href="/console/calls/${session}/${id}"]`);
  const twin = await page.context().newPage();
  for (const each of [page, twin]) await each.goto("/console/calls");
  await link("q1").focus();
  // The list that comes next has another row of this call, without the mark.
  const mark = page.locator("tr[data-mark]");
  await link("q1").evaluate((element) => element.closest("tr").setAttribute("data-mark", "1"));
  // A click of the script leaves the focus where it is.
  const press = (name) => page.getByRole("button", { name }).evaluate((button) => button.click());
  await press("Pause updates");
  // Of more than one change, the page gets the whole list.
  const missed = ["missed1", "missed2", "missed3"];
  for (const id of missed) {
    await call(id, "pay/quote", { to: "Ann", amount: 7 });
    await twin.locator(`a[href="/console/calls/${session}/${id}"]`).waitFor();
  }
  for (const id of missed) check((await link(id).count()) === 0, "a paused page changes");
  await press("Go on with updates");
  for (const id of missed) await link(id).waitFor();
  const note = page.getByText("The part that you are in has changed");
  await note.waitFor();
  await call("q3", "pay/quote", { to: "Ann", amount: 8 });
  await link("q3").waitFor();
  check(await link("q1").evaluate((element) => element === document.activeElement), "the focus is lost");
  check((await mark.count()) === 1, "the row that has the focus is another one");
  const links = page.locator(`main a[href^="/console/calls/${session}/"]`);
  const shown = await links.evaluateAll((links) => links.map((each) => each.pathname.split("/").pop()));
  const ids = [...missed, "q1", "q3"].filter((id) => shown.filter((other) => other === id).length !== 1);
  check(ids.length === 0, `not once in the list: ${ids} of ${shown}`);
  check(shown.indexOf("missed1") < shown.indexOf("q1"), `not the newest first: ${shown}`);
  await page.evaluate(() => document.activeElement.blur());
  await mark.waitFor({ state: "detached" });
  await note.waitFor({ state: "detached" });
  await twin.close();
}

async function findOutWhy(page) {
  const refused = await call("r1", "files/read", { path: "a" });
  check(refused.error?.error_type === "ACCESS_DENIED", JSON.stringify(refused));
  await page.goto("/console/calls");
  await page.getByLabel("Status").selectOption("error");
  await page.getByRole("button", { name: "Filter" }).click();
  await page.locator(`a[href="/console/calls/${session}/r1"]`).click();
  await page.getByRole("link", { name: "explain with the present rules" }).click();
  await page.getByRole("heading", { name: "Each rule of the gate, in its order" }).waitFor();
  await page.getByText("ACCESS_DENIED").first().waitFor();
}

async function changeTokens(page) {
  await page.goto("/console/tokens");
  await page.getByLabel("Role").selectOption("approver");
  await page.getByLabel("Label").fill("Ann's telephone");
  await page.getByLabel("Days until it ends").fill("30");
  await page.getByRole("button", { name: "Create the token" }).click();
  await page.getByText("It is not shown again").waitFor();
  const token = (await page.locator("pre code").first().innerText()).trim();
  const ask = () => fetch(`${address}/v1/approvals`, { headers: { authorization: `Bearer ${token}` } });
  check((await ask()).status === 200, "the token is not valid");
  await page.getByRole("link", { name: "All tokens" }).click();
  const row = page.getByRole("row").filter({ hasText: "Ann's telephone" });
  await agree("Revoke the token", () => row.getByRole("button", { name: "Revoke" }).click());
  await page.waitForURL("**/console/tokens");
  await until("the end of the token", async () => (await ask()).status === 401);
}

async function editThePolicy(page) {
  await page.goto("/console/organizations/acme");
  await page.getByRole("link", { name: "Edit the policy" }).click();
  await page.getByLabel("Document, as JSON").fill('{"enabled": "*", "disabled": ["pay/quote"]}');
  await page.locator("section[aria-labelledby=as-text]").getByRole("button", { name: "Show what would change" }).click();
  await page.getByRole("row").filter({ hasText: "quote" }).filter({ hasText: "refused" }).waitFor();
  check((await api("owner", "GET", "/v1/orgs/acme/policy")).disabled === undefined, "a preview changes the policy");
  await page.getByRole("button", { name: "Put it in force" }).click();
  await page.waitForURL("**/console/organizations/acme");
  check((await api("owner", "GET", "/v1/orgs/acme/policy")).disabled?.[0] === "pay/quote", "the policy is not in force");
}

// Back to the policy as it was, by its history.
async function rollThePolicyBack(page) {
  await page.goto("/console/organizations/acme");
  await page.getByRole("link", { name: "Edit the policy" }).click();
  await page.getByRole("link", { name: "History, comparison and rollback" }).click();
  await page.getByRole("row").nth(2).getByRole("link").click();
  await page.getByText("pay/quote").first().waitFor();
  await page.getByRole("button", { name: "Show what a return would change" }).click();
  await page.getByRole("button", { name: "Put it in force" }).click();
  await page.waitForURL("**/console/organizations/acme");
  check((await api("owner", "GET", "/v1/orgs/acme/policy")).disabled === undefined, "the policy is not as it was");
}

// Finds an agent by the keyboard, sees why it lacks a tool, and gives it.
async function giveATool(page) {
  await page.goto("/console");
  await page.keyboard.press("/");
  await page.keyboard.type("bot");
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: "acme/bot" }).click();
  await page.getByRole("link", { name: "Its tools, to be switched" }).click();
  const tool = page.getByRole("listitem").filter({ hasText: "arithmetic/evaluate" });
  await tool.getByText("refused").waitFor();
  await tool.getByText("not listed in").waitFor();
  await tool.getByRole("checkbox").check();
  await page.getByRole("button", { name: "Show what would change" }).click();
  await page.getByRole("row").filter({ hasText: "evaluate" }).waitFor();
  await page.getByRole("button", { name: "Put it in force" }).click();
  await page.waitForURL("**/console/organizations/acme/agents/bot");
  const { enabled } = await api("owner", "GET", "/v1/orgs/acme/agents/bot");
  check(enabled.includes("arithmetic/evaluate") && enabled.length > 1, JSON.stringify(enabled));
}

async function changePlugins(page) {
  await page.goto("/console/plugins");
  await page.getByRole("link", { name: "pay", exact: true }).click();
  await agree("Disable the plugin", () => page.getByRole("button", { name: "Disable" }).click());
  const button = page.getByRole("button", { name: "Enable" });
  await button.waitFor();
  check((await api("operator", "GET", "/v1/plugins/pay")).state === "disabled", "the plugin is not disabled");
  await agree("Enable the plugin", () => button.click());
  await page.getByRole("button", { name: "Disable" }).waitFor();
  check((await api("operator", "GET", "/v1/plugins/pay")).state === "active", "the plugin is not active");
}

async function endSession(page) {
  await page.goto(`/console/sessions/${session}`);
  await agree("End the session", () => page.getByRole("button", { name: "End the session" }).click());
  await page.waitForURL("**/console/sessions");
  const { status } = await fetch(`${address}/v1/sessions/${session}`, {
    headers: { authorization: `Bearer ${tokens.owner}` },
  });
  check(status === 404 || status === 410, `the session is still there: ${status}`);
}

await run(async () => {
  const page = await open();
  await signIn(page, "owner");
  await watchCalls(page);
  await pauseUpdates(page);
  await focusACall(page);
  await findOutWhy(page);
  await changeTokens(page);
  await editThePolicy(page);
  await rollThePolicyBack(page);
  await giveATool(page);
  const other = await open();
  await signIn(other, "operator");
  await changePlugins(other);
  await endSession(page);
});
