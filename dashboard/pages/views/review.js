// Review: what a form would write, before it is written.
import { h } from "../dom.js";
import { panel } from "../parts.js";

/** @typedef {import("../types.js").Preview} Preview */

const words = /** @type {Record<string, string>} */ ({ "+": "added: ", "-": "removed: " });

/**
 * review shows the YAML of what is new, and what changes of the rest.
 * @param {import("../app.js").Page} _page
 * @param {{shown: import("../types.js").Outlook | null, busy: boolean}} f
 * @param {{write: () => void, edit: () => void}} do_
 */
export function review(_page, f, do_) {
  const all = f.shown?.objects ?? [];
  const changes = all.some((o) => o.new || o.diff.length);
  return h(
    "div",
    { class: "review", key: "review" },
    h("h2", { tabindex: "-1" }, changes ? "This will be written" : "Nothing changes"),
    all.map(object),
    h(
      "div",
      { class: "buttons" },
      h("button", { onclick: do_.edit }, "Back to the form"),
      changes
        ? h("button", { class: "main", "aria-disabled": f.busy ? "true" : undefined, onclick: do_.write }, f.busy ? "Writing" : "Apply")
        : null,
    ),
  );
}

/** @param {Preview} o */
const object = (o) =>
  panel(
    `${o.kind} ${o.namespace}/${o.name}`,
    o.new
      ? h(
          "pre",
          { class: "code", tabindex: "0", role: "region", "aria-label": `YAML of ${o.kind} ${o.name}` },
          o.yaml
            .replace(/\n$/, "")
            .split("\n")
            .map((text) => h("span", { class: "row" }, `${text}\n`)),
        )
      : o.diff.length
        ? h(
            "pre",
            { class: "code diff", tabindex: "0", role: "region", "aria-label": `Changes of ${o.kind} ${o.name}` },
            o.diff.map((line) =>
              h(
                "span",
                { class: `line ${line.op === "+" ? "added" : line.op === "-" ? "removed" : ""}` },
                words[line.op] ? h("span", { class: "unseen" }, words[line.op]) : null,
                h("span", { class: "op", "aria-hidden": "true" }, line.op),
                `${line.text}\n`,
              ),
            ),
          )
        : h("p", { class: "faint" }, "It stays as it is."),
    [h("span", { class: "faint" }, o.new ? "new" : "", o.file ? [o.new ? ", in " : "in ", h("code", null, o.file)] : "")],
    { key: `${o.kind} ${o.name}` },
  );
