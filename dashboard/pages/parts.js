// Parts that several views have.
import { query } from "./api.js";
import { h } from "./dom.js";
import { ago, clock, count, duration, full } from "./format.js";
import { state } from "./store.js";

/** @typedef {import("./dom.js").Node} Node */

/** time is a relative time with the exact one on hover. @param {string | undefined} at */
export const time = (at) => (at ? h("time", { datetime: at, title: full(at) }, ago(at)) : h("span", { class: "faint" }, "never"));

/** moment is a time of day with the exact one on hover. @param {string} at */
export const moment = (at) => h("time", { datetime: at, title: full(at), class: "clock" }, clock(at));

/** place is a line of a file, named from the folder that the home has read. @param {string} [at] */
export function place(at = "") {
  const folder = `${state.about?.name}/`;
  return h("code", { title: at }, at.startsWith(folder) ? at.slice(folder.length) : at);
}

/** @param {string} text @param {any} [attrs] */
export const chip = (text, attrs) => h("span", { ...attrs, class: `chip ${attrs?.class ?? ""}` }, text);

/** words says what a phase means. */
const words = /** @type {Record<string, string>} */ ({
  asleep: "asleep",
  waking: "waking",
  ready: "awake",
  reloading: "updating",
  preparing: "preparing",
  failing: "failing",
});

/** phase is the state of a Function: a mark and a word, so that no colour stands alone. @param {{phase: string, doing?: string}} fn */
export const phase = (fn) =>
  h("span", { class: `phase ${fn.phase}` }, h("i", { class: "mark", "aria-hidden": "true" }), fn.doing || words[fn.phase] || fn.phase);

/** qualified is a name behind its namespace. @param {string | undefined} namespace @param {string | undefined} name */
export const qualified = (namespace, name) => [h("span", { class: "faint" }, `${namespace}/`), name];

/** functionLink links to a Function. @param {string} full namespace/name */
export function functionLink(full) {
  const [namespace, name] = full.split("/");
  return h("a", { href: `/functions/${full}` }, qualified(namespace, name));
}

/** @param {{id?: string, source?: string}} event */
export const eventPath = ({ id, source }) => `/event${query({ id, source })}`;

/** @param {Record<string, string>} filter */
export const eventsPath = (filter) => `/events${query(filter)}`;

/** @param {Record<string, string>} filter */
export const deadLettersPath = (filter) => `/deadletters${query(filter)}`;

/** @param {number} n @param {string} [level] */
export const number = (n, level = "") => h("span", { class: n ? `number ${level}` : "number zero" }, count(n));

/**
 * empty says what is missing, and what to do next.
 * @param {string} title @param {...any} next
 */
export const empty = (title, ...next) => h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), h("p", null, next));

/** noEvents says how the first event comes. */
export const noEvents = () =>
  empty("No event yet.", "Publish one: ", h("code", null, "rouse publish TYPE --source NAME"), ", or from the page of a Function.");

/** @param {string} text */
export const loading = (text = "Loading") => h("div", { class: "empty", "aria-busy": "true" }, h("p", { class: "faint" }, text));

/** @param {Error | {message: string}} error @param {() => void} [again] */
export const failure = (error, again) =>
  h("div", { class: "notice bad", role: "alert" }, error.message, again && h("button", { class: "plain", onclick: again }, "Try again"));

/** search is a field for a filter. @param {string} label @param {string} value @param {(text: string) => void} change */
export const search = (label, value, change) =>
  h("input", {
    type: "search",
    placeholder: label,
    "aria-label": label,
    value,
    oninput: (/** @type {any} */ e) => change(e.target.value),
  });

/** pauseButton stops and continues what is shown live. @param {boolean} paused @param {() => void} toggle */
export const pauseButton = (paused, toggle) =>
  h("button", { "aria-pressed": String(paused), onclick: toggle }, paused ? "Resume" : "Pause");

/** @param {string} title @param {any} body @param {any} [aside] @param {any} [attrs] */
export const panel = (title, body, aside, attrs) =>
  h(
    "section",
    { key: title, ...attrs, class: `panel ${attrs?.class ?? ""}` }, // others come and go beside it
    h("div", { class: "panel-head" }, h("h2", null, title), aside ? h("div", { class: "tools" }, aside) : null),
    body,
  );

/** @param {string} title @param {any} [aside] @param {any} [above] */
export const heading = (title, aside, above) =>
  h(
    "div",
    { class: "page-head", key: "head" },
    h("div", { class: "titles" }, above, h("h1", { tabindex: "-1" }, title)),
    h("div", { class: "tools" }, aside),
  );

/**
 * table has named columns, of which a phone shows those that are not wide.
 * @param {string} label
 * @param {{title: string, class?: string, hidden?: boolean}[]} columns
 * @param {Node[]} rows
 * @param {string} [kind]
 */
export const table = (label, columns, rows, kind = "") =>
  h(
    "div",
    { class: `scroll ${kind}`, tabindex: "0", role: "region", "aria-label": label },
    h(
      "table",
      null,
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          columns.map((c) => h("th", { scope: "col", class: c.class ?? "" }, c.hidden ? h("span", { class: "unseen" }, c.title) : c.title)),
        ),
      ),
      h("tbody", null, rows),
    ),
  );

const stageNames = /** @type {const} */ ([
  ["sentMs", "noticed"],
  ["addressedMs", "placed"],
  ["readyMs", "started"],
]);

/** causes of wakes in words */
const woken = /** @type {Record<string, string>} */ ({ publish: "an event", poll: "a backlog that was found", request: "a request" });

/** wakeBar shows the stages of a wake. @param {import("./types.js").Wake} wake */
export function wakeBar(wake) {
  let before = 0;
  const stages = [];
  for (const [field, name] of stageNames) {
    const until = wake[field];
    if (until === undefined || until < before) continue;
    stages.push({ name, took: until - before });
    before = until;
  }
  const total = Math.max(1, wake.readyMs);
  return h(
    "div",
    { class: "wake" },
    h(
      "div",
      { class: "bar", role: "img", "aria-label": stages.map((s) => `${s.name} in ${duration(s.took)}`).join(", ") },
      stages.map((s, i) =>
        h("i", {
          class: `stage s${i}`,
          title: `${s.name}: ${duration(s.took)}`,
          style: { "flex-grow": String(Math.max(s.took / total, 0.02)) },
        }),
      ),
    ),
    h("p", { class: "wake-words" }, h("b", null, duration(wake.readyMs)), " by ", woken[wake.cause] ?? wake.cause, ", ", time(wake.began)),
    h(
      "ul",
      { class: "legend" },
      stages.map((s, i) => h("li", null, h("i", { class: `stage s${i}`, "aria-hidden": "true" }), `${s.name} ${duration(s.took)}`)),
    ),
  );
}

/** fill is a bar that is as long as a share. @param {number} share @param {string} label */
export const fill = (share, label) =>
  h(
    "div",
    {
      class: `fill ${share > 0.8 ? "bad" : ""}`,
      role: "meter",
      "aria-label": label,
      "aria-valuemin": "0",
      "aria-valuemax": "100",
      "aria-valuenow": String(Math.round(share * 100)),
    },
    h("i", { style: { width: `${share > 0 ? Math.max(share * 100, 0.5) : 0}%` } }),
  );

/** outcomes of deliveries in words, with their level */
const outcomes = /** @type {Record<string, [string, string]>} */ ({
  stored: ["stored", ""],
  delivered: ["delivered", "good"],
  retry: ["retry", "warn"],
  retrying: ["waits for a retry", "warn"],
  deadlettered: ["dead letter", "bad"],
  filtered: ["filtered", ""],
  redriven: ["redriven", "warn"],
  skipped: ["skipped", ""],
});

/** @param {string} kind */
export const outcome = (kind) => h("span", { class: `outcome ${outcomes[kind]?.[1] ?? ""}` }, outcomes[kind]?.[0] ?? kind);

/**
 * sparkline draws numbers as a small curve.
 * @param {number[]} values
 */
export function sparkline(values) {
  const most = Math.max(1, ...values);
  const points = values.map((v, i) => `${((i / (values.length - 1)) * 100).toFixed(1)},${(22 - (v / most) * 20).toFixed(1)}`);
  return h(
    "svg",
    { class: "spark", viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" },
    h("path", { class: "area", d: `M0,24 L${points.join(" L")} L100,24 Z` }),
    h("polyline", { points: points.join(" ") }),
  );
}

/** note shows a result, also to screen readers. @param {string} text @param {"" | "bad"} [level] */
export function note(text, level = "") {
  const box = /** @type {HTMLElement} */ (document.getElementById("notes"));
  const line = document.createElement("p");
  line.className = `note ${level}`;
  line.textContent = text;
  box.append(line);
  setTimeout(() => line.remove(), level ? 9000 : 5000);
}
