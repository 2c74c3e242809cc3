// Event: one event with its attempts and its data, and the chain that it belongs to.
import { get, query as write } from "../api.js";
import { h } from "../dom.js";
import { clock, duration, full, json } from "../format.js";
import { chip, empty, eventPath, eventsPath, failure, heading, loading, moment, outcome, panel, qualified, table } from "../parts.js";

/** @typedef {import("../types.js").Entry} Entry */
/** @typedef {{id: string, source?: string, type?: string, trace?: string, stored?: string, asked?: boolean, deliveries?: Delivery[], children?: Link[]}} Link */
/** @typedef {{namespace: string, subscription: string, sink?: string, state: string, message?: string, waited?: number, attempts?: Attempt[], children?: Link[]}} Delivery */
/** @typedef {{number?: number, began?: string, took?: number, status?: number, reason?: string, message?: string}} Attempt */

/** @type {{records: Entry[], event?: any} | null} */ let detail = null;
/** @type {Link | null} */ let chain = null;
/** @type {Error | null} */ let error = null;
let again = 0;
/** what is shown: answers about another event come too late */
let current = "";

export const event = {
  title: () => "Event",
  /** @param {import("../app.js").Page} page */
  mount({ query, render }) {
    [detail, chain, error] = [null, null, null];
    const [id, source] = [query.get("id") ?? "", query.get("source") ?? ""];
    current = `${source}|${id}`;
    const load = async () => {
      const about = `${source}|${id}`;
      const [found, failed] = await get(`/api/v1/event${write({ id, source })}`).then(
        (answer) => [answer, null],
        (reason) => [detail, reason],
      );
      const tree = await get(`/api/v1/trace${write({ id })}`).catch(() => null);
      if (current !== about) return;
      [detail, error, chain] = [found, failed, tree];
      render();
    };
    load();
    again = setInterval(load, 2000);
  },
  unmount() {
    clearInterval(again);
  },
  /** @param {import("../app.js").Page} page */
  render({ query }) {
    const back = h("p", { class: "crumb" }, h("a", { href: "/events" }, "Events"));
    const id = query.get("id") ?? "";
    if (error && !detail) return [heading(id, null, back), failure(error)];
    if (!detail) return [heading(id, null, back), loading()];
    const first = detail.records.find((r) => r.kind === "stored") ?? detail.records[0] ?? {};
    const type = first.type ?? detail.event?.type;
    const source = first.source ?? detail.event?.source;
    return [
      heading(type ?? id, first.trace ? h("a", { href: eventsPath({ trace: first.trace }) }, "All of the trace") : null, back),
      h(
        "dl",
        { class: "facts line", key: "facts" },
        fact("Id", h("code", null, id)),
        source ? fact("Source", source) : null,
        first.time ? fact("Published", moment(first.time)) : null,
        first.cause ? fact("Caused by", h("a", { href: eventPath({ id: first.cause }) }, first.cause)) : null,
        first.trace ? fact("Trace", h("code", null, first.trace)) : null,
      ),
      chain ? waterfall(chain) : null,
      h("div", { class: "pair", key: "pair" }, attempts(detail.records), data(detail.event)),
    ];
  },
};

/** @param {string} name @param {any} value */
const fact = (name, value) => h("div", null, h("dt", null, name), h("dd", null, value));

/** @param {Entry[]} records */
function attempts(records) {
  const repeated = records.some((r) => (r.attempt ?? 0) > 1);
  const rows = records
    .filter((r) => r.kind !== "stored")
    .map((r, i) =>
      h(
        "tr",
        { key: `${i} ${r.time}` },
        h("td", null, moment(r.began ?? r.time)),
        h("td", null, r.subscription ? qualified(r.namespace, r.subscription) : ""),
        h(
          "td",
          { class: "wrap" },
          outcome(r.kind),
          r.deadLetter ? chip("to the dead-letter sink") : null,
          r.message || r.reason ? h("div", { class: "reason" }, r.message ?? r.reason) : null,
          r.due ? h("div", { class: "faint" }, "next at ", clock(r.due)) : null,
        ),
        repeated ? h("td", { class: "right wide" }, r.attempt || "") : null,
        h("td", { class: "right wide" }, r.status || ""),
        h("td", { class: "right" }, r.took ? duration(r.took * 1000) : ""),
      ),
    );
  const unwanted = records.find((r) => r.kind === "stored")?.message;
  return panel(
    "Attempts",
    rows.length
      ? table(
          "Attempts",
          [
            { title: "When" },
            { title: "Subscription" },
            { title: "Result" },
            ...(repeated ? [{ title: "Attempt", class: "right wide" }] : []),
            { title: "Status", class: "right wide" },
            { title: "Took", class: "right" },
          ],
          rows,
          "stack attempts",
        )
      : empty(
          unwanted ? "Nobody takes it." : "It was not delivered yet.",
          unwanted ?? "It waits in the stream until its Functions are awake.",
        ),
  );
}

/** @param {any} found */
function data(found) {
  if (!found)
    return panel("Data", empty("The data are not kept any more.", "Only the last events keep theirs; dead letters keep them always."));
  const { data: content, data_base64: bytes, ...attributes } = found;
  return panel("Data", [
    h("pre", { class: "code plain", tabindex: "0", "aria-label": "Data" }, content !== undefined ? json(content) : (bytes ?? "no data")),
    h(
      "details",
      null,
      h("summary", null, "Attributes"),
      h(
        "dl",
        { class: "facts" },
        Object.entries(attributes).map(([name, value]) => [h("dt", null, name), h("dd", null, String(value))]),
      ),
    ),
  ]);
}

/** @typedef {{depth: number, label: any, sub: string, began: number, ended: number, waited: number, level: string, href?: string, asked?: boolean, key: string}} Bar */

/** bars flattens a chain: an event, and below it each of its deliveries with what they caused. @param {Link} link @param {number} depth @param {Bar[]} into */
function bars(link, depth, into) {
  const at = link.stored ? new Date(link.stored).getTime() : NaN;
  into.push({
    depth,
    label: link.type ?? link.id,
    sub: link.source ?? "",
    began: at,
    ended: at,
    waited: 0,
    level: "event",
    href: eventPath(link),
    asked: link.asked,
    key: `e${link.source}|${link.id}`,
  });
  for (const delivery of link.deliveries ?? []) {
    const tries = (delivery.attempts ?? []).filter((a) => a.began);
    if (tries.length === 0) continue;
    tries.forEach((a, i) => {
      const began = new Date(/** @type {string} */ (a.began)).getTime();
      const last = i === tries.length - 1;
      const level = last ? delivery.state : "retry";
      into.push({
        depth: depth + 1,
        label: delivery.sink ?? delivery.subscription,
        sub: [a.status, tries.length > 1 ? `attempt ${a.number ?? i + 1}` : "", duration((a.took ?? 0) * 1000)].filter(Boolean).join(" · "),
        began,
        ended: began + (a.took ?? 0) * 1000,
        waited: i === 0 && !Number.isNaN(at) ? began - at : 0,
        level,
        key: `d${link.id} ${delivery.subscription} ${i}`,
      });
    });
    for (const child of delivery.children ?? []) bars(child, depth + 2, into);
  }
  for (const child of link.children ?? []) bars(child, depth + 1, into);
}

/** @param {Link} root */
function waterfall(root) {
  /** @type {Bar[]} */ const rows = [];
  bars(root, 0, rows);
  const times = rows.flatMap((r) => [r.began - r.waited, r.ended]).filter((t) => !Number.isNaN(t));
  const from = Math.min(...times);
  const span = Math.max(1, Math.max(...times) - from);
  /** @param {number} t */
  const part = (t) => `${(((t - from) / span) * 100).toFixed(3)}%`;
  return panel(
    "Trace",
    h(
      "ol",
      { class: "waterfall" },
      rows.map((r) =>
        h(
          "li",
          { key: r.key, class: `${r.level} ${r.asked ? "asked" : ""}` },
          h(
            "span",
            { class: "what", style: { "padding-left": `${Math.min(r.depth, 12) * 12}px` } },
            r.href
              ? h("a", { href: r.href, "aria-current": r.asked ? "true" : undefined }, r.label)
              : h("span", { class: "clip" }, r.label),
            h("span", { class: "faint clip" }, r.sub),
          ),
          h(
            "span",
            { class: "lane" },
            Number.isNaN(r.began)
              ? null
              : [
                  r.waited > 0
                    ? h("i", {
                        class: "waited",
                        title: `waited ${duration(r.waited)}`,
                        style: { left: part(r.began - r.waited), width: `${((r.waited / span) * 100).toFixed(3)}%` },
                      })
                    : null,
                  h("i", {
                    class: r.level === "event" ? "tick" : "took",
                    title: r.level === "event" ? full(r.began) : `took ${duration(r.ended - r.began)}`,
                    style: {
                      left: part(r.began),
                      width: r.level === "event" ? "" : `max(3px, ${(((r.ended - r.began) / span) * 100).toFixed(3)}%)`,
                    },
                  }),
                ],
          ),
        ),
      ),
    ),
    h("span", { class: "faint" }, `${duration(span)} from the first event to the last delivery`),
    { key: "trace" },
  );
}
