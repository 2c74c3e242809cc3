// Edit: a form for a Function and its Subscription. What it writes is shown before it is written.
import { get, post } from "../api.js";
import { h } from "../dom.js";
import { editor } from "../editor.js";
import { counted } from "../format.js";
import { empty, failure, heading, loading, note, panel } from "../parts.js";
import { state } from "../store.js";
import { bodyOf, dependenciesOf, idOf, nameOf, newForm, problemsHere, sampleOf } from "./draft.js";
import { review } from "./review.js";

/** @typedef {import("../app.js").Page} Page */
/** @typedef {import("./draft.js").Form} Form */

/** functions that were left unsaved stay here until they are saved or dropped */
/** @type {Form | null} */ let form = null;
/** @type {Error | null} */ let broken = null;
let current = "";

/** warn asks before the browser leaves what is not saved. @param {BeforeUnloadEvent} e */
const warn = (e) => {
  if (form?.touched) e.preventDefault();
};

/** @param {string} key @param {Page} page @param {() => Promise<Form>} begin */
async function open(key, page, begin) {
  current = key;
  broken = null;
  addEventListener("beforeunload", warn);
  if (form?.key === key && form.touched) return;
  form = null;
  try {
    const begun = await begin();
    if (current === key) form = begun;
  } catch (failed) {
    if (current === key) broken = /** @type {Error} */ (failed);
  }
  page.render();
}

function close() {
  current = "";
  removeEventListener("beforeunload", warn);
}

export const newFunction = {
  title: () => "New Function",
  /** @param {Page} page */
  mount: (page) =>
    open("new", page, async () => {
      const runtime = "nodejs22"; // the default of rouse init, too
      const namespace = state.about?.user.namespace || [...state.functions.values()][0]?.namespace || "default";
      return newForm("new", true, { namespace, name: "", runtime, source: sampleOf(runtime), dependencies: "", min: 0, max: 3 }, []);
    }),
  unmount: close,
  /** @param {Page} page */
  render: (page) => draw(page, "New Function", "/functions"),
};

export const editFunction = {
  /** @param {Page} page */
  title: ({ params }) => `Edit ${params[1]}`,
  /** @param {Page} page */
  mount: (page) => {
    const key = page.params.join("/");
    return open(key, page, async () => {
      const found = await get(`/api/v1/functions/${page.params.map(encodeURIComponent).join("/")}/draft`);
      return newForm(key, false, found.function, found.subscriptions);
    });
  },
  unmount: close,
  /** @param {Page} page */
  render: (page) => draw(page, `Edit ${page.params[1]}`, `/functions/${page.params.join("/")}`),
};

/** @param {Page} page @param {string} title @param {string} back */
function draw(page, title, back) {
  const crumb = h("p", { class: "crumb" }, h("a", { href: back }, back === "/functions" ? "Functions" : page.params.join("/")));
  if (!state.about?.user.changes)
    return [
      heading(title, null, crumb),
      empty("You may read here and change nothing.", "Ask the operator of this installation for the right."),
    ];
  if (broken) return [heading(title, null, crumb), failure(broken)];
  if (!form) return [heading(title, null, crumb), loading()];
  const f = form;
  return [
    heading(title, null, crumb),
    f.shown
      ? review(page, f, { write: () => send(page, f, true), edit: () => edit(page, f) })
      : h(
          "form",
          {
            key: "form",
            novalidate: true,
            onsubmit: (/** @type {SubmitEvent} */ e) => {
              e.preventDefault();
              send(page, f, false);
            },
          },
          summary(f),
          h(
            "div",
            { key: "split", class: "split" },
            h("div", { class: "wide-part" }, code(f)),
            h("div", { class: "side-part" }, facts(page, f), subscription(page, f), buttons(page, f, back)),
          ),
        ),
  ];
}

/** jump is a link to a field. @param {string} field */
const jump = (field) =>
  h(
    "a",
    {
      href: `#${idOf(field)}`,
      onclick: (/** @type {Event} */ e) => {
        e.preventDefault();
        document.getElementById(idOf(field))?.focus();
      },
    },
    nameOf(field),
  );

/** summary has what is wrong, with links to the fields. @param {Form} f */
function summary(f) {
  if (f.error) return failure(f.error);
  if (!f.problems.length) return null;
  return h(
    "div",
    { key: "summary", class: "notice bad stacked", role: "alert" },
    h("b", null, `${counted(f.problems.length, "problem")}: nothing is written.`),
    h(
      "ul",
      null,
      f.problems.map((p) => h("li", null, p.field ? jump(p.field) : "Elsewhere", ": ", p.message, p.remedy ? ` — ${p.remedy}` : "")),
    ),
    f.problems.some((p) => p.conflict)
      ? h(
          "label",
          { class: "check" },
          h("input", {
            type: "checkbox",
            checked: f.force,
            onchange: (/** @type {any} */ e) => {
              f.force = e.target.checked;
            },
          }),
          "Take these fields over from the programs that have written them",
        )
      : null,
  );
}

/**
 * named is a field with its name, and below it what is wrong with it.
 * @param {Form} f @param {string} field @param {string} hint @param {(attrs: any) => any} input
 */
function named(f, field, hint, input) {
  const id = idOf(field);
  const wrong = f.problems.filter((p) => p.field === field);
  return h(
    "div",
    { key: id, class: "field" },
    h("label", { for: id }, nameOf(field)),
    input({ id, "aria-invalid": wrong.length ? "true" : undefined, "aria-describedby": `${id}-hint` }),
    h(
      "div",
      { id: `${id}-hint`, class: "hint" },
      wrong.map((p) => h("p", { class: "bad" }, p.message, p.remedy ? ` — ${p.remedy}` : "")),
      hint ? h("p", { class: "faint" }, hint) : null,
    ),
  );
}

/** @param {Form} f */
const touch = (f) => Object.assign(f, { touched: true, shown: null });

/**
 * text is a field of one line.
 * @param {Page} page @param {Form} f @param {any} of @param {string} property @param {string} field @param {any} [more] @param {string} [hint]
 */
const text = (page, f, of, property, field, more = {}, hint = "") =>
  named(f, field, hint, (attrs) =>
    h("input", {
      ...attrs,
      ...more,
      autocomplete: "off",
      autocapitalize: "off",
      spellcheck: "false",
      value: of[property],
      oninput: (/** @type {any} */ e) => {
        touch(f);
        if (of === f.fn && property === "name" && f.create && f.sub.name === f.fn.name) f.sub.name = e.target.value;
        of[property] = e.target.value;
        page.render();
      },
    }),
  );

/** @param {Form} f */
const code = (f) =>
  panel("Code", [
    f.fn.source === null
      ? empty("The code is not in the manifest.", "It comes from files or a repository: change it there.")
      : named(f, "function.source", "Tab indents. Escape and then Tab leaves the editor.", (attrs) =>
          editor({
            id: attrs.id,
            value: f.source,
            describedby: attrs["aria-describedby"],
            invalid: attrs["aria-invalid"] === "true",
            rows: 22,
            change: (value) => {
              touch(f);
              f.source = value;
            },
          }),
        ),
    f.fn.source === null
      ? null
      : named(f, "function.dependencies", `The content of ${dependenciesOf(f.fn.runtime)}; empty for none.`, (attrs) =>
          editor({
            id: attrs.id,
            value: f.fn.dependencies,
            describedby: attrs["aria-describedby"],
            invalid: attrs["aria-invalid"] === "true",
            rows: 5,
            change: (value) => {
              touch(f);
              f.fn.dependencies = value;
            },
          }),
        ),
  ]);

/** @param {Page} page @param {Form} f */
const facts = (page, f) =>
  panel(
    "Function",
    h(
      "div",
      { class: "form" },
      text(page, f, f.fn, "name", "function.name", { readonly: !f.create }),
      text(page, f, f.fn, "namespace", "function.namespace", { readonly: !f.create }),
      named(f, "function.runtime", "", (attrs) =>
        h(
          "select",
          {
            ...attrs,
            value: f.fn.runtime,
            onchange: (/** @type {any} */ e) => {
              touch(f);
              if (f.source === sampleOf(f.fn.runtime)) f.source = sampleOf(e.target.value);
              f.fn.runtime = e.target.value;
              page.render();
            },
          },
          [...new Set([...(state.about?.runtimes ?? []), f.fn.runtime])].map((r) => h("option", { value: r }, r)),
        ),
      ),
      h(
        "div",
        { class: "pair-of-fields" },
        text(page, f, f, "min", "function.min", { inputmode: "numeric" }),
        text(page, f, f, "max", "function.max", { inputmode: "numeric" }),
      ),
      h(
        "p",
        { class: "hint faint" },
        "With 0 as the least it sleeps until an event or a request wakes it. Leave both empty for a fixed number.",
      ),
    ),
  );

/** @param {Page} page @param {Form} f */
function subscription(page, f) {
  const several = f.known.length > 1;
  return panel(
    "Subscription",
    h(
      "div",
      { class: "form" },
      f.known.length
        ? null
        : h(
            "label",
            { class: "check" },
            h("input", {
              type: "checkbox",
              checked: f.subscribe,
              onchange: (/** @type {any} */ e) => {
                touch(f);
                f.subscribe = e.target.checked;
                page.render();
              },
            }),
            "Events wake it",
          ),
      several ? h("p", { class: "notice" }, `This is the first of ${f.known.length}: the others stay as they are.`) : null,
      f.subscribe
        ? [
            text(page, f, f.sub, "name", "subscription.name", { readonly: f.known.length > 0 }),
            text(page, f, f.sub, "source", "subscription.source", {}, "Who publishes, such as store."),
            named(f, "subscription.types", "One in a line, such as order.received.", (attrs) =>
              h("textarea", {
                ...attrs,
                rows: "3",
                spellcheck: "false",
                value: f.sub.types,
                oninput: (/** @type {any} */ e) => {
                  touch(f);
                  f.sub.types = e.target.value;
                },
              }),
            ),
          ]
        : h("p", { class: "faint" }, "Without a Subscription requests alone wake it."),
    ),
  );
}

/** @param {Page} page @param {Form} f @param {string} back */
const buttons = (page, f, back) =>
  h(
    "div",
    { class: "buttons" },
    f.touched
      ? h(
          "button",
          {
            type: "button",
            key: "discard",
            onclick: () => {
              form = null;
              page.go(back);
            },
          },
          "Discard",
        )
      : null,
    h("button", { key: "review", class: "main", "aria-disabled": f.busy ? "true" : undefined }, f.busy ? "Checking" : "Review"),
  );

/** edit returns to the form. @param {Page} page @param {Form} f */
function edit(page, f) {
  f.shown = null;
  page.render();
}

/** send has a draft checked, or written as it was shown. @param {Page} page @param {Form} f @param {boolean} write */
async function send(page, f, write) {
  if (f.busy) return;
  Object.assign(f, { busy: true, error: null, problems: problemsHere(f) });
  page.render();
  try {
    if (!f.problems.length) await check(page, f, write);
  } catch (failed) {
    Object.assign(f, { error: failed, shown: null });
  }
  f.busy = false;
  if (current !== f.key) return;
  page.render();
  requestAnimationFrame(() =>
    requestAnimationFrame(() => {
      const first = f.shown ? document.querySelector("main h2") : document.querySelector("[aria-invalid=true]");
      if (first instanceof HTMLElement) first.focus();
    }),
  );
}

/** @param {Page} page @param {Form} f @param {boolean} write */
async function check(page, f, write) {
  const answer = await post("/api/v1/drafts", bodyOf(f, write));
  f.problems = answer.problems;
  f.shown = answer.problems.length ? null : answer;
  if (!answer.applied) return;
  const key = `${f.fn.namespace}/${f.fn.name}`;
  note(f.create ? `Created ${key}` : `Changed ${key}`);
  form = null;
  for (let tries = 0; tries < 50 && !state.functions.has(key); tries++) await new Promise((done) => setTimeout(done, 100)); // it is read soon
  if (current === f.key) page.go(`/functions/${key}`);
}
