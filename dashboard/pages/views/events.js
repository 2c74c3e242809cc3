// Events: what comes in and what becomes of it, live.
import { stream, query as write } from "../api.js";
import { h } from "../dom.js";
import { counted, duration, short } from "../format.js";
import {
  chip,
  empty,
  eventPath,
  eventsPath,
  failure,
  heading,
  loading,
  moment,
  noEvents,
  outcome,
  pauseButton,
  search,
  table,
} from "../parts.js";
import { state } from "../store.js";

/** @typedef {import("../types.js").Entry} Entry */

const mostEvents = 300;
const fields = /** @type {const} */ (["type", "source", "namespace", "subscription", "trace", "id"]);

/** @type {Record<string, string>} */ let filter = {};
/** @type {Map<string, {first: Entry, hops: Map<string, Entry>}>} */ let byEvent = new Map();
let paused = false;
let skipped = 0;
let begun = false;
/** @type {Error | null} */ let error = null;
/** @type {(() => void) | null} */ let end = null;
let typing = 0;

export const events = {
  title: () => "Events",
  /** @param {import("../app.js").Page} page */
  mount(page) {
    filter = Object.fromEntries(fields.map((f) => [f, page.query.get(f) ?? ""]));
    follow(page);
  },
  unmount() {
    end?.();
    end = null;
  },
  /** @param {import("../app.js").Page} page */
  render(page) {
    const rows = [...byEvent.values()].sort((a, b) => (a.first.time < b.first.time ? 1 : -1));
    return [
      heading("Events", [
        pauseButton(paused, () => {
          paused = !paused;
          if (!paused) follow(page);
          page.render();
        }),
      ]),
      h(
        "div",
        { class: "filters", key: "filters", role: "search" },
        field(page, "type", "Type, or order.*"),
        field(page, "source", "Source"),
        pick(page),
        field(page, "trace", "Trace id"),
        Object.values(filter).some(Boolean)
          ? h(
              "button",
              {
                class: "plain",
                onclick: () => {
                  filter = {};
                  apply(page);
                },
              },
              "Clear",
            )
          : null,
      ),
      skipped
        ? h(
            "p",
            { class: "notice", key: "skipped" },
            `Sampled: ${counted(skipped, "record")} came faster than they are shown. Narrow the filter to see each.`,
          )
        : null,
      error ? failure(error, () => follow(page)) : null,
      rows.length
        ? table(
            "Events, the newest first",
            [{ title: "Time" }, { title: "Event" }, { title: "From", class: "wide" }, { title: "Result" }],
            rows.map(row),
            "stack",
          )
        : !begun
          ? loading("Waiting for events")
          : Object.values(filter).some(Boolean)
            ? empty("No event fits.", "Clear the filter, or wait: what comes is shown at once.")
            : noEvents(),
    ];
  },
};

/** @param {import("../app.js").Page} page */
function follow(page) {
  end?.();
  [byEvent, skipped, begun, error] = [new Map(), 0, false, null];
  const path = `/api/v1/events/live${write({ ...filter, limit: "400" })}`;
  end = stream(path, {
    open: () => {
      [byEvent, error] = [new Map(), null];
      setTimeout(() => {
        begun = true;
        page.render();
      }, 600);
    },
    lost: (failed) => {
      error = failed;
      page.render();
    },
    records: (flow) => {
      if (paused) return;
      begun = true;
      skipped += (flow.skipped ?? 0) + (flow.lost ?? 0);
      for (const record of flow.records) add(record);
      while (byEvent.size > mostEvents) byEvent.delete(/** @type {string} */ (byEvent.keys().next().value));
      page.render();
    },
  });
}

/** @param {Entry} record */
function add(record) {
  const key = `${record.source}|${record.id}`;
  let known = byEvent.get(key);
  if (!known) {
    known = { first: record, hops: new Map() };
    byEvent.set(key, known);
  }
  if (record.kind === "stored") {
    if (known.first.kind !== "stored") known.first = { ...record };
    else if (record.message) known.first.message = record.message;
  } else if (record.subscription) {
    known.hops.set(`${record.namespace}/${record.subscription}${record.deadLetter ? " dead" : ""}`, record);
  }
}

/** @param {{first: Entry, hops: Map<string, Entry>}} event */
function row({ first, hops }) {
  const all = [...hops.values()];
  return h(
    "tr",
    { key: `${first.source}|${first.id}` },
    h("td", null, moment(first.time)),
    h(
      "td",
      null,
      h("a", { href: eventPath(first), class: "strong" }, first.type || "message"),
      h("div", { class: "faint id", title: first.id }, short(first.id ?? "", 36)),
    ),
    h(
      "td",
      { class: "wide faint" },
      first.source,
      first.cause ? h("div", { title: `caused by ${first.cause}` }, "caused by ", short(first.cause, 24)) : null,
    ),
    h(
      "td",
      null,
      all.length
        ? h(
            "ul",
            { class: "hops" },
            all.map((r) =>
              h(
                "li",
                { key: r.subscription, title: r.message ?? "" },
                outcome(r.kind),
                h("span", null, r.subscription),
                h("span", { class: "faint" }, tail(r)),
              ),
            ),
          )
        : first.message
          ? chip(first.message, { class: "warn", title: first.message })
          : h("span", { class: "faint" }, "waits"),
    ),
  );
}

/** @param {Entry} r */
function tail(r) {
  const parts = [];
  if (r.status) parts.push(String(r.status));
  if ((r.attempt ?? 0) > 1) parts.push(`attempt ${r.attempt}`);
  if (r.took) parts.push(duration(r.took * 1000));
  if (r.kind === "deadlettered" && r.reason) parts.push(r.reason);
  return parts.join(" · ");
}

/** @param {import("../app.js").Page} page @param {string} name @param {string} label */
const field = (page, name, label) =>
  search(label, filter[name] ?? "", (text) => {
    filter[name] = text.trim();
    clearTimeout(typing);
    typing = setTimeout(() => apply(page), 400);
  });

/** pick chooses a Subscription. @param {import("../app.js").Page} page */
const pick = (page) =>
  h(
    "select",
    {
      "aria-label": "Subscription",
      value: filter.subscription ? `${filter.namespace}/${filter.subscription}` : "",
      onchange: (/** @type {any} */ e) => {
        [filter.namespace, filter.subscription] = e.target.value.split("/");
        filter.subscription ??= "";
        apply(page);
      },
    },
    h("option", { value: "" }, "Any Subscription"),
    [...state.subscriptions.keys()].map((key) => h("option", { value: key }, key)),
  );

/** @param {import("../app.js").Page} page */
function apply(page) {
  history.replaceState(null, "", eventsPath(filter));
  follow(page);
  page.render();
}
