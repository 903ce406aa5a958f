"use strict";
const SCROLLS = ".overflow-x-auto, .overflow-auto, .simplebar-content-wrapper, [data-simplebar], .dpp-steps, .dpp-preview, .dpp-board";
// Unfold on Python 3.11 makes of each box that scrolls a region, all of one name: the menu's stays, the browser scrolls the rest.
function scrolls_plainly() {
  for (const box of document.querySelectorAll("[data-simplebar]:not(#nav-sidebar-apps)")) box.removeAttribute("data-simplebar");
}
document.addEventListener("DOMContentLoaded", scrolls_plainly); // before simplebar.js, which stands at the page's end
// What Unfold's pages lack for people who read them with a keyboard or a screen reader.
function completes() {
  const main = document.getElementById("main") || document.getElementById("page");
  if (main && !document.querySelector("main, [role=main]")) main.setAttribute("role", "main");
  for (const box of document.querySelectorAll(SCROLLS)) {
    // Only what does scroll takes a place in the order of tabs.
    if (box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight) box.tabIndex = 0;
  }
}
document.addEventListener("DOMContentLoaded", completes);
addEventListener("load", completes);
addEventListener("resize", completes);
// The first page's numbers, every five seconds while someone looks. A number that could not be read stays, and pales.
const LIVE_MS = 5000;
async function refreshes(panels) {
  if (document.visibilityState !== "visible") return;
  let fresh = null;
  try {
    const answer = await fetch(panels.dataset.liveFrom, { credentials: "same-origin", redirect: "error" });
    if (answer.ok) fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch {
    // The platform is being restarted, or the session has ended: the next look tells.
  }
  panels.classList.toggle("dpp-old", fresh === null);
  for (const shown of panels.querySelectorAll("[data-live]")) {
    const found = fresh && fresh.querySelector(`[data-live="${CSS.escape(shown.dataset.live)}"]`);
    if (found && !shown.contains(document.activeElement)) shown.replaceChildren(...found.childNodes);
  }
  completes();
}
document.addEventListener("DOMContentLoaded", () => {
  const panels = document.querySelector("[data-live-from]");
  if (panels) setInterval(refreshes, LIVE_MS, panels);
});
