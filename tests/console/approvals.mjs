// People decide about approvals: with the keyboard alone, while the inbox is open, and without a script.
import { api, check, expectFault, open, run, signIn, tabTo, tokens, until } from "./console.mjs";

const session = process.env.TOOLGATE_SESSION;

// Makes a call, and returns its result.
async function call(id, amount) {
  const body = { calls: [{ id, tool: "pay/send", arguments: { to: "Bob", amount } }] };
  return (await api("orchestrator", "POST", `/v1/sessions/${session}/calls`, body)).results[0];
}

async function ask(id, amount) {
  const result = await call(id, amount);
  check(result.status === "approval_required", JSON.stringify(result));
  return result.approval.id;
}

const stateOf = async (approval) => (await api("owner", "GET", `/v1/approvals/${approval}`)).state;

async function signInWithAMistake(page) {
  await page.goto("/console/approvals");
  await page.getByLabel("Token").fill("no token");
  await expectFault("401", async () => {
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").waitFor();
  });
  // The second try needs no mouse, and leads to the page that was asked for.
  await page.getByLabel("Token").fill(tokens.owner);
  await page.keyboard.press("Enter");
  await page.waitForURL("**/console/approvals");
}

async function approveWithTheKeyboard(page) {
  const approval = await ask("k1", 5);
  await page.goto("/console");
  await tabTo(page, "the content", (focus) => focus.href === "#main");
  await tabTo(page, "the inbox", (focus) => focus.href === "/console/approvals");
  await page.keyboard.press("Enter");
  await page.waitForURL("**/console/approvals");
  await tabTo(page, "the approval", (focus) => focus.href === `/console/approvals/${approval}`);
  await page.keyboard.press("Enter");
  await page.waitForURL(`**/${approval}`);
  await tabTo(page, "the reason", (focus) => focus.name === "reason");
  await page.keyboard.type("Agreed.");
  await tabTo(page, "the button", (focus) => focus.tag === "button" && focus.text === "Approve this call");
  await page.keyboard.press("Enter");
  await page.getByText("Reason: Agreed.").waitFor();
  check((await stateOf(approval)) === "approved", "the approval is not approved");
  check((await call("k1", 5)).status === "ok", "the call does not run");
}

async function denyWhatAppears(page) {
  await page.goto("/console/approvals");
  // A page that is loaded again loses this mark.
  await page.evaluate(() => document.body.setAttribute("data-mark", "1"));
  const approval = await ask("w1", 6);
  const link = page.locator(`a[href="/console/approvals/${approval}"]`);
  await link.waitFor();
  check(await page.locator("body[data-mark]").count(), "the page was loaded again");
  await until("the title", async () => (await page.title()).startsWith("(1)"));
  await link.click();
  await page.getByLabel("Reason").fill("Too much.");
  await page.getByRole("button", { name: "Deny" }).click();
  await page.getByText("Reason: Too much.").waitFor();
  check((await stateOf(approval)) === "denied", "the approval is not denied");
}

async function decideTogether(page, other) {
  const approval = await ask("t1", 7);
  for (const each of [page, other]) await each.goto(`/console/approvals/${approval}`);
  await other.getByRole("button", { name: "Approve this call" }).click();
  await other.getByText("Calls left: 1").waitFor();
  await expectFault("409", async () => {
    await page.getByRole("button", { name: "Deny" }).click();
    await page.getByText("Already decided").waitFor();
  });
  check((await stateOf(approval)) === "approved", "the second person changed the decision");
}

async function approveWithOtherArguments(page) {
  const approval = await ask("o1", 800);
  await page.goto(`/console/approvals/${approval}`);
  await page.getByText("Approve with other arguments").click();
  await page.getByLabel("Arguments", { exact: true }).fill('{"to": "Bob", "amount": 80}');
  await page.getByRole("button", { name: "Approve with these arguments" }).click();
  await page.getByText("The call runs with other arguments").waitFor();
  const { arguments_instead } = await api("owner", "GET", `/v1/approvals/${approval}`);
  check(arguments_instead.amount === 80, JSON.stringify(arguments_instead));
}

async function goThroughTheQueue(page) {
  const [first, second] = [await ask("g1", 1), await ask("g2", 2)];
  await page.goto(`/console/approvals/${first}`);
  await page.keyboard.press("n");
  await page.waitForURL(`**/${second}`);
  await page.keyboard.press("p");
  await page.waitForURL(`**/${first}`);
}

async function signOut(page) {
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Token").waitFor();
  await page.goto("/console/approvals");
  check(page.url().includes("/console/sign-in"), `signed out, and yet at ${page.url()}`);
}

await run(async () => {
  const page = await open();
  await signInWithAMistake(page);
  await approveWithTheKeyboard(page);
  await denyWhatAppears(page);
  const other = await open({ viewport: { width: 360, height: 640 }, colorScheme: "dark" });
  await signIn(other, "approver");
  await decideTogether(page, other);
  await approveWithOtherArguments(page);
  await goThroughTheQueue(page);
  await signOut(page);

  const plain = await open({ javaScriptEnabled: false });
  await signIn(plain, "owner");
  const approval = await ask("n1", 9);
  await plain.goto("/console/approvals");
  await plain.locator(`a[href="/console/approvals/${approval}"]`).click();
  await plain.getByRole("button", { name: "Approve this call" }).click();
  await plain.getByText("Calls left: 1").waitFor();
  check((await stateOf(approval)) === "approved", "a decision needs the script");
  await signOut(plain);
});
