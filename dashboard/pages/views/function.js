// Function: one of them, with its code and what it prints.
import { get, stream } from "../api.js";
import { h } from "../dom.js";
import { clock, counted, full } from "../format.js";
import {
  deadLettersPath,
  empty,
  eventsPath,
  failure,
  heading,
  loading,
  number,
  panel,
  pauseButton,
  phase,
  place,
  search,
  wakeBar,
} from "../parts.js";
import { state, subscriptionsOf } from "../store.js";
import { conditions, happenings, pause, replicas, unknown, versions } from "./inside.js";
import { forget, testCall, testEvent } from "./try.js";

const mostLines = 1000;

/** @type {import("../types.js").FnDetail | null} */ let detail = null;
/** @type {Error | null} */ let error = null;
/** @type {{time: string, replica?: string, stream: string, text: string, number: number}[]} */ let lines = [];
let lineNumber = 0;
let paused = false;
let only = "";
let skipped = 0;
let seen = "";
/** what is shown: answers about another Function come too late */
let current = "";
let file = 0;
/** what the log shows: what replicas print, or what builds do @type {"log" | "build"} */ let showing = "log";
/** @type {(() => void)[]} */ let ends = [];
let endLog = () => {};
let load = async () => {};

/** followLog shows the lines of a stream from its beginning. @param {() => void} render */
function followLog(render) {
  endLog();
  lines = [];
  skipped = 0;
  endLog = stream(`${current}/${showing}`, {
    lines: (data) => {
      skipped += data.skipped ?? 0;
      for (const line of data.lines) lines.push({ ...line, number: lineNumber++ });
      lines = lines.slice(-mostLines);
      if (!paused) render();
    },
    open: () => (lines = []),
  });
}

export const oneFunction = {
  /** @param {import("../app.js").Page} page */
  title: ({ params }) => params[1],
  /** @param {import("../app.js").Page} page */
  mount({ params, render }) {
    forget();
    [detail, error, paused, only, seen, file, showing] = [null, null, false, "", "", 0, "log"];
    const path = `/api/v1/functions/${params.map(encodeURIComponent).join("/")}`;
    current = path;
    let loading = false;
    load = async () => {
      if (loading) return;
      loading = true;
      const [found, failed] = await get(path).then(
        (answer) => [answer, null],
        (reason) => [detail, reason],
      );
      loading = false;
      if (current !== path) return;
      [detail, error] = [found, failed];
      render();
    };
    load();
    let turns = 0;
    const every = state.about?.home === "local" ? 1 : 4; // the API server has others to answer
    const again = setInterval(() => {
      const now = JSON.stringify(state.functions.get(params.join("/")));
      turns++;
      if (!document.hidden && (now !== seen || (turns % every === 0 && (detail?.ready || detail?.pods?.length || every > 1)))) load(); // reasons have times
      seen = now;
    }, 1000);
    followLog(render);
    ends = [() => clearInterval(again), () => endLog()];
  },
  unmount() {
    current = "";
    for (const end of ends) end();
  },
  /** @param {import("../app.js").Page} page */
  render(page) {
    const key = page.params.join("/");
    const fn = state.functions.get(key);
    const back = h("p", { class: "crumb" }, h("a", { href: "/functions" }, "Functions"), " / ", page.params[0]);
    if (error && !detail) return [heading(page.params[1], null, back), failure(error)];
    if (!fn || !detail) return [heading(page.params[1], null, back), loading()];
    return [
      heading(
        fn.name,
        [
          phase(fn),
          h(
            "span",
            { class: "replicas" },
            `${fn.ready} of ${fn.max}`,
            h("span", { class: "faint" }, fn.max === 1 ? " replica" : " replicas"),
          ),
          state.about?.user.changes ? h("a", { class: "button", href: `/functions/${key}/edit` }, "Edit") : null,
        ],
        back,
      ),
      fn.problem
        ? h(
            "div",
            { class: "notice bad", key: "problem", role: "alert" },
            h("pre", null, fn.problem),
            fn.older ? h("p", null, "The version before it answers.") : null,
          )
        : null,
      h(
        "div",
        { class: "split", key: "split" },
        h(
          "div",
          { class: "wide-part" },
          unknown(detail),
          log(page),
          replicas(detail),
          conditions(detail),
          happenings(detail),
          code(detail),
        ),
        h(
          "div",
          { class: "side-part" },
          why(detail),
          triggers(key),
          versions(page, detail, () => load()),
          testEvent(page, key),
          testCall(page),
          facts(detail),
        ),
      ),
    ];
  },
};

/** @param {import("../types.js").FnDetail} d */
const why = (d) =>
  panel("Scaling", [
    d.lastWake ? wakeBar(d.lastWake) : h("p", { class: "faint" }, "No event has woken it yet."),
    h(
      "dl",
      { class: "facts" },
      (d.why ?? []).map((w) => [h("dt", null, w.question), h("dd", null, w.answer)]),
      h("dt", null, "Replicas"),
      h("dd", null, d.min === d.max ? `always ${d.min}` : `from ${d.min} to ${d.max}`),
      d.wakes === null ? [] : [h("dt", null, "Woken"), h("dd", null, counted(d.wakes, "time"))],
      d.restarts ? [h("dt", null, "Restarted"), h("dd", { class: "warn" }, counted(d.restarts, "time"))] : [],
    ),
  ]);

/** @param {string} key */
function triggers(key) {
  const all = subscriptionsOf(key);
  return panel(
    "Subscriptions",
    all.length
      ? h(
          "ul",
          { class: "plain-list" },
          all.map((s) =>
            h(
              "li",
              { key: s.name },
              h(
                "div",
                { class: "spread" },
                h("b", null, s.name),
                h(
                  "span",
                  null,
                  number(s.backlog + s.inFlight, "warn"),
                  h("span", { class: "faint" }, " waiting "),
                  pause("subscriptions", `${s.namespace}/${s.name}`, s.state === "paused"),
                ),
              ),
              h(
                "div",
                { class: "types" },
                s.types.map((t) => h("a", { href: eventsPath({ type: t, source: s.source }) }, t)),
                h("span", { class: "faint" }, ` from ${s.source}`),
              ),
              s.deadLetters
                ? h(
                    "a",
                    { class: "bad", href: deadLettersPath({ namespace: s.namespace, subscription: s.name }) },
                    counted(s.deadLetters, "dead letter"),
                  )
                : null,
              s.state !== "ready" ? h("p", { class: "warn" }, `${s.state} ${s.message ?? ""}`) : null,
            ),
          ),
        )
      : empty("No event wakes it.", "Add a Subscription whose sink is its Service."),
    all.length > 1
      ? [
          pause(
            "functions",
            key,
            all.every((s) => s.state === "paused"),
          ),
        ]
      : null,
  );
}

/** @param {import("../types.js").FnDetail} d */
const facts = (d) =>
  panel(
    "Facts",
    h(
      "dl",
      { class: "facts" },
      h("dt", null, "Runtime"),
      h("dd", null, d.runtime),
      d.url ? [h("dt", null, "URL"), h("dd", null, h("a", { href: d.url, target: "_blank", rel: "noreferrer" }, d.url))] : [],
      (d.exposed ?? []).map((url) => [
        h("dt", null, "APIRule"),
        h("dd", null, h("a", { href: url, target: "_blank", rel: "noreferrer" }, url)),
      ]),
      d.at ? [h("dt", null, "Manifest"), h("dd", null, place(d.at))] : [],
      d.repository ? [h("dt", null, "Repository"), h("dd", null, d.repository)] : [],
      h("dt", null, "Variables"),
      h(
        "dd",
        { title: "Values are never shown" },
        d.environment.length ? d.environment.map((name) => h("code", { class: "variable" }, name)) : h("span", { class: "faint" }, "none"),
      ),
    ),
  );

/** @param {import("../types.js").FnDetail} d */
function code(d) {
  const files = [...d.files, ...(d.dependencies ? [{ name: "dependencies", text: d.dependencies }] : [])];
  if (!files.length)
    return panel(
      "Code",
      empty("The code is not in the manifest.", d.repository ? `It comes from ${d.repository}.` : "It is in a file beside it."),
    );
  const chosen = files[Math.min(file, files.length - 1)];
  return panel(
    "Code",
    h(
      "pre",
      { class: "code", tabindex: "0", "aria-label": chosen.name },
      chosen.text
        .replace(/\n$/, "")
        .split("\n")
        .map((text) => h("span", { class: "row" }, `${text}\n`)),
    ),
    files.length > 1
      ? h(
          "div",
          { class: "segments", role: "group", "aria-label": "File" },
          files.map((f, i) =>
            h(
              "button",
              {
                "aria-pressed": String(i === file),
                onclick: () => {
                  file = i;
                },
              },
              f.name,
            ),
          ),
        )
      : null,
  );
}

/** @param {import("../app.js").Page} page */
function log(page) {
  const building = showing === "build";
  const kinds = /** @type {const} */ ([
    ["log", "Output"],
    ["build", state.about?.home === "local" ? "Preparation" : "Build"],
  ]);
  const shown = only ? lines.filter((l) => l.text.toLowerCase().includes(only.toLowerCase())) : lines;
  const several = new Set(lines.map((l) => l.replica)).size > 1;
  return panel(
    "Log",
    [
      skipped ? h("p", { class: "notice" }, `${counted(skipped, "line")} came too fast to be shown.`) : null,
      lines.length === 0
        ? building
          ? empty("There is no line of a build.", "What needs none has none, and a cluster keeps the Job of the last build for a while.")
          : empty("It has printed nothing yet.", "Send it a test event, and it wakes.")
        : h(
            "div",
            { class: "log", tabindex: "0", role: "log", "aria-label": "Log, the newest line first" },
            [...shown]
              .reverse()
              .slice(0, 400)
              .map((l) =>
                h(
                  "div",
                  { key: String(l.number), class: `entry ${l.stream}` },
                  h("time", { datetime: l.time, title: full(l.time) }, clock(l.time)),
                  several && l.replica ? h("span", { class: "replica" }, l.replica) : null,
                  h("span", { class: "text" }, l.text),
                ),
              ),
          ),
    ],
    [
      h(
        "div",
        { class: "segments", role: "group", "aria-label": "Lines of" },
        kinds.map(([kind, name]) =>
          h(
            "button",
            {
              "aria-pressed": String(showing === kind),
              onclick: () => {
                showing = kind;
                followLog(page.render);
                page.render();
              },
            },
            name,
          ),
        ),
      ),
      search("Filter lines", only, (text) => {
        only = text;
        page.render();
      }),
      pauseButton(paused, () => {
        paused = !paused;
        page.render();
      }),
    ],
  );
}
