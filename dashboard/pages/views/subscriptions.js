// Subscriptions: who waits for what, and how far behind.
import { h } from "../dom.js";
import { count, rate } from "../format.js";
import { chip, deadLettersPath, empty, eventsPath, functionLink, heading, number, qualified, search, table } from "../parts.js";
import { perSecond, state } from "../store.js";
import { pause } from "./inside.js";

let filter = "";

export const subscriptions = {
  title: () => "Subscriptions",
  /** @param {import("../app.js").Page} page */
  mount({ query }) {
    filter = query.get("filter") ?? "";
  },
  /** @param {import("../app.js").Page} page */
  render({ render }) {
    const all = [...state.subscriptions].filter(([key, s]) => `${key} ${s.source} ${s.types.join(" ")} ${s.sink}`.includes(filter));
    all.sort(([, a], [, b]) => behind(b) - behind(a));
    return [
      heading(
        "Subscriptions",
        search("Filter by name, type or sink", filter, (text) => {
          filter = text;
          render();
        }),
      ),
      state.subscriptions.size === 0
        ? empty("There is no Subscription yet.", "A Subscription names a source, types and a sink: write one beside its Function.")
        : all.length === 0
          ? empty("No Subscription fits.", "Change the filter.")
          : table(
              "Subscriptions, those furthest behind first",
              [
                { title: "Subscription" },
                { title: "Events", class: "wide" },
                { title: "Sink", class: "wide" },
                { title: "State" },
                { title: "Waiting", class: "right" },
                { title: "In delivery", class: "right wide" },
                { title: "Retries", class: "right wide" },
                { title: "Delivered/s", class: "right wide" },
                { title: "Dead letters", class: "right" },
              ],
              all.slice(0, 500).map(row),
            ),
      all.length > 500 ? h("p", { class: "faint" }, `The first 500 of ${count(all.length)} are shown: filter to see others.`) : null,
    ];
  },
};

/** @param {import("../types.js").Subscription} s */
const behind = (s) => (s.state === "failing" ? 1e9 : 0) + s.backlog + s.inFlight + s.retries;

const levels = /** @type {Record<string, string>} */ ({ ready: "", paused: "warn", preparing: "warn", failing: "bad" });

/** @param {[string, import("../types.js").Subscription]} entry */
function row([key, s]) {
  const [namespace, name] = key.split("/");
  return h(
    "tr",
    { key },
    h("td", null, h("a", { href: eventsPath({ namespace, subscription: name }) }, qualified(namespace, name))),
    h(
      "td",
      { class: "wide" },
      h(
        "div",
        { class: "types" },
        s.types.map((t) => h("span", { key: t }, t)),
      ),
      h("div", { class: "faint" }, "from ", s.source),
    ),
    h("td", { class: "wide" }, s.function ? functionLink(s.sink) : h("span", { class: "clip" }, s.sink)),
    h(
      "td",
      null,
      h("span", { class: "state" }, chip(s.state, { class: levels[s.state] }), pause("subscriptions", key, s.state === "paused")),
      s.message ? h("div", { class: "reason" }, s.message) : null,
    ),
    h("td", { class: "right" }, number(s.backlog, "warn")),
    h("td", { class: "right wide" }, number(s.inFlight)),
    h("td", { class: "right wide" }, number(s.retries, "warn")),
    h("td", { class: "right wide" }, rate(perSecond(`delivered ${key}`))),
    h(
      "td",
      { class: "right" },
      s.deadLetters ? h("a", { href: deadLettersPath({ namespace, subscription: name }) }, number(s.deadLetters, "bad")) : number(0),
    ),
  );
}
