// Liveness of the console's pages, which work without it. An element with `data-refresh` is filled again from that address
// of this console, whose text the daemon has escaped; with `data-now`, at once.
"use strict";

const PERIOD_MS = 5000;

// Whether a person is in the part, so that its focus or selection would be lost.
function isInUse(part) {
  const selection = document.getSelection();
  const isSelected = selection && !selection.isCollapsed && part.contains(selection.anchorNode);
  return part.contains(document.activeElement) || isSelected;
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
    announce(part);
  }
}

// Tells the tab, and with the person's consent the desktop, how many approvals wait.
let waiting;
function announce(part) {
  const number = part.querySelector("[data-count]");
  if (!number && !part.matches("nav *")) return;
  const count = number ? Number(number.dataset.count) : 0;
  const title = document.title.replace(/^\(\d+\) /, "");
  document.title = count > 0 ? `(${count}) ${title}` : title;
  const isMore = waiting !== undefined && count > waiting;
  waiting = count;
  if (isMore && "Notification" in window && Notification.permission === "granted") {
    new Notification("Toolgate", { body: `${count} calls wait for approval`, tag: "approvals" });
  }
}

async function keepFresh(part, note) {
  try {
    if (!document.hidden || part.matches("nav *")) await refresh(part);
    note.textContent = "";
  } catch {
    note.textContent = "The daemon does not answer. This page shows the last state.";
  }
  setTimeout(() => keepFresh(part, note), PERIOD_MS);
}

for (const part of document.querySelectorAll("[data-refresh]")) {
  const note = document.createElement("p");
  if (part.tagName === "DIV") {
    note.className = "quiet";
    note.setAttribute("role", "status");
    part.after(note);
  }
  setTimeout(() => keepFresh(part, note), "now" in part.dataset ? 0 : PERIOD_MS);
}

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

// A form whose button asks again, for what cannot be taken back, and that is sent once.
document.addEventListener("submit", (event) => {
  const { submitter } = event;
  if (!submitter) return;
  if (submitter.dataset.confirm && !confirm(submitter.dataset.confirm)) {
    event.preventDefault();
    return;
  }
  // The pair of the button is collected after this handler.
  if (event.target.method === "post") setTimeout(() => { submitter.disabled = true; }, 0);
});
window.addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("button:disabled")) button.disabled = false;
});
