// A person at the console: Debian's Chromium, driven by npm `playwright-core`. Every page that is opened with `open` is watched for
// errors, and for requests to elsewhere.
//
// `TOOLGATE_ADDRESS` (`http://127.0.0.1:7300`), `TOOLGATE_CHROMIUM` (the program) and `TOOLGATE_PICTURES` (a folder for screenshots)
// configure it, and `TOOLGATE_TOKENS` has tokens by role, as JSON. The libraries are in the working directory.
import { createRequire } from "node:module";
import path from "node:path";

const require = createRequire(path.join(process.cwd(), "package.json"));
const { chromium } = require("playwright-core");
const axe = require("axe-core");

export const { TOOLGATE_ADDRESS: address, TOOLGATE_PICTURES: pictures } = process.env;
export const tokens = JSON.parse(process.env.TOOLGATE_TOKENS);

// Far longer than any step takes on a loaded machine.
const TIMEOUT_MS = 300_000;

const FLAGS = [
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

// What was wrong on pages, in the order of its occurrence.
const faults = [];
// Parts of the questions that a test says yes to, in their order.
const questions = [];
let browser;

export function check(holds, what) {
  if (!holds) throw new Error(what);
}

// Asks until a condition holds.
export async function until(what, holds) {
  const end = Date.now() + TIMEOUT_MS;
  while (Date.now() < end) {
    if (await holds()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`waited too long for ${what}`);
}

// Sends a request to the programming interface with the token of a role.
export async function api(role, method, path, body, headers = {}) {
  const response = await fetch(address + path, {
    method,
    headers: { authorization: `Bearer ${tokens[role]}`, "content-type": "application/json", ...headers },
    body: body && JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return text && JSON.parse(text);
}

// Opens a window with a session of its own. `elsewhere` has the origins and pages besides the console that it may ask.
export async function open({ elsewhere = [], ...options } = {}) {
  browser ??= await chromium.launch({ executablePath: process.env.TOOLGATE_CHROMIUM, args: FLAGS, timeout: TIMEOUT_MS });
  const context = await browser.newContext({ baseURL: address, viewport: { width: 1280, height: 800 }, ...options });
  context.setDefaultTimeout(TIMEOUT_MS);
  const page = await context.newPage();
  const fault = (what) => faults.push(`${page.url()}: ${what}`);
  page.on("pageerror", (error) => fault(error.message));
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && fault(message.text()));
  const places = [`${address}/console`, ...elsewhere];
  page.on("request", (request) => places.some((place) => request.url().startsWith(place)) || fault(`asks ${request.url()}`));
  page.on("dialog", (dialog) => {
    const question = questions.shift();
    if (question && dialog.message().includes(question)) return dialog.accept();
    fault(`a dialog: ${dialog.message()}`);
    return dialog.dismiss();
  });
  return page;
}

export async function signIn(page, role) {
  await page.goto("/console");
  await page.getByLabel("Token").fill(tokens[role]);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("button", { name: "Sign out" }).waitFor();
}

// Asserts that an action makes the browser report an error, such as the status of a refused form, and forgets it.
export async function expectFault(part, action) {
  const before = faults.length;
  await action();
  await until(part, () => faults.length > before);
  const found = faults.splice(before);
  check(found.every((fault) => fault.includes(part)), `not ${part}: ${found.join("\n")}`);
}

// Says yes to the question that an action asks.
export async function agree(question, action) {
  questions.push(question);
  await action();
  check(questions.length === 0, `nothing asks: ${question}`);
}

// Counts the clicks on a page from now on; a key that acts as a click is one. The browser keeps the number across pages.
export const countClicks = (page) => page.addInitScript(() => {
  const count = (event) => {
    // A click on a label is followed by one on its field.
    const field = event.target.closest("label")?.control;
    if (field && event.target !== field) return;
    sessionStorage.setItem("clicks", String(Number(sessionStorage.getItem("clicks")) + 1));
  };
  document.addEventListener("click", count, true);
});

// Does a task from the overview, within a number of clicks on the console's pages.
export async function within(most, page, what, task) {
  await page.goto("/console");
  await page.evaluate(() => sessionStorage.setItem("clicks", "0"));
  await task();
  const clicks = Number(await page.evaluate(() => sessionStorage.getItem("clicks")));
  check(clicks > 0 && clicks <= most, `${what}: ${clicks} clicks, not 1 to ${most}`);
}

// Presses Tab until the element that has the focus fits. Each element on the way shows its focus.
export async function tabTo(page, what, fits) {
  for (let presses = 0; presses < 200; presses += 1) {
    await page.keyboard.press("Tab");
    const focus = await page.evaluate(() => {
      const element = document.activeElement;
      const style = getComputedStyle(element);
      return {
        tag: element.tagName.toLowerCase(),
        text: (element.innerText || element.value || element.getAttribute("aria-label") || "").trim(),
        name: element.getAttribute("name"),
        href: element.getAttribute("href"),
        isShown: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1,
      };
    });
    if (focus.tag === "body") continue;
    check(focus.isShown, `the focus is not shown: ${JSON.stringify(focus)}`);
    if (fits(focus)) return;
  }
  throw new Error(`the keyboard does not reach ${what} on ${page.url()}`);
}

// The findings of axe that bar people: serious and critical ones.
export async function accessibility(page) {
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return violations
    .filter((violation) => ["serious", "critical"].includes(violation.impact))
    .map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.slice(0, 3).map((node) => node.html).join(" | ")}`);
}

// Runs a script of a test to its end. Faults of pages fail it.
export async function run(script) {
  let failure;
  try {
    // Pages lack what is still being compiled.
    await until("the plugins", async () => (await (await fetch(`${address}/readyz`)).json()).compiling.length === 0);
    await script();
  } catch (error) {
    failure = error.stack;
  }
  await browser?.close();
  const lines = [failure, ...faults].filter(Boolean);
  if (lines.length > 0) {
    console.error(lines.join("\n"));
    process.exitCode = 1;
  }
}
