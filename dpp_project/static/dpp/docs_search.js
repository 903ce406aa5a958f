"use strict";
// The search box: an index of all sections, loaded when the box is first used, filtered here. Arrows move, Enter opens, Escape closes.
const MOST = 12, AROUND = 70;
const form = document.querySelector("form.search");
const box = form.querySelector("input");
const found = form.querySelector(".found");
const told = form.querySelector("[role=status]");
let index = null;

function load() {
  index ??= fetch(form.dataset.index)
    .then(answer => answer.ok ? answer.json() : Promise.reject(new Error(String(answer.status))))
    .then(sections => sections.map(one => ({ ...one, low: { page: one.page.toLowerCase(), heading: one.heading.toLowerCase(), text: one.text.toLowerCase() } })))
    .catch(error => { index = null; throw error; });
  return index;
}

// Each word must stand somewhere in a section; where it stands says how much that is worth.
function worth(section, words) {
  let sum = { Begin: 4, Use: 4, Operate: 2 }[section.part] ?? 0;
  for (const word of words) {
    const { page, heading, text } = section.low;
    if (heading === word) sum += 60;
    else if (heading.split(/[^\p{L}\p{N}_]+/u).includes(word)) sum += 30;
    else if (heading.includes(word)) sum += 20;
    else if (page.includes(word)) sum += 12;
    else if (text.includes(word)) sum += 5;
    else return 0;
  }
  return sum;
}

function marked(text, words) {
  const whole = document.createElement("span");
  const low = text.toLowerCase();
  const places = words.map(word => low.indexOf(word)).filter(place => place >= 0);
  const near = (places.length ? Math.min(...places) : 0) - AROUND;
  const from = near > 0 ? text.indexOf(" ", near) + 1 : 0;
  const shown = (from ? "…" : "") + text.slice(from, from + 2.5 * AROUND) + (text.length > from + 2.5 * AROUND ? "…" : "");
  let at = 0;
  const below = shown.toLowerCase();
  while (at < shown.length) {
    const next = words.map(word => [below.indexOf(word, at), word.length]).filter(([place]) => place >= 0).sort((a, b) => a[0] - b[0])[0];
    if (!next) break;
    whole.append(shown.slice(at, next[0]));
    const mark = document.createElement("mark");
    mark.textContent = shown.slice(next[0], next[0] + next[1]);
    whole.append(mark);
    at = next[0] + next[1];
  }
  whole.append(shown.slice(at));
  return whole;
}

function close() {
  found.hidden = true;
  found.replaceChildren();
  told.textContent = "";
}

function say(text) {
  const line = document.createElement("p");
  line.textContent = text;
  found.replaceChildren(line);
  found.hidden = false;
  told.textContent = text;
}

async function search() {
  const asked = box.value;
  const words = asked.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return close();
  let sections;
  try {
    sections = await load();
  } catch {
    return say("The index did not come. Type on to try again.");
  }
  if (asked !== box.value) return;
  const best = sections.map(section => [worth(section, words), section]).filter(([sum]) => sum > 0).sort((a, b) => b[0] - a[0]);
  if (!best.length) return say(`Nothing has “${asked.trim()}”.`);
  found.replaceChildren(...best.slice(0, MOST).map(([, section]) => {
    const link = document.createElement("a");
    link.href = section.address;
    const title = document.createElement("strong");
    title.textContent = section.heading === section.page ? section.page : `${section.page}: ${section.heading}`;
    link.append(title, marked(section.text, words));
    return link;
  }));
  found.hidden = false;
  told.textContent = best.length === 1 ? "One place found" : `${best.length} places found; arrow down for the first`;
}

box.addEventListener("input", search);
box.addEventListener("focus", () => { load().catch(() => {}); if (box.value) search(); });
form.addEventListener("submit", event => { event.preventDefault(); found.querySelector("a")?.click(); });
form.addEventListener("keydown", event => {
  const links = [...found.querySelectorAll("a")];
  const at = links.indexOf(document.activeElement);
  if (event.key === "Escape") { close(); box.focus(); close(); }
  else if (event.key === "ArrowDown" && links.length) { event.preventDefault(); links[Math.min(at + 1, links.length - 1)].focus(); }
  else if (event.key === "ArrowUp" && links.length) { event.preventDefault(); (at > 0 ? links[at - 1] : box).focus(); }
});
found.addEventListener("click", event => { if (event.target.closest("a")) close(); });
document.addEventListener("click", event => { if (!form.contains(event.target)) close(); });
document.addEventListener("keydown", event => {
  if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !event.target.closest("input, textarea, select, [contenteditable]")) {
    event.preventDefault();
    box.focus();
  }
});
form.hidden = false;
// On a phone the list of pages is in the way of the page.
if (matchMedia("(max-width: 52rem)").matches) document.querySelector(".menu")?.removeAttribute("open");
