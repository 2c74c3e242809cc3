// Dead letters: by reason and origin, and what to do with a selection of them.
import { get, post, query as write } from "../api.js";
import { h } from "../dom.js";
import { count, counted, json, short } from "../format.js";
import { chip, deadLettersPath, empty, eventPath, failure, heading, loading, note, qualified, table, time } from "../parts.js";
import { state, totals } from "../store.js";

/** @typedef {import("../types.js").DeadLetter} DeadLetter */

const pageSize = "500";
const most = 2000; // of one selection
const batch = 25;

/** @type {Record<string, string>} */ let filter = {};
/** @type {DeadLetter[] | null} */ let letters = null;
let next = 0;
/** @type {Error | null} */ let error = null;
/** @type {Set<number>} */ let selected = new Set();
/** @type {Map<number, DeadLetter | Error>} */ let opened = new Map();
/** @type {{what: "redrive" | "purge", sequences: number[], done: number, failed: number, gone: number, running: boolean, stopped: boolean, over: boolean, problems: string[]} | null} */
let work = null;
let known = -1;
/** requests of the list: an answer counts unless a later one was asked */
let asked = 0;
let askedAt = 0;

export const deadLetters = {
  title: () => "Dead letters",
  /** @param {import("../app.js").Page} page */
  mount(page) {
    filter = Object.fromEntries(["namespace", "subscription", "reason"].map((f) => [f, page.query.get(f) ?? ""]));
    [letters, error, selected, opened, work, known] = [null, null, new Set(), new Map(), null, totals().deadLetters];
    load(page);
  },
  unmount() {
    if (work) work.stopped = true;
  },
  /** @param {import("../app.js").Page} page */
  render(page) {
    const now = totals().deadLetters;
    const all = letters ?? [];
    const short = !next && !Object.values(filter).some(Boolean) && all.length !== now && Date.now() - askedAt > 2000;
    if ((known !== now || short) && !work?.running && letters) {
      known = now;
      load(page);
    }
    return [
      heading(
        "Dead letters",
        state.about?.user.changes
          ? [
              h("span", { class: "faint", role: "status" }, selected.size ? `${count(selected.size)} selected` : ""),
              h("button", { disabled: !selected.size, onclick: () => ask(page, "redrive") }, "Redrive"),
              h("button", { class: "danger", disabled: !selected.size, onclick: () => ask(page, "purge") }, "Purge"),
            ]
          : chip("read-only"),
      ),
      groups(page, all),
      error ? failure(error, () => load(page)) : null,
      letters === null && !error
        ? loading()
        : all.length === 0 && letters
          ? empty(
              Object.values(filter).some(Boolean) ? "No dead letter fits." : "There is no dead letter.",
              "An event becomes one when its sink refuses it, or when all attempts have failed. It stays here until it is redriven or purged.",
            )
          : null,
      all.length
        ? table(
            "Dead letters",
            [
              { title: "Select", hidden: true },
              { title: "Event" },
              { title: "Subscription", class: "wide" },
              { title: "Reason" },
              { title: "Attempts", class: "right wide" },
              { title: "When", class: "wide" },
            ],
            [selectAll(page, all), ...all.flatMap((l) => row(page, l))],
            "picks",
          )
        : null,
      next ? h("p", { class: "more" }, h("button", { onclick: () => load(page, next) }, "Load more")) : null,
      dialog(page),
    ];
  },
};

/** @param {import("../app.js").Page} page @param {number} [after] */
async function load(page, after = 0) {
  const mine = ++asked;
  askedAt = Date.now();
  try {
    const found = await get(`/api/v1/deadletters${write({ ...filter, limit: pageSize, after: after ? String(after) : "" })}`);
    if (mine !== asked) return;
    letters = after ? (letters ?? []).concat(found.deadletters) : found.deadletters;
    next = found.next ?? 0;
    const there = new Set((letters ?? []).map((l) => l.sequence));
    selected = new Set([...selected].filter((s) => there.has(s)));
    error = null;
  } catch (failed) {
    error = /** @type {Error} */ (failed);
  }
  page.render();
}

/** groups count by origin and reason; each of them is a filter. @param {import("../app.js").Page} page @param {DeadLetter[]} all */
function groups(page, all) {
  /** @type {Map<string, {namespace: string, subscription: string, reason: string, n: number}>} */
  const found = new Map();
  for (const l of all) {
    const key = `${l.namespace}/${l.subscription} ${l.reason}`;
    const group = found.get(key) ?? { namespace: l.namespace, subscription: l.subscription, reason: l.reason, n: 0 };
    group.n++;
    found.set(key, group);
  }
  const filtered = Object.values(filter).some(Boolean);
  return h(
    "div",
    { class: "groups", key: "groups" },
    [...found]
      .sort(([, a], [, b]) => b.n - a.n)
      .slice(0, 12)
      .map(([key, g]) =>
        h(
          "button",
          { key, class: "group", onclick: () => apply(page, { namespace: g.namespace, subscription: g.subscription, reason: g.reason }) },
          h("b", null, count(g.n)),
          h("span", null, `${g.namespace}/${g.subscription}`),
          h("span", { class: "faint" }, g.reason),
        ),
      ),
    filtered ? h("button", { class: "plain", onclick: () => apply(page, {}) }, "Show all") : null,
  );
}

/** @param {import("../app.js").Page} page @param {Record<string, string>} wanted */
function apply(page, wanted) {
  filter = wanted;
  selected = new Set();
  history.replaceState(null, "", deadLettersPath(filter));
  load(page);
}

/** @param {import("../app.js").Page} page @param {DeadLetter[]} all */
function selectAll(page, all) {
  const every = selected.size >= Math.min(all.length, most);
  return h(
    "tr",
    { key: "all", class: "select-all" },
    h(
      "td",
      null,
      h("input", {
        type: "checkbox",
        id: "all",
        checked: every,
        indeterminate: selected.size > 0 && !every,
        onchange: () => {
          selected = every ? new Set() : new Set(all.slice(0, most).map((l) => l.sequence));
          page.render();
        },
      }),
    ),
    h(
      "td",
      { colspan: "5" },
      h("label", { for: "all" }, `Select ${all.length > most ? `the first ${count(most)}` : `all ${count(all.length)}`} that are shown`),
    ),
  );
}

/** @param {import("../app.js").Page} page @param {DeadLetter} l */
function row(page, l) {
  const open = opened.get(l.sequence);
  const line = h(
    "tr",
    { key: String(l.sequence), class: selected.has(l.sequence) ? "selected" : "" },
    h(
      "td",
      null,
      h("input", {
        type: "checkbox",
        "aria-label": `Select ${l.type ?? l.sequence}`,
        checked: selected.has(l.sequence),
        onchange: () => {
          selected.has(l.sequence) ? selected.delete(l.sequence) : selected.size < most && selected.add(l.sequence);
          page.render();
        },
      }),
    ),
    h(
      "td",
      null,
      h("button", { class: "plain strong", "aria-expanded": String(Boolean(open)), onclick: () => toggle(page, l) }, l.type ?? "message"),
      h("div", { class: "faint id", title: l.id }, short(l.id ?? "", 36)),
      h("div", { class: "faint narrow" }, time(l.time)),
    ),
    h("td", { class: "wide" }, qualified(l.namespace, l.subscription)),
    h(
      "td",
      null,
      h("b", null, l.reason),
      l.status ? h("span", { class: "faint" }, ` ${l.status}`) : null,
      h("div", { class: "faint clip" }, l.message),
    ),
    h("td", { class: "right wide" }, l.attempts),
    h("td", { class: "wide" }, time(l.time)),
  );
  return open ? [line, h("tr", { key: `open ${l.sequence}`, class: "opened" }, h("td", { colspan: "6" }, details(open)))] : [line];
}

/** @param {import("../app.js").Page} page @param {DeadLetter} l */
async function toggle(page, l) {
  if (opened.delete(l.sequence)) return page.render();
  opened.set(l.sequence, l);
  page.render();
  opened.set(l.sequence, await get(`/api/v1/deadletters/${l.sequence}`).catch((failed) => failed));
  page.render();
}

/** @param {DeadLetter | Error} l */
function details(l) {
  if (l instanceof Error) return failure(l);
  return h(
    "div",
    { class: "detail" },
    h(
      "dl",
      { class: "facts" },
      h("dt", null, "Subscription"),
      h("dd", null, `${l.namespace}/${l.subscription}`),
      h("dt", null, "Origin"),
      h("dd", null, l.source ?? "unknown"),
      h("dt", null, "Published"),
      h("dd", null, time(l.published)),
      h("dt", null, "Reason"),
      h("dd", null, l.message),
      l.excerpt ? [h("dt", null, "Answer"), h("dd", null, h("code", null, l.excerpt))] : [],
      h("dt", null, "Trace"),
      h("dd", null, h("a", { href: eventPath(l) }, "what happened to it")),
    ),
    h(
      "pre",
      { class: "code plain", tabindex: "0", "aria-label": "Event" },
      l.event ? json(l.event.data ?? l.event) : l.body ? "The message is not an event." : "Loading",
    ),
  );
}

/** @param {import("../app.js").Page} page @param {"redrive" | "purge"} what */
function ask(page, what) {
  work = { what, sequences: [...selected], done: 0, failed: 0, gone: 0, running: false, stopped: false, over: false, problems: [] };
  page.render();
  requestAnimationFrame(() =>
    requestAnimationFrame(() => /** @type {HTMLDialogElement | null} */ (document.getElementById("work"))?.showModal()),
  );
}

const verbs = { redrive: ["Redrive", "delivered again to their Subscriptions"], purge: ["Purge", "deleted for good"] };

/** @param {import("../app.js").Page} page */
function dialog(page) {
  if (!work) return null;
  const w = work;
  const [verb, effect] = verbs[w.what];
  const tried = w.done + w.failed + w.gone;
  return h(
    "dialog",
    {
      id: "work",
      key: "work",
      "aria-labelledby": "work-title",
      onclose: () => {
        w.stopped = true;
        work = null;
        page.render();
      },
    },
    h("h2", { id: "work-title" }, `${verb} ${counted(w.sequences.length, "dead letter")}?`),
    w.running || w.over
      ? [
          h("progress", { max: String(w.sequences.length), value: String(tried), "aria-label": "Progress" }),
          h(
            "p",
            { role: "status" },
            `${count(w.done)} done${w.failed ? `, ${count(w.failed)} failed` : ""}${w.gone ? `, ${count(w.gone)} were gone` : ""} of ${count(w.sequences.length)}`,
          ),
          w.problems.map((text) => h("p", { class: "bad" }, text)),
        ]
      : h("p", null, `They are ${effect}. `, w.what === "purge" ? "This cannot be undone." : "Those that fail again come back."),
    h(
      "div",
      { class: "buttons" },
      w.over
        ? h("button", { class: "main", onclick: close }, "Close")
        : w.running
          ? h(
              "button",
              {
                onclick: () => {
                  w.stopped = true;
                },
              },
              "Stop",
            )
          : [
              h("button", { onclick: close }, "Cancel"),
              h(
                "button",
                { class: w.what === "purge" ? "danger" : "main", onclick: () => run(page, w) },
                `${verb} ${count(w.sequences.length)}`,
              ),
            ],
    ),
  );
}

const close = () => /** @type {HTMLDialogElement | null} */ (document.getElementById("work"))?.close();

/** run does a selection in batches, so that it can be stopped and shows how far it is. @param {import("../app.js").Page} page @param {NonNullable<typeof work>} w */
async function run(page, w) {
  w.running = true;
  page.render();
  try {
    for (let at = 0; at < w.sequences.length && !w.stopped; at += batch) {
      const result = await post(`/api/v1/deadletters/${w.what}`, { sequences: w.sequences.slice(at, at + batch) });
      w.done += result.done;
      w.failed += (result.failed ?? 0) + (result.left?.length ?? 0);
      w.gone += result.gone ?? 0;
      for (const text of result.problems ?? []) if (!w.problems.includes(text)) w.problems.push(text);
      page.render();
    }
  } catch (failed) {
    w.problems.push(/** @type {Error} */ (failed).message);
  }
  [w.running, w.over] = [false, true];
  note(
    `${verbs[w.what][0]}: ${count(w.done)} of ${counted(w.sequences.length, "dead letter")} done`,
    w.failed || w.problems.length ? "bad" : "",
  );
  load(page);
}
