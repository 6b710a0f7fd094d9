// Opens every page that links lead to, light and dark, wide and narrow: accessibility, weight, overflow, screenshots.
import fs from "node:fs";
import zlib from "node:zlib";

import { accessibility, api, check, open, pictures, run, signIn } from "./console.mjs";

// A page with its style and script, compressed.
const MOST_BYTES = 60 * 1024;
const MOST_ROWS = 100;
const MOST_PAGES = 80;

const LOOKS = [
  { name: "wide", width: 1280, colorScheme: "light" },
  { name: "dark", width: 1280, colorScheme: "dark" },
  { name: "narrow", width: 360, colorScheme: "light" },
];

// One page of each kind is enough: `/console/calls/S/C` and the next call look the same.
function kind(link) {
  const { pathname, searchParams } = new URL(link, "http://console");
  const parts = pathname.split("/").slice(2);
  return `${parts[0] ?? ""} ${parts.length} ${parts[3] ?? ""} ${[...searchParams.keys()]}`;
}

async function pagesOf(page) {
  const found = new Map([[kind("/console"), "/console"]]);
  for (const path of found.values()) {
    if (found.size > MOST_PAGES) break;
    await page.goto(path);
    const anchors = page.locator("a[href^='/console']:not([download])");
    const links = await anchors.evaluateAll((anchors) => anchors.map((anchor) => anchor.getAttribute("href").split("#")[0]));
    for (const link of links) {
      if (!found.has(kind(link)) && !link.includes("/export")) found.set(kind(link), link);
    }
  }
  return [...new Set(found.values())];
}

// The bytes of a page with what it loads, as a browser gets them compressed.
async function weigh(page, path) {
  const bodies = [];
  // A stream has no end, and is no weight of the page.
  const isStream = (response) => (response.headers()["content-type"] ?? "").startsWith("text/event-stream");
  const collect = (response) => isStream(response) || bodies.push(response.body().catch(() => Buffer.alloc(0)));
  page.on("response", collect);
  await page.goto(path, { waitUntil: "load" });
  page.off("response", collect);
  const all = await Promise.all(bodies);
  return all.reduce((bytes, body) => bytes + zlib.gzipSync(body).length, 0);
}

async function look(page, path, name) {
  const faults = [];
  const bytes = await weigh(page, path);
  if (bytes > MOST_BYTES) faults.push(`has ${bytes} bytes compressed`);
  const seen = await page.evaluate(() => ({
    overflow: document.scrollingElement.scrollWidth - document.documentElement.clientWidth,
    rows: Math.max(0, ...[...document.querySelectorAll("tbody")].map((body) => body.rows.length)),
    levels: [...document.querySelectorAll("h1, h2, h3, h4")].map((heading) => Number(heading.tagName[1])),
    styled: document.querySelectorAll("[style]").length,
  }));
  if (seen.overflow > 0) faults.push(`is ${seen.overflow} pixels too wide`);
  if (seen.rows > MOST_ROWS) faults.push(`has ${seen.rows} rows`);
  if (seen.styled > 0) faults.push("has inline styles");
  if (seen.levels.some((level, at) => level > (seen.levels[at - 1] ?? 0) + 1)) faults.push(`leaves out a heading: ${seen.levels}`);
  faults.push(...(await accessibility(page)));
  const file = `${(path.replace(/^\/console\/?/, "") || "overview").replace(/[^A-Za-z0-9]+/g, "-").slice(0, 80)}.${name}.png`;
  await page.screenshot({ path: `${pictures}/${file}`, fullPage: true });
  return faults.map((fault) => `${path} (${name}) ${fault}`);
}

await run(async () => {
  fs.mkdirSync(pictures, { recursive: true });
  const faults = [];
  for (const { name, width, colorScheme } of LOOKS) {
    const page = await open({ viewport: { width, height: 800 }, colorScheme });
    faults.push(...(await look(page, "/console/sign-in", name)));
    await signIn(page, "operator");
    const paths = await pagesOf(page);
    check(paths.length >= 8, `few pages: ${paths}`);
    for (const path of paths) faults.push(...(await look(page, path, name)));
    await page.context().close();
  }
  // The walk only looked.
  const { items } = await api("operator", "GET", "/v1/approvals?state=pending");
  check(items.length > 0, "no approval waits any more");
  check(faults.length === 0, [...new Set(faults)].join("\n"));
});
