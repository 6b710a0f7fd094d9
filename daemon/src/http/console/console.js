// Liveness of the console's pages, which work without it. An element with `data-refresh` is filled again from that address
// of this console, whose text the daemon has escaped.
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
  if (response.type === "opaqueredirect" || response.status === 401) {
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

// Tells screen readers and the tab how many rows wait.
function announce(part) {
  const count = part.querySelector("[data-count]");
  if (!count) return;
  const waiting = Number(count.dataset.count);
  const title = document.title.replace(/^\(\d+\) /, "");
  document.title = waiting > 0 ? `(${waiting}) ${title}` : title;
}

async function keepFresh(part, note) {
  try {
    if (!document.hidden) await refresh(part);
    note.textContent = "";
  } catch {
    note.textContent = "The daemon does not answer. This page shows the last state.";
  }
  setTimeout(() => keepFresh(part, note), PERIOD_MS);
}

for (const part of document.querySelectorAll("[data-refresh]")) {
  const note = document.createElement("p");
  note.className = "quiet";
  note.setAttribute("role", "status");
  part.after(note);
  announce(part);
  setTimeout(() => keepFresh(part, note), PERIOD_MS);
}

// A form whose button asks again, for what cannot be taken back.
document.addEventListener("submit", (event) => {
  const question = event.submitter && event.submitter.dataset.confirm;
  if (question && !confirm(question)) event.preventDefault();
});

// A form is sent once.
document.addEventListener("submit", (event) => {
  if (event.defaultPrevented) return;
  const { submitter } = event;
  if (submitter) setTimeout(() => { submitter.disabled = true; }, 0);
});
window.addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("button[disabled][type=submit]")) button.disabled = false;
});
