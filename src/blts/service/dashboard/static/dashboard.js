// Pages work without this file. It keeps them up to date, checks a form while somebody types, copies code, and switches the theme.
"use strict";

const root = document.documentElement;
const view = () => document.getElementById("view");

// The theme: remembered in a cookie, so that the server draws the next page in it.
const theme = document.getElementById("theme");
if (theme) {
  theme.addEventListener("click", (event) => {
    event.preventDefault();
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    const path = new URL(theme.form.action).pathname.replace(/theme$/, "");
    document.cookie = `blts_theme=${root.dataset.theme}; path=${path}; max-age=31536000; samesite=lax`;
  });
}

// Copy buttons.
function copies() {
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.onclick = async () => {
      const from = document.getElementById(button.dataset.copy);
      const text = from.value === undefined ? from.textContent : from.value;
      try {
        await navigator.clipboard.writeText(text);
      } catch {
        return from.select ? from.select() : getSelection().selectAllChildren(from);
      }
      const said = button.firstChild;
      said.textContent = "Copied";
      setTimeout(() => { said.textContent = "Copy"; }, 1500);
    };
  }
}
copies();

// On a narrow screen the tab of this page may be out of sight.
const current = document.querySelector(".tabs [aria-current]");
if (current) current.parentElement.scrollLeft = current.offsetLeft - 60;

// Menus close on Escape and on a click elsewhere.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const open = document.activeElement.closest("details.menu[open], details.confirm[open]");
  if (open) {
    open.open = false;
    open.querySelector("summary").focus();
  }
});
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
});

// Live pages: when something changed, fetch this page again and put its content in place of the old one.
const pulse = document.getElementById("pulse");
let waiting = false;
let fetching = false;

function say(text, off) {
  pulse.hidden = false;
  pulse.textContent = text;
  pulse.classList.toggle("off", Boolean(off));
}

const typing = () => {
  const active = document.activeElement;
  return view().contains(active) && active.matches("input, textarea, select") ? true : Boolean(document.querySelector(":popover-open, main details.menu[open]"));
};

async function refresh() {
  if (fetching || typing() || document.hidden) {
    waiting = true;
    return;
  }
  fetching = true;
  waiting = false;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, credentials: "same-origin" });
    if (answer.redirected && new URL(answer.url).pathname !== location.pathname) return location.reload();
    if (!answer.ok) throw new Error(answer.status);
    swap(new DOMParser().parseFromString(await answer.text(), "text/html"));
    say("Live");
  } catch {
    say("Offline", true);
  } finally {
    fetching = false;
  }
}

// A name for an element that is the same in the next version of the page.
const place = (element) => [...view().querySelectorAll("a, button, summary, [tabindex]")].indexOf(element);

function swap(page) {
  const next = page.getElementById("view");
  if (!next || typing()) {
    waiting = Boolean(next);
    return;
  }
  const focused = view().contains(document.activeElement) ? place(document.activeElement) : -1;
  const open = new Set([...view().querySelectorAll("details[open][id]")].map((one) => one.id));
  const scrolled = [...view().querySelectorAll(".scroll, .tabs")].map((one) => one.scrollLeft);
  view().innerHTML = next.innerHTML;
  for (const one of view().querySelectorAll("details[id]")) if (open.has(one.id)) one.open = true;
  view().querySelectorAll(".scroll, .tabs").forEach((one, i) => { one.scrollLeft = scrolled[i] || 0; });
  if (focused >= 0) view().querySelectorAll("a, button, summary, [tabindex]")[focused]?.focus({ preventScroll: true });
  copies();
}

// A job that the worker has not finished yet: look again soon.
function poll() {
  if (view().querySelector("[data-poll]")) setTimeout(() => refresh().then(poll), 1500);
}
poll();

if (document.body.dataset.live && "EventSource" in window) {
  const mine = document.body.dataset.experiment;
  const events = new EventSource(document.body.dataset.live);
  const opened = Date.now();
  let last = 0;
  let timer = 0;
  events.onopen = () => say("Live");
  events.onerror = () => say("Reconnecting…", true);
  const known = new Map(document.body.dataset.stand ? [[mine, document.body.dataset.stand]] : []);
  events.addEventListener("experiment", (event) => { // of all at first, then of those that changed
    const row = JSON.parse(event.data);
    const stand = JSON.stringify([row.decisions, row.entries, row.policies, row.paused, row.stopped, row.report ? row.report.version : 0]);
    const before = known.get(row.name);
    known.set(row.name, stand);
    if (stand === before || (before === undefined && Date.now() - opened < 3000) || (mine !== "*" && row.name !== mine)) return;
    const pause = Math.max(300, 2000 - (Date.now() - last)); // at most every two seconds
    clearTimeout(timer);
    timer = setTimeout(() => { last = Date.now(); refresh(); }, pause);
  });
  addEventListener("pagehide", () => events.close());
  document.addEventListener("visibilitychange", () => { if (waiting) refresh(); });
  document.addEventListener("focusout", () => setTimeout(() => { if (waiting) refresh(); }, 300));
}

// The form of a new experiment: checked on the server a moment after the last key.
const form = document.querySelector("form[data-check]");
if (form) {
  let timer = 0;
  const touched = new Set();
  const check = async () => {
    let found;
    try {
      const answer = await fetch(form.dataset.check, { method: "POST", body: new URLSearchParams(new FormData(form)), credentials: "same-origin" });
      if (!answer.ok) return;
      found = await answer.json();
    } catch {
      return; // the server checks again when the form is sent
    }
    for (const line of form.querySelectorAll("[data-wrong]")) {
      const name = line.dataset.wrong;
      const text = touched.has(name) ? found.errors[name] || "" : "";
      line.textContent = text;
      line.hidden = !text;
      document.getElementById(name)?.toggleAttribute("aria-invalid", Boolean(text));
      if (text) document.getElementById(name)?.setAttribute("aria-invalid", "true");
    }
    const summary = document.getElementById("summary");
    const next = new DOMParser().parseFromString(found.summary, "text/html").getElementById("summary");
    if (next && next.textContent !== summary.textContent) summary.innerHTML = next.innerHTML;
  };
  form.addEventListener("input", (event) => {
    touched.add(event.target.name);
    clearTimeout(timer);
    timer = setTimeout(check, 350);
  });
  document.getElementById("cost")?.focus({ preventScroll: false });
}

// A button that was pressed says so until the next page is there.
document.addEventListener("submit", (event) => {
  const pressed = event.submitter;
  if (pressed && pressed.id !== "theme") setTimeout(() => { pressed.setAttribute("aria-busy", "true"); }, 0);
});
addEventListener("pageshow", () => document.querySelectorAll("[aria-busy]").forEach((one) => one.removeAttribute("aria-busy")));
