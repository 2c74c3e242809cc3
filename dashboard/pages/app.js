// The page: navigation, what is shown, and when it is drawn.
import { begin, onLoggedOut } from "./api.js";
import { dialog, dismiss } from "./dialog.js";
import { flat, h, patch } from "./dom.js";
import { attempt } from "./first.js";
import { heading, loading } from "./parts.js";
import { start, state, totals, watch } from "./store.js";
import { deadLetters } from "./views/deadletters.js";
import { editFunction, newFunction } from "./views/edit.js";
import { event } from "./views/event.js";
import { events } from "./views/events.js";
import { oneFunction } from "./views/function.js";
import { functions } from "./views/functions.js";
import { health } from "./views/health.js";
import { account, drawLogin, logInForm } from "./views/login.js";
import { overview } from "./views/overview.js";
import { subscriptions } from "./views/subscriptions.js";
import { timers } from "./views/timers.js";

/**
 * @typedef {{render: () => void, go: (path: string) => void, params: string[], query: URLSearchParams}} Page
 * @typedef {{title: (page: Page) => string, render: (page: Page) => any, mount?: (page: Page) => void,
 *   unmount?: () => void, flow?: (flow: import("./types.js").Flow) => void}} View
 */

/** @type {[RegExp, View][]} */
const routes = [
  [/^\/$/, overview],
  [/^\/functions$/, functions],
  [/^\/functions\/new$/, newFunction],
  [/^\/functions\/([^/]+)\/([^/]+)$/, oneFunction],
  [/^\/functions\/([^/]+)\/([^/]+)\/edit$/, editFunction],
  [/^\/events$/, events],
  [/^\/event$/, event],
  [/^\/deadletters$/, deadLetters],
  [/^\/subscriptions$/, subscriptions],
  [/^\/timers$/, timers],
  [/^\/health$/, health],
];

/** what the navigation has: path, name, and the key that follows g */
const places = /** @type {const} */ ([
  ["/", "Overview", "o"],
  ["/functions", "Functions", "f"],
  ["/events", "Events", "e"],
  ["/deadletters", "Dead letters", "d"],
  ["/subscriptions", "Subscriptions", "s"],
  ["/timers", "Schedules and Doors", "t"],
  ["/health", "Health", "h"],
]);

/** @type {View} */
const nowhere = {
  title: () => "Not found",
  render: () => [
    heading("There is no such page"),
    h("p", null, "The address may be of another version. Go to the ", h("a", { href: "/" }, "overview"), "."),
  ],
};

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const side = /** @type {HTMLElement} */ (document.getElementById("side"));
/** @type {View} */ let view = nowhere;
/** @type {Page} */ let page = { render, go, params: [], query: new URLSearchParams() };
let ready = false;
/** @type {Error | null} */ let broken = null;
let drawing = 0;

/** render draws soon, once for all changes until then. */
function render() {
  if (drawing) return;
  drawing = requestAnimationFrame(() => {
    drawing = 0;
    drawSide();
    if (!isComposing)
      patch(main, flat(ready ? [lost(), view.render(page), dialog()] : broken ? logInForm(broken, connect) : loading("Connecting")));
  });
}

let isComposing = false;
document.addEventListener("compositionstart", () => (isComposing = true));
document.addEventListener("compositionend", () => (isComposing = false));

/** lost says that what is shown is old. */
const lost = () =>
  !state.connected && state.lost && state.loaded
    ? h("div", { class: "notice bad", key: "lost", role: "alert" }, `What you see is old. ${state.lost} It is tried again.`)
    : null;

function show() {
  const path = location.pathname.replace(/(.)\/$/, "$1");
  const [found, params] = match(path);
  view.unmount?.();
  dismiss();
  view = found;
  page = { render, go, params, query: new URLSearchParams(location.search) };
  main.replaceChildren();
  document.title = `${view.title(page)} · Rouse`;
  if (ready) view.mount?.(page);
  render();
  requestAnimationFrame(reveal);
}

/** reveal scrolls the navigation of a phone to what is shown. */
function reveal() {
  side.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

/** @param {string} path @returns {[View, string[]]} */
function match(path) {
  for (const [pattern, found] of routes) {
    const params = pattern.exec(path);
    if (!params) continue;
    try {
      return [found, params.slice(1).map(decodeURIComponent)];
    } catch {
      break; // no name is written so
    }
  }
  return [nowhere, []];
}

/** go shows a path of the dashboard. @param {string} path */
function go(path) {
  history.pushState(null, "", path);
  show();
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
}

document.addEventListener("click", (click) => {
  const link = /** @type {Element} */ (click.target).closest?.("a[href]");
  if (
    !(link instanceof HTMLAnchorElement) ||
    click.defaultPrevented ||
    click.button !== 0 ||
    click.metaKey ||
    click.ctrlKey ||
    click.shiftKey
  )
    return;
  if (link.origin !== location.origin || link.target || link.getAttribute("href")?.startsWith("#")) return;
  click.preventDefault();
  go(link.pathname + link.search + link.hash);
});
addEventListener("popstate", show);
addEventListener("resize", reveal);

let afterG = 0;
/** keys of single letters can be turned off: speech and tremor press them */
let shortcuts = localStorage.getItem("rouse-shortcuts") !== "off";
document.addEventListener("keydown", (key) => {
  const field = /** @type {Element} */ (key.target).closest?.("input, textarea, select, dialog, [contenteditable]");
  if (!shortcuts || field || key.ctrlKey || key.metaKey || key.altKey) return;
  const place = places.find(([, , letter]) => letter === key.key);
  if (key.key === "/") {
    const filter = main.querySelector("input[type=search]");
    if (filter instanceof HTMLElement) {
      key.preventDefault();
      filter.focus();
    }
  } else if (key.key === "g") {
    afterG = Date.now();
  } else if (place && Date.now() - afterG < 1500) {
    go(place[0]);
  }
});

const themes = ["auto", "light", "dark"];
let theme = localStorage.getItem("rouse-theme") ?? "auto";
const setTheme = (/** @type {string} */ wanted) => {
  theme = themes.includes(wanted) ? wanted : "auto";
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("rouse-theme", theme);
};
setTheme(theme);

function drawSide() {
  const t = totals();
  const counts = /** @type {Record<string, [number, string, string]>} */ ({
    "/functions": [t.failing, "bad", "failing"],
    "/deadletters": [t.deadLetters, "", "dead letters"],
    "/health": [t.problems, "bad", "problems"],
  });
  const path = location.pathname;
  const loggedOut = !ready && Boolean(/** @type {any} */ (broken)?.login);
  patch(side, [
    h(
      "a",
      { class: "brand", href: "/" },
      h(
        "svg",
        { viewBox: "0 0 32 32", "aria-hidden": "true" },
        h("path", { d: "M4 22a12 12 0 0 1 24 0z" }),
        h("path", { class: "horizon", d: "M2 25.5h28" }),
      ),
      "Rouse",
    ),
    h(
      "nav",
      { "aria-label": "Views", hidden: loggedOut },
      places.map(([href, name, key]) => {
        const current = href === "/" ? path === "/" : path.startsWith(href) || (href === "/events" && path === "/event");
        const [n, level, what] = counts[href] ?? [0, "", ""];
        return h(
          "a",
          { href, key: href, title: `${name} (g ${key})`, "aria-current": current ? "page" : undefined },
          name,
          n ? h("span", { class: `count ${level}`, "aria-label": `${n} ${what}` }, n) : null,
        );
      }),
    ),
    h(
      "div",
      { class: "foot" },
      h(
        "p",
        { class: `link ${state.connected ? "live" : loggedOut ? "" : "lost"}`, role: "status" },
        h("i", { class: "mark", "aria-hidden": "true" }),
        state.connected ? "live" : loggedOut ? "logged out" : ready ? "reconnecting" : "offline",
      ),
      ready ? account() : null,
      state.about ? h("p", { class: "faint clip", title: state.about.name }, state.about.name.split("/").pop()) : null,
      h(
        "button",
        {
          class: "plain",
          onclick: () => {
            setTheme(themes[(themes.indexOf(theme) + 1) % themes.length]);
            render();
          },
          title: "Change between automatic, light and dark",
        },
        `Theme: ${theme}`,
      ),
      h(
        "button",
        {
          class: "plain keys",
          onclick: () => {
            shortcuts = !shortcuts;
            localStorage.setItem("rouse-shortcuts", shortcuts ? "on" : "off");
            render();
          },
          title: "g and a letter go to a page, / to the filter",
        },
        `Shortcuts: ${shortcuts ? "on" : "off"}`,
      ),
    ),
  ]);
}

/** connect follows the home, unless that was begun. @param {Promise<void>} [begun] */
async function connect(begun) {
  try {
    await (begun ?? start());
    [ready, broken] = [true, null];
    view.mount?.(page);
  } catch (error) {
    broken = /** @type {Error} */ (error);
  }
  render();
}

drawLogin(render);
onLoggedOut((error) => {
  if (!ready) return;
  view.unmount?.();
  [ready, broken] = [false, error];
  render();
});
watch((what, flow) => {
  if (flow && ready) view.flow?.(flow);
  if (what === "connection" && !state.connected && state.lost) console.info(state.lost);
  render();
});
setInterval(() => {
  if (!document.hidden) render();
}, 1000); // relative times and rates go on
addEventListener("hashchange", async () => {
  if (location.hash.length > 16 && !ready) {
    await begin();
    connect();
  }
});

show();
await connect(attempt);
if (state.about) document.title = `${view.title(page)} · Rouse`;
