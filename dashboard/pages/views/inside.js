// Inside: what a cluster, or this machine, records of one Function: conditions, replicas, versions, Events of Kubernetes.
import { post } from "../api.js";
import { ask } from "../dialog.js";
import { h } from "../dom.js";
import { counted } from "../format.js";
import { chip, note, panel, table, time } from "../parts.js";
import { state } from "../store.js";

/** @typedef {import("../types.js").FnDetail} FnDetail */
/** @typedef {import("../app.js").Page} Page */

/** levels have a class and a word, so that no colour stands alone */
export const levels = /** @type {Record<string, [string, string]>} */ ({
  good: ["good", "ok"],
  warning: ["warn", "warning"],
  bad: ["bad", "failure"],
});

/** @param {string} name */
export const level = (name) => h("span", { class: `outcome ${levels[name]?.[0] ?? ""}` }, levels[name]?.[1] ?? name);

/** what conditions mean: when they are true, false, and unknown */
const meanings = /** @type {Record<string, [string, string, string]>} */ ({
  ConfigurationReady: ["The configuration is valid", "The configuration is refused", "The configuration is being checked"],
  BuildReady: ["The build is done", "The build has failed", "The build is running"],
  Running: ["It can run", "It does not run", "It is starting"],
  Scaling: ["It is scaled by its backlog", "It is not scaled", "Scaling is being set up"],
  Stalled: ["It needs a change by you", "It makes progress", "It is not known whether it makes progress"],
});

/** conditions says in words what the status of a Function has. @param {FnDetail} d */
export function conditions(d) {
  if (!d.conditions?.length) return null;
  return panel(
    "Conditions",
    h(
      "ul",
      { class: "findings" },
      d.conditions.map((c) => {
        const at = ["True", "False"].indexOf(c.status);
        const meaning = meanings[c.type]?.[at < 0 ? 2 : at] ?? `${c.type} is ${c.status}`;
        return h(
          "li",
          { key: c.type },
          level(c.level),
          h(
            "div",
            null,
            h("b", { title: `${c.type} is ${c.status}` }, meaning),
            h("p", null, c.message),
            h("p", { class: "faint" }, c.reason, " · ", time(c.since)),
          ),
        );
      }),
    ),
  );
}

/** replicas lists pods, or processes of local mode. @param {FnDetail} d */
export function replicas(d) {
  const local = state.about?.home === "local";
  if (!d.pods.length) return null;
  return panel(
    local ? "Processes" : "Pods",
    table(
      local ? "Processes" : "Pods",
      [
        { title: "Name" },
        { title: "State" },
        ...(local ? [] : [{ title: "Restarts", class: "right" }]),
        { title: "Since", class: "right wide" },
      ],
      d.pods.map((p) =>
        h(
          "tr",
          { key: p.name },
          h("td", { class: "id wrap" }, p.name),
          h(
            "td",
            null,
            chip(p.state, { class: p.ready ? "" : p.problem ? "bad" : "warn" }),
            p.problem ? h("div", { class: "reason" }, p.problem) : null,
          ),
          local ? null : h("td", { class: "right" }, p.restarts ? h("span", { class: "number warn" }, p.restarts) : "0"),
          h("td", { class: "right wide" }, time(p.since)),
        ),
      ),
    ),
  );
}

/** happenings lists the Events of Kubernetes. @param {FnDetail} d */
export function happenings(d) {
  if (!d.happenings?.length) return null;
  return panel(
    "Events of Kubernetes",
    h(
      "ul",
      { class: "findings" },
      d.happenings.map((e, i) =>
        h(
          "li",
          { key: `${e.reason} ${i}` },
          e.warning ? level("warning") : h("span", { class: "outcome" }, "normal"),
          h(
            "div",
            null,
            h("b", null, e.reason),
            h("p", null, e.message),
            h("p", { class: "faint" }, time(e.last), e.count > 1 ? `, ${counted(e.count, "time")}` : ""),
          ),
        ),
      ),
    ),
  );
}

/** unknown says what the user may not read. @param {FnDetail} d */
export const unknown = (d) =>
  (d.unknown ?? []).map((text) => h("div", { class: "notice", key: `unknown ${text}` }, "Not everything is shown: ", text));

const versionStates = { serving: "serving", rollingOut: "rolling out" };

/** versions lists what is kept; a rollback can choose those that neither serve nor are rolled out. @param {Page} page @param {FnDetail} d @param {() => void} load */
export function versions(page, d, load) {
  if (!d.versions?.length) return null;
  const may = state.about?.user.changes;
  const path = `/api/v1/functions/${page.params.map(encodeURIComponent).join("/")}/rollback`;
  /** @param {string} version */
  const serve = async (version) => {
    const { version: served } = await post(path, { version });
    load();
    return `${d.name} serves version ${served}`;
  };
  return panel(
    "Versions",
    h(
      "ul",
      { class: "plain-list" },
      d.versions.map((v) =>
        h(
          "li",
          { key: v.name, class: "spread" },
          h(
            "div",
            null,
            h("code", null, v.name),
            " ",
            v.state ? chip(versionStates[v.state], { class: "warn" }) : null,
            h("div", { class: "faint" }, time(v.since), v.pods ? `, ${counted(v.pods, "pod")}` : ""),
          ),
          may && !v.state
            ? h(
                "button",
                {
                  class: "small",
                  "aria-label": `Roll back to ${v.name}`,
                  onclick: () =>
                    ask(page, {
                      title: `Roll ${d.name} back to ${v.name}?`,
                      text: "It serves that version without a build, until you return to the newest. Variables, resources and replicas stay as they are.",
                      verb: "Roll back",
                      act: () => serve(v.name),
                    }),
                },
                "Roll back",
              )
            : null,
        ),
      ),
    ),
    d.rollbackTo && may
      ? h(
          "button",
          {
            class: "small",
            onclick: () =>
              ask(page, {
                title: `Return ${d.name} to its newest version?`,
                text: `A rollback to ${d.rollbackTo} is in force.`,
                verb: "Return",
                act: () => serve(""),
              }),
          },
          "Return to the newest",
        )
      : null,
  );
}

/**
 * pause is a button that pauses or resumes a Subscription, or all that lead to a Function.
 * @param {"subscriptions" | "functions"} of @param {string} key namespace/name @param {boolean} paused
 */
export function pause(of, key, paused) {
  if (!state.about?.user.changes) return null;
  const verb = paused ? "Resume" : "Pause";
  return h(
    "button",
    {
      class: "small",
      "aria-label": `${verb} ${key}`,
      title: paused ? "Deliver the events that were kept, and those that come" : "Keep events instead of delivering them",
      onclick: async (/** @type {any} */ e) => {
        const button = /** @type {HTMLButtonElement} */ (e.currentTarget);
        if (button.dataset.waits) return;
        button.dataset.waits = "yes";
        try {
          const { changed } = await post(`/api/v1/${of}/${key}/pause`, { paused: !paused });
          note(changed.length ? `${paused ? "Resumed" : "Paused"} ${changed.join(", ")}` : "Nothing had to be changed");
        } catch (failed) {
          note(/** @type {Error} */ (failed).message, "bad");
        }
        delete button.dataset.waits;
      },
    },
    verb,
  );
}
