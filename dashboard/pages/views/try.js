// Try: what a user sends a Function by hand.
import { post } from "../api.js";
import { h } from "../dom.js";
import { duration } from "../format.js";
import { failure, note, panel } from "../parts.js";
import { state, subscriptionsOf } from "../store.js";
import { forgetChoice, saved } from "./saved.js";

/** forget drops what was answered, for another Function. */
export function forget() {
  draft.type = "";
  forgetChoice();
  Object.assign(call, { running: false, answer: null, error: null });
}

const draft = { type: "", source: "", data: '{\n  "id": "1"\n}' };

/** testEvent sends an event that wakes the Function. @param {import("../app.js").Page} page @param {string} key */
export function testEvent(page, key) {
  if (!state.about?.user.changes) return null;
  const kinds = subscriptionsOf(key).flatMap((s) => s.types.map((type) => ({ type, source: s.source })));
  if (!kinds.length) return null;
  if (!kinds.some((k) => k.type === draft.type)) Object.assign(draft, kinds[0]);
  return panel(
    "Test event",
    h(
      "form",
      {
        class: "form",
        onsubmit: (/** @type {SubmitEvent} */ e) => {
          e.preventDefault();
          send(page);
        },
      },
      h(
        "label",
        null,
        "Type",
        h(
          "select",
          {
            value: draft.type,
            onchange: (/** @type {any} */ e) => {
              Object.assign(
                draft,
                kinds.find((k) => k.type === e.target.value),
              );
              page.render();
            },
          },
          kinds.map((k) => h("option", { value: k.type }, k.type)),
        ),
      ),
      h(
        "label",
        null,
        "Source",
        h("input", {
          value: draft.source,
          oninput: (/** @type {any} */ e) => {
            draft.source = e.target.value;
          },
        }),
      ),
      h(
        "label",
        null,
        "Data, in JSON",
        h("textarea", {
          rows: "5",
          spellcheck: "false",
          value: draft.data,
          oninput: (/** @type {any} */ e) => {
            draft.data = e.target.value;
          },
        }),
      ),
      h(
        "div",
        { class: "spread" },
        h("span", { class: "faint" }, "Every Subscription of the type gets it."),
        h("button", { class: "main" }, "Publish"),
      ),
    ),
  );
}

/** @param {import("../app.js").Page} page */
async function send(page) {
  let data;
  try {
    data = JSON.parse(draft.data);
  } catch (failed) {
    note(`The data are not JSON: ${/** @type {Error} */ (failed).message}`, "bad");
    return;
  }
  const id = `test-${crypto.randomUUID().slice(0, 8)}`;
  try {
    await post("/api/v1/publish", {
      specversion: "1.0",
      id,
      type: draft.type,
      source: draft.source,
      datacontenttype: "application/json",
      data,
    });
    note(`Published ${id}`);
  } catch (failed) {
    note(/** @type {Error} */ (failed).message, "bad");
  }
  page.render();
}

/** @type {{method: string, path: string, body: string, running: boolean, answer: any, error: Error | null}} */
const call = { method: "GET", path: "/", body: "", running: false, answer: null, error: null };

/** testCall sends a request, which wakes the Function as any other. @param {import("../app.js").Page} page */
export function testCall(page) {
  if (!state.about?.user.changes) return null;
  const methods = ["GET", "POST", "PUT", "PATCH", "DELETE"];
  const submit = (/** @type {SubmitEvent} */ e) => {
    e.preventDefault();
    request(page);
  };
  const set = (/** @type {"method" | "path" | "body"} */ field) => (/** @type {any} */ e) => {
    call[field] = e.target.value;
    page.render();
  };
  return panel(
    "Test call",
    h(
      "form",
      { class: "form", onsubmit: submit },
      h(
        "div",
        { class: "line-of-fields" },
        h(
          "select",
          { "aria-label": "Method", value: call.method, onchange: set("method") },
          methods.map((m) => h("option", { value: m }, m)),
        ),
        h("input", { "aria-label": "Path", value: call.path, oninput: set("path") }),
      ),
      call.method === "GET"
        ? null
        : h("textarea", { rows: "3", "aria-label": "Body", spellcheck: "false", value: call.body, oninput: set("body") }),
      saved(page, page.params.join("/"), call),
      h(
        "div",
        { class: "buttons" },
        h("button", { class: "main", "aria-disabled": call.running ? "true" : undefined }, call.running ? "Waiting" : "Call"),
      ),
      call.error ? failure(call.error) : null,
      call.answer ? answered(call.answer) : null,
    ),
  );
}

/** @param {{status: number, contentType: string, body: string, cut?: boolean, tookMs: number}} a */
const answered = (a) =>
  h(
    "div",
    { role: "status" },
    h(
      "p",
      null,
      h("b", { class: a.status >= 400 ? "bad" : "" }, a.status),
      ` in ${duration(a.tookMs)}`,
      h("span", { class: "faint" }, ` ${a.contentType}`),
    ),
    h("pre", { class: "code plain answer", tabindex: "0", "aria-label": "Answer" }, a.body || "no body", a.cut ? "\n…" : ""),
  );

/** @param {import("../app.js").Page} page */
async function request(page) {
  if (call.running) return;
  Object.assign(call, { running: true, answer: null, error: null });
  page.render();
  try {
    const path = `/api/v1/functions/${page.params.map(encodeURIComponent).join("/")}/call`;
    call.answer = await post(path, { method: call.method, path: call.path, body: call.method === "GET" ? "" : call.body });
  } catch (failed) {
    call.error = /** @type {Error} */ (failed);
  }
  call.running = false;
  page.render();
}
