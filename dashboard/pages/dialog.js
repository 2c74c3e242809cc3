// Dialog: the question before something is changed. The browser keeps the focus inside of it, and gives it back.
import { h } from "./dom.js";
import { failure, note } from "./parts.js";

/**
 * @typedef {{title: string, text: any, verb: string, danger?: boolean, act: () => Promise<string>}} Question
 * act returns what was done, which is shown
 */

/** @type {(Question & {running: boolean, error: Error | null, render: () => void}) | null} */
let asked = null;

const element = () => /** @type {HTMLDialogElement | null} */ (document.getElementById("question"));

/** ask shows a question. @param {{render: () => void}} page @param {Question} question */
export function ask(page, question) {
  asked = { ...question, running: false, error: null, render: page.render };
  page.render();
  requestAnimationFrame(() =>
    requestAnimationFrame(() => {
      if (!element()?.open) element()?.showModal();
    }),
  );
}

/** dismiss drops the question of a page that is left. */
export function dismiss() {
  asked = null;
}

/** dialog is the question, or null. */
export function dialog() {
  const q = asked;
  if (!q) return null;
  return h(
    "dialog",
    {
      id: "question",
      key: "question",
      "aria-labelledby": "question-title",
      onclose: () => {
        if (asked === q) asked = null;
        q.render();
      },
    },
    h("h2", { id: "question-title" }, q.title),
    h("div", null, q.text),
    q.error ? failure(q.error) : null,
    h(
      "div",
      { class: "buttons" },
      h("button", { onclick: () => element()?.close() }, q.running ? "Close" : "Cancel"),
      h(
        "button",
        { class: q.danger ? "danger" : "main", "aria-disabled": q.running ? "true" : undefined, onclick: () => run(q) },
        q.running ? "Waiting" : q.verb,
      ),
    ),
  );
}

/** @param {NonNullable<typeof asked>} q */
async function run(q) {
  if (q.running) return;
  Object.assign(q, { running: true, error: null });
  q.render();
  try {
    const done = await q.act();
    note(done);
    if (asked === q) element()?.close();
  } catch (failed) {
    if (asked === q) q.error = /** @type {Error} */ (failed);
    else note(/** @type {Error} */ (failed).message, "bad");
  }
  q.running = false;
  q.render();
}
