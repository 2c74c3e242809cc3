// Health: what is wrong, what to do about it, and how full it is.
import { h } from "../dom.js";
import { percent } from "../format.js";
import { empty, fill, heading, panel } from "../parts.js";
import { state } from "../store.js";

export const health = {
  title: () => "Health",
  render: () => [heading("Health"), problems(), h("div", { class: "pair", key: "pair" }, streams(), about())],
};

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
              h("div", null, h("b", null, p.object || "File"), " ", h("code", null, p.at)),
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
      ? empty("How full they are is not known here.", "In a cluster its metrics and alerts watch the streams.")
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
