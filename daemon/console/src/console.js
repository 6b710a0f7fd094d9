// Liveness of the console's pages, which work without it. A page has one stream of changes, from the address in `data-live` of its
// list or of the number in the navigation. Without a stream, an element is filled again from the address in `data-refresh`.
// The daemon has escaped the text of both.
"use strict";

const PERIOD_MS = 5000;
const MOST_ROWS = 100;
const HELD_BACK = "The part that you are in has changed. The change is shown when you leave it.";

// Whether a person is in the part, so that its focus or selection would be lost.
function isInUse(part) {
  const selection = document.getSelection();
  const isSelected = selection && !selection.isCollapsed && selection.containsNode(part, true);
  return part.contains(document.activeElement) || isSelected;
}

// Times as people say them; the exact one is shown on hover. Those in a selection stay as they are.
const PERIODS = [[60, "second"], [60, "minute"], [24, "hour"], [31, "day"]];
const words = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
function sayTimes(part, now = Date.now()) {
  for (const time of part.querySelectorAll("time[datetime]")) {
    let amount = (Date.parse(time.dateTime) - now) / 1000;
    const period = PERIODS.find(([many]) => {
      const fits = Math.abs(amount) < many;
      if (!fits) amount /= many;
      return fits;
    });
    time.title ||= time.textContent;
    const text = period ? words.format(Math.trunc(amount), period[1]) : time.title;
    if (time.textContent !== text && !(time.isConnected && isInUse(time))) time.textContent = text;
  }
}

async function refresh(part) {
  const response = await fetch(part.dataset.refresh, { credentials: "same-origin", redirect: "manual" });
  if (response.type === "opaqueredirect") {
    // The session has ended: the page itself leads to the sign-in.
    location.reload();
    return;
  }
  if (!response.ok) throw new Error(String(response.status));
  const text = await response.text();
  if (text !== part.dataset.shown && !isInUse(part)) {
    part.dataset.shown = text;
    part.innerHTML = text;
    sayTimes(part);
    if (part === badge) announce();
  }
}

// Tells the tab, and with the person's consent the desktop, how many approvals wait.
let waiting;
function announce() {
  const number = badge.querySelector("[data-count]");
  const count = number ? Number(number.dataset.count) : 0;
  const title = document.title.replace(/^\(\d+\) /, "");
  document.title = count > 0 ? `(${count}) ${title}` : title;
  const isMore = waiting !== undefined && count > waiting;
  waiting = count;
  if (isMore && "Notification" in window && Notification.permission === "granted") {
    new Notification("Toolgate", { body: `${count} calls wait for approval`, tag: "approvals" });
  }
}

const badge = document.querySelector("nav [data-live]");
const list = document.querySelector("main [data-live]");
const parts = [list, badge].filter(Boolean);
// The open stream, the id of its last event, and the number of rows that were not sent.
let source;
let lastEvent = "";
let leftOut = 0;
let isPaused = false;
// Whether the list lacks a change, since a person was in its place.
let isStale = false;
// Grows with each change between stream and polls, so that older polls end.
let turn = 0;

const state = document.createElement("p");
const remainder = document.createElement("p");
state.className = remainder.className = "quiet";
state.setAttribute("role", "status");
if (list) list.after(remainder, state);

function tell(text) {
  if (state.textContent !== text) state.textContent = text;
}

const tellProblem = () => tell("The daemon does not answer. This page shows the last state.");

function leaveOut(number) {
  leftOut += number;
  if (leftOut > 0) remainder.textContent = `${leftOut} more since this page was opened are not shown here.`;
}

// Asks for a part again and again.
async function poll(part, goesOn) {
  while (goesOn()) {
    try {
      if (!document.hidden || part === badge) await refresh(part);
      if (goesOn()) tell("");
    } catch {
      if (goesOn()) tellProblem();
    }
    await new Promise((resolve) => setTimeout(resolve, PERIOD_MS));
  }
}

// Puts rows in the place of those with the same key, or where the newest belong.
function changeRows({ rows, removed, left_out }) {
  const body = list.querySelector("tbody");
  const find = (key) => body.querySelector(`[data-row="${CSS.escape(key)}"]`);
  const parsed = document.createElement("template");
  parsed.innerHTML = rows;
  sayTimes(parsed.content);
  const added = [];
  if (body) {
    for (const row of removed.map(find).filter(Boolean)) {
      if (isInUse(row)) isStale = true;
      else row.remove();
    }
    for (const row of [...parsed.content.children]) {
      const older = find(row.dataset.row);
      if (!older) added.push(row);
      else if (isInUse(older)) isStale = true;
      else older.replaceWith(row);
    }
    if (list.dataset.order === "newest") body.prepend(...added);
    else body.append(...added);
    while (body.rows.length > MOST_ROWS) body.rows[body.rows.length - 1].remove();
  }
  leaveOut(left_out);
  if (isStale) tell(HELD_BACK);
  // The note of an empty list comes and goes with the whole of it, which a new stream begins with.
  if (!body || body.rows.length === 0) listenAnew();
}

// Shows the whole list. Rows that a person is in stay as they are, among the other ones.
function showWhole({ html }) {
  isStale = isInUse(list);
  if (!isStale) {
    list.innerHTML = html;
    sayTimes(list);
  } else {
    const parsed = document.createElement("template");
    parsed.innerHTML = html;
    // Rows are compared, so that both say their times at one moment.
    const now = Date.now();
    for (const part of [list, parsed.content]) sayTimes(part, now);
    const [body, wanted] = [list, parsed.content].map((part) => part.querySelector("tbody"));
    if (wanted && [...(body?.rows ?? [])].some(isInUse)) isStale = putAround(body, [...wanted.rows]);
  }
  tell(isStale ? HELD_BACK : "");
}

// Puts the wanted rows around those that a person is in. Returns whether one of these is not as it is wanted.
function putAround(body, wanted) {
  const held = [...body.rows].filter(isInUse);
  for (const row of [...body.rows]) if (!held.includes(row)) row.remove();
  const isAsWanted = (own) => wanted.some((row) => row.isEqualNode(own));
  const isBehind = held.some((own) => !isAsWanted(own));
  let next = held[0];
  for (const row of wanted) {
    const own = held.find(({ dataset }) => dataset.row === row.dataset.row);
    if (own) next = own.nextElementSibling;
    else body.insertBefore(row, next);
  }
  return isBehind;
}

// Begins with the whole list again.
function listenAnew() {
  source.close();
  lastEvent = "";
  isStale = false;
  listen();
}

// Makes up for the changes that were left out, when the person has gone elsewhere.
function catchUp() {
  if (isStale && source && !isInUse(list)) listenAnew();
}

// Opens the stream. A hidden page has none, since a browser opens few connections to one daemon.
function listen() {
  turn += 1;
  for (const part of parts) delete part.dataset.shown;
  const address = new URL((list ?? badge).dataset.live, location.href);
  if (lastEvent) address.searchParams.set("cursor", lastEvent);
  source = new EventSource(address);
  const on = (name, act) => source.addEventListener(name, (event) => {
    if (event.lastEventId) lastEvent = event.lastEventId;
    act(JSON.parse(event.data));
  });
  on("badge", ({ html }) => {
    badge.innerHTML = html;
    announce();
  });
  on("rows", changeRows);
  on("left_out", ({ left_out }) => leaveOut(left_out));
  on("whole", showWhole);
  source.addEventListener("open", () => tell(isStale ? HELD_BACK : ""));
  source.addEventListener("error", () => {
    tellProblem();
    // The browser tries again by itself, unless the answer was no stream.
    if (source?.readyState === EventSource.CLOSED) stop();
  });
}

function stop() {
  source?.close();
  source = undefined;
  turn += 1;
  const own = turn;
  if (!isPaused) for (const part of parts) poll(part, () => own === turn);
}

function start() {
  if (!source && !isPaused && parts.length > 0) listen();
}

function pause(button) {
  isPaused = !isPaused;
  button.textContent = isPaused ? "Go on with updates" : "Pause updates";
  if (isPaused) stop();
  else start();
  tell(isPaused ? "Paused." : "");
}

if (list) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "plain";
  button.textContent = "Pause updates";
  button.addEventListener("click", () => pause(button));
  state.after(button);
  // The element that gets the focus has it after this event.
  list.addEventListener("focusout", () => setTimeout(catchUp, 0));
  document.addEventListener("selectionchange", catchUp);
}
// Parts that have no stream.
for (const part of document.querySelectorAll("[data-refresh]:not([data-live])")) poll(part, () => true);
if (document.hidden) stop();
else start();
document.addEventListener("visibilitychange", () => {
  if (document.hidden) stop();
  else start();
});
window.addEventListener("pagehide", () => source?.close());

sayTimes(document);
setInterval(() => sayTimes(document), 6 * PERIOD_MS);

// The inbox offers notifications of the browser, where a person has not answered before.
const inbox = document.querySelector("[data-notify]");
if (inbox && "Notification" in window && Notification.permission === "default") {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "plain";
  button.textContent = "Notify me of new approvals";
  button.addEventListener("click", async () => {
    await Notification.requestPermission();
    button.remove();
  });
  inbox.append(button);
}

// Parts that name a key: the neighbours in the queue of approvals, and the search.
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, textarea, select, [contenteditable]");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const part = document.querySelector(`[aria-keyshortcuts="${CSS.escape(event.key)}"]`);
  if (!part) return;
  event.preventDefault();
  if (part.matches("a")) part.click();
  else part.focus();
});

// A form whose button asks again, for what cannot be taken back, and that is sent once.
document.addEventListener("submit", (event) => {
  const { submitter } = event;
  if (!submitter) return;
  if (submitter.dataset.confirm && !confirm(submitter.dataset.confirm)) {
    event.preventDefault();
    return;
  }
  // The pair of the button is collected after this handler.
  if (event.target.method !== "post") return;
  setTimeout(() => {
    submitter.disabled = true;
    if (!submitter.dataset.busy) return;
    submitter.dataset.label = submitter.textContent;
    submitter.textContent = submitter.dataset.busy;
  }, 0);
});
window.addEventListener("pageshow", (event) => {
  // A page that the browser kept is live again.
  if (event.persisted) {
    source = undefined;
    start();
  }
  for (const button of document.querySelectorAll("button:disabled")) {
    button.disabled = false;
    if (button.dataset.label) button.textContent = button.dataset.label;
  }
});

// A file that is dropped onto the part of a form is chosen in its field. Elsewhere it would open in place of the page.
const drops = [...document.querySelectorAll("[data-drop]")];
const hasFile = (event) => event.dataTransfer?.types.includes("Files");
for (const kind of drops.length > 0 ? ["dragover", "drop"] : []) {
  window.addEventListener(kind, (event) => hasFile(event) && event.preventDefault());
}
for (const part of drops) {
  const field = part.querySelector("input");
  part.addEventListener("dragover", (event) => part.classList.toggle("over", hasFile(event)));
  part.addEventListener("dragleave", () => part.classList.remove("over"));
  part.addEventListener("drop", (event) => {
    part.classList.remove("over");
    const [file] = event.dataTransfer.files;
    if (!file) return;
    const chosen = new DataTransfer();
    chosen.items.add(file);
    field.files = chosen.files;
    field.dispatchEvent(new Event("change"));
  });
  // A plugin's file is mostly named as its namespace.
  const namespace = field.form.querySelector("[name=namespace]");
  field.addEventListener("change", () => {
    const name = field.files[0]?.name.replace(/\.wasm$/, "").replaceAll("_", "-");
    if (namespace && namespace.value === "" && name) namespace.value = name;
  });
}
