// Health: what is wrong, what to do about it, and how full it is.
import { get } from "../api.js";
import { h } from "../dom.js";
import { counted, percent } from "../format.js";
import { empty, failure, fill, heading, loading, panel, place, time } from "../parts.js";
import { state } from "../store.js";
import { level } from "./inside.js";

/** what was examined: null before, and where nobody examines @type {import("../types.js").Examined | null} */
let examined = null;
/** @type {Error | null} */ let error = null;
let again = 0;
let shown = false;

export const health = {
  title: () => "Health",
  /** @param {import("../app.js").Page} page */
  mount(page) {
    shown = true;
    error = null;
    if (state.about?.home !== "cluster") return;
    load(page);
    again = setInterval(() => document.hidden || load(page), 60_000);
  },
  unmount() {
    shown = false;
    clearInterval(again);
  },
  /** @param {import("../app.js").Page} page */
  render: (page) => [heading("Health"), alerts(), problems(), checks(page), h("div", { class: "pair", key: "pair" }, streams(), about())],
};

/** @param {import("../app.js").Page} page */
async function load(page) {
  try {
    [examined, error] = [await get("/api/v1/health"), null];
  } catch (failed) {
    error = /** @type {Error} */ (failed);
  }
  if (shown) page.render();
}

const order = ["bad", "warning", "good"];

/** checks is what rouse doctor says. @param {import("../app.js").Page} page */
function checks(page) {
  if (state.about?.home !== "cluster") return null;
  const all = [...(examined?.findings ?? [])].sort((a, b) => order.indexOf(a.level) - order.indexOf(b.level));
  /** @param {string} of */
  const n = (of) => all.filter((f) => f.level === of).length;
  return panel(
    "Checks",
    error
      ? failure(error, () => load(page))
      : !examined
        ? loading("Examining the cluster")
        : h(
            "ul",
            { class: "findings" },
            all.map((f, i) => h("li", { key: `${f.check} ${i}` }, level(f.level), said(f.check, f.message, f.remedy))),
          ),
    examined
      ? h(
          "span",
          { class: "faint" },
          `${counted(n("bad"), "failure")}, ${counted(n("warning"), "warning")}, ${n("good")} ok, `,
          time(examined.at),
        )
      : null,
    { key: "checks" },
  );
}

/** @param {string} title @param {string} message @param {string} [remedy] @param {any} [more] */
const said = (title, message, remedy, more = null) =>
  h(
    "div",
    null,
    h("b", null, title),
    more,
    h("p", null, message),
    remedy ? h("p", null, h("span", { class: "faint" }, "What to do: "), remedy) : null,
  );

/** alerts are those of the chart that fire, whether or not a Prometheus watches them too */
function alerts() {
  const found = examined?.alerts;
  if (!found) return null;
  const all = found.firing;
  return panel(
    "Alerts",
    all.length
      ? h(
          "ul",
          { class: "findings" },
          all.map((a) =>
            h(
              "li",
              { key: `${a.name} ${a.summary}` },
              h("span", { class: `outcome ${a.severity === "critical" ? "bad" : "warn"}` }, a.severity),
              said(a.name, a.summary, a.remedy, h("span", { class: "faint" }, " ", time(a.since))),
            ),
          ),
        )
      : empty("No alert fires.", "Backlogs that grow, dead letters, streams that fill and connections are watched every 30 seconds."),
    found.silent
      ? h(
          "span",
          { class: "bad" },
          `${counted(found.silent, "process", "processes")} of Rouse ${found.silent === 1 ? "reports" : "report"} no metrics`,
        )
      : null,
    { key: "alerts" },
  );
}

function problems() {
  const all = [...state.problems].sort(([, a], [, b]) => Number(a.warning ?? false) - Number(b.warning ?? false));
  return panel(
    "Problems",
    all.length
      ? h(
          "ul",
          { class: "attention long" },
          all.map(([key, p]) =>
            h(
              "li",
              { key, class: p.warning ? "warn" : "bad" },
              h("div", null, h("b", null, p.object || "File"), " ", place(p.at)),
              h("p", null, p.message),
              p.remedy ? h("p", { class: "faint" }, p.remedy) : null,
            ),
          ),
        )
      : empty("Everything that was read is used.", "Problems of manifests, Functions and APIRules are listed here, with what to do."),
  );
}

const purposes = /** @type {Record<string, string>} */ ({
  "rouse-retries": "events that wait for their next attempt",
  "rouse-dead-letters": "events that could not be delivered",
});

const streams = () =>
  panel(
    "Streams",
    state.streams.size === 0
      ? empty("How full they are is not known here.", "The dashboard in the cluster shows it to users who see all namespaces.")
      : h(
          "ul",
          { class: "meters" },
          [...state.streams.values()].map((s) =>
            h(
              "li",
              { key: s.name },
              h(
                "div",
                { class: "spread" },
                h("b", null, s.name),
                h("span", { class: s.fill > 0.8 ? "bad" : "" }, s.problem ? "unknown" : percent(s.fill)),
              ),
              fill(s.fill, `fill of ${s.name}`),
              h("p", { class: "faint" }, s.problem ?? purposes[s.name] ?? "events that are not delivered yet"),
            ),
          ),
        ),
  );

function about() {
  const a = state.about;
  if (!a) return null;
  return panel(
    "This installation",
    h(
      "dl",
      { class: "facts" },
      h("dt", null, "Home"),
      h("dd", null, a.home === "local" ? "local mode" : "cluster"),
      h("dt", null, a.home === "local" ? "Folder" : "Cluster"),
      h("dd", null, h("code", null, a.name)),
      h("dt", null, "Version"),
      h("dd", null, a.version),
      a.publish ? [h("dt", null, "Publish to"), h("dd", null, h("code", null, a.publish))] : [],
      h("dt", null, "You"),
      h("dd", null, a.user.name, a.user.changes ? ", who may change things" : ", who may read"),
    ),
  );
}
