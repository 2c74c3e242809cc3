// Functions: one line for each.
import { h } from "../dom.js";
import { ago, count, counted, duration, firstLine, full, rate } from "../format.js";
import { deadLettersPath, empty, functionLink, heading, number, phase, search, table } from "../parts.js";
import { perSecond, state, subscriptionsByFunction } from "../store.js";

const page = 200;
let filter = "";
let only = "all";
let most = page;

/** @type {Record<string, (f: import("../types.js").Fn) => boolean>} */
const kinds = {
  all: () => true,
  awake: (f) => f.ready > 0,
  asleep: (f) => f.phase === "asleep",
  failing: (f) => f.phase === "failing",
  waiting: (f) => (f.backlog ?? 0) > 0,
};

export const functions = {
  title: () => "Functions",
  /** @param {import("../app.js").Page} page */
  mount({ query }) {
    filter = query.get("filter") ?? "";
    only = query.get("only") ?? "all";
  },
  /** @param {import("../app.js").Page} page */
  render({ render }) {
    const all = [...state.functions];
    const subscriptions = subscriptionsByFunction();
    const found = all.filter(([key, f]) => key.includes(filter) && (kinds[only] ?? kinds.all)(f));
    const change = () => {
      history.replaceState(null, "", `/functions${filter || only !== "all" ? `?${new URLSearchParams({ filter, only })}` : ""}`);
      render();
    };
    return [
      heading("Functions", [
        search("Filter by name", filter, (text) => {
          filter = text;
          change();
        }),
        h(
          "div",
          { class: "segments", role: "group", "aria-label": "Show" },
          Object.keys(kinds).map((kind) =>
            h(
              "button",
              {
                key: kind,
                "aria-pressed": String(only === kind),
                onclick: () => {
                  only = kind;
                  change();
                },
              },
              kind,
              h("span", { class: "faint" }, ` ${count(all.filter(([, f]) => kinds[kind](f)).length)}`),
            ),
          ),
        ),
        state.about?.user.changes ? h("a", { class: "button main", href: "/functions/new" }, "New Function") : null,
      ]),
      all.length === 0
        ? empty(
            "There is no Function yet.",
            state.about?.user.changes ? [h("a", { href: "/functions/new" }, "Create one here"), ", or write"] : "Write",
            " one with ",
            h("code", null, "rouse init NAME"),
            ".",
          )
        : found.length === 0
          ? empty("No Function fits.", "Change the filter, or show all.")
          : table(
              "Functions",
              [
                { title: "Function" },
                { title: "State" },
                { title: "Replicas", class: "right" },
                { title: "Backlog", class: "right" },
                { title: "Events/s", class: "right" },
                { title: "Last wake", class: "wide" },
                { title: "Wakes", class: "right wide" },
                { title: "Runtime", class: "wide" },
              ],
              found.slice(0, most).map(([key, f]) => row(key, f, subscriptions.get(key) ?? [])),
            ),
      found.length > most
        ? h(
            "p",
            { class: "more" },
            h(
              "button",
              {
                onclick: () => {
                  most += page;
                  render();
                },
              },
              `Show more of ${counted(found.length, "Function")}`,
            ),
          )
        : null,
    ];
  },
};

/** @param {string} key @param {import("../types.js").Fn} f @param {import("../types.js").Subscription[]} subscriptions */
function row(key, f, subscriptions) {
  const perSec = subscriptions.reduce((sum, s) => sum + perSecond(`delivered ${s.namespace}/${s.name}`), 0);
  const dead = subscriptions.reduce((sum, s) => sum + s.deadLetters, 0);
  return h(
    "tr",
    { key },
    h(
      "td",
      null,
      functionLink(key),
      f.phase === "failing"
        ? h("div", { class: "reason clip" }, firstLine(f.problem ?? ""))
        : dead
          ? h("div", { class: "reason" }, h("a", { href: deadLettersPath({ namespace: f.namespace }) }, counted(dead, "dead letter")))
          : null,
    ),
    h("td", null, phase(f), f.older ? h("span", { class: "chip warn", title: "The newest version does not run" }, "older version") : null),
    h("td", { class: "right" }, replicas(f)),
    h("td", { class: "right" }, f.backlog === null ? h("span", { class: "faint" }, "?") : number(f.backlog, "warn")),
    h("td", { class: "right" }, rate(perSec)),
    h("td", { class: "wide" }, wake(f)),
    h("td", { class: "right wide" }, f.wakes === null ? h("span", { class: "faint" }, "?") : number(f.wakes)),
    h("td", { class: "wide faint" }, f.runtime),
  );
}

/** @param {import("../types.js").Fn} f */
const replicas = (f) => h("span", { class: "replicas" }, `${f.ready}`, h("span", { class: "faint" }, ` of ${f.max}`));

/** wake is the last one, as a bar of its stages as long as it took in relation to two seconds. @param {import("../types.js").Fn} f */
function wake(f) {
  const last = f.lastWake;
  if (!last) return h("span", { class: "faint" }, "none");
  const part = Math.min(1, last.readyMs / 2000);
  return h(
    "span",
    { class: "mini", title: full(last.began) },
    h("span", { class: "mini-bar" }, h("i", { style: { width: `${Math.max(part * 100, 3)}%` } })),
    duration(last.readyMs),
    h("span", { class: "faint" }, ago(last.began)),
  );
}
