// People sign in at their provider, without a script, too, and connect a credential there. The provider is another site.
import { accessibility, address, agree, api, check, countClicks, expectFault, open, run, within } from "./console.mjs";

const { TOOLGATE_PROVIDER: provider } = process.env;

const elsewhere = [provider, `${address}/v1/oauth/callback`];

async function signIn(page, path) {
  await page.goto(path);
  await page.getByRole("link", { name: "Sign in with localhost" }).click();
  await page.getByRole("button", { name: "Sign out" }).waitFor();
  check(page.url() === address + path, `the sign-in leads to ${page.url()}`);
}

async function expectAccessible(page) {
  const faults = await accessibility(page);
  check(faults.length === 0, `${page.url()}: ${faults.join("\n")}`);
}

async function signInWithoutScript() {
  const page = await open({ elsewhere, javaScriptEnabled: false });
  await signIn(page, "/console/tokens");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("link", { name: "Sign in with localhost" }).waitFor();
  await page.goto("/console/tokens");
  check(page.url().startsWith(`${address}/console/sign-in`), "the session did not end");
  await page.context().close();
}

async function refuseAForgedResponse() {
  const page = await open({ elsewhere, viewport: { width: 360, height: 800 } });
  await expectFault("410", async () => {
    await page.goto("/console/sign-in/callback?state=made-up&code=made-up");
    await page.getByText("waits for no such sign-in").waitFor();
  });
  check((await page.getByRole("button", { name: "Sign out" }).count()) === 0, "somebody is signed in");
  await expectAccessible(page);
  await page.context().close();
}

async function connectACredential(page) {
  await page.goto("/console/organizations/acme");
  await page.getByRole("link", { name: "Store or change credentials" }).click();
  await expectAccessible(page);
  await page.getByRole("link", { name: "OAuth: a person consents" }).click();
  await page.getByLabel("Name (needed)", { exact: true }).fill("drive");
  await page.getByLabel("Provider").fill("drive");
  await page.getByLabel("Client id").fill("drive");
  await page.getByLabel("Client secret", { exact: true }).fill("drive-secret-canary");
  await page.getByLabel("Authorization URL").fill(`${provider}/auth?prompt=consent`);
  await page.getByLabel("Token URL").fill(`${provider}/token`);
  await page.getByLabel("Scopes").fill("openid");
  await page.getByLabel("Goes to").fill("https://drive.example/");
  await expectAccessible(page);
  await page.getByRole("button", { name: "Store the credential" }).click();
  await page.getByRole("heading", { name: "acme/drive" }).waitFor();
  await expectAccessible(page);
  const credential = () => api("operator", "GET", "/v1/orgs/acme/credentials/drive");
  check((await credential()).state === "pending", "it is connected already");
  await page.getByRole("button", { name: "Connect", exact: true }).click();
  await page.getByRole("link", { name: "Go on to localhost" }).waitFor();
  await expectAccessible(page);
  await page.getByRole("link", { name: "Go on to localhost" }).click();
  // Back from the other site, with the session.
  await page.getByRole("button", { name: "Connect again" }).waitFor();
  check(page.url() === `${address}/console/credentials/acme/drive`, `the provider leads to ${page.url()}`);
  check((await credential()).state === "connected", "it is not connected");
  check(!(await page.content()).includes("canary"), "the page has the secret");
}

async function deleteTheCredential(page) {
  await agree("Delete the credential", () => page.getByRole("button", { name: "Delete the credential" }).click());
  await page.waitForURL("**/console/credentials/acme");
  const { items } = await api("operator", "GET", "/v1/orgs/acme/credentials");
  check(items.length === 0, "the credential is still there");
}

// A person reads what a third party's plugin may reach, accepts it, and connects it at its provider.
async function acceptAndConnect(page) {
  await within(9, page, "accept a plugin and connect it", async () => {
    await page.getByRole("link", { name: "Catalogue", exact: true }).click();
    const organization = page.getByLabel("Organization");
    if (await organization.count()) {
      await organization.fill("acme");
      await page.getByRole("button", { name: "Filter" }).click();
    }
    await page.getByRole("link", { name: "drives", exact: true }).click();
    await page.getByText("third party").first().waitFor();
    await page.getByRole("checkbox", { name: "The organization accepts" }).check();
    await page.getByRole("button", { name: "Save, enable and connect" }).click();
    await page.getByRole("link", { name: "OAuth: a person consents" }).click();
    await page.getByLabel("Name (needed)", { exact: true }).fill("drive");
    await page.getByLabel("Client id").fill("drive");
    await page.getByLabel("Client secret", { exact: true }).fill("drive-secret-canary");
    await page.getByLabel("Authorization URL").fill(`${provider}/auth?prompt=consent`);
    await page.getByLabel("Token URL").fill(`${provider}/token`);
    await page.getByLabel("Scopes").fill("openid");
    await page.getByRole("button", { name: "Store the credential" }).click();
    await page.getByRole("button", { name: "Connect", exact: true }).click();
    await page.getByRole("link", { name: "Go on to localhost" }).click();
    await page.getByRole("button", { name: "Connect again" }).waitFor();
  });
  const view = await api("operator", "GET", "/v1/orgs/acme/enabled/drives");
  check(view.enabled && view.missing_integrations.length === 0, JSON.stringify(view));
}

await run(async () => {
  await signInWithoutScript();
  await refuseAForgedResponse();
  const page = await open({ elsewhere });
  await countClicks(page);
  await page.goto("/console");
  await expectAccessible(page);
  await signIn(page, "/console/calls");
  await connectACredential(page);
  await deleteTheCredential(page);
  await acceptAndConnect(page);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("link", { name: "sign out there" }).waitFor();
  await expectAccessible(page);
});
