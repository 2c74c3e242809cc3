// Saved: requests of test calls that a user has given a name, kept by this browser.
import { h } from "../dom.js";
import { note } from "../parts.js";

const place = "rouse-requests";
const most = 50;
const largest = 16_384;

/** @typedef {{key: string, name: string, method: string, path: string, body: string}} Saved */

/** all reads what is kept. Another program may have written there. @returns {Saved[]} */
function all() {
  try {
    const found = JSON.parse(localStorage.getItem(place) ?? "[]");
    const fields = ["key", "name", "method", "path", "body"];
    return Array.isArray(found) ? found.filter((r) => fields.every((field) => typeof r?.[field] === "string")).slice(0, most) : [];
  } catch {
    return [];
  }
}

/** @param {Saved[]} requests */
function keep(requests) {
  try {
    localStorage.setItem(place, JSON.stringify(requests));
    return true;
  } catch {
    note("The browser keeps no more: delete a saved request.", "bad");
    return false;
  }
}

let naming = false;
let name = "";
let chosen = "";

/** forgetChoice is for another Function. */
export function forgetChoice() {
  [naming, name, chosen] = [false, "", ""];
}

/**
 * saved chooses, saves and deletes requests to a Function.
 * @param {import("../app.js").Page} page @param {string} key @param {{method: string, path: string, body: string}} request  what is in the form
 */
export function saved(page, key, request) {
  const mine = all().filter((r) => r.key === key);
  const others = () => all().filter((r) => r.key !== key || r.name !== name.trim());
  const save = () => {
    if (!name.trim()) return;
    if (request.body.length > largest) return note("The body is too large to be saved: 16 KiB are the most.", "bad");
    if (others().length >= most) return note(`${most} requests are saved, the most: delete one.`, "bad");
    const { method, path, body } = request;
    if (keep([...others(), { key, name: name.trim(), method, path, body }])) [chosen, naming] = [name.trim(), false];
    page.render();
  };
  if (naming)
    return h(
      "div",
      { class: "line-of-fields saving", key: "naming" },
      h("input", {
        id: "request-name",
        "aria-label": "Name of the request",
        placeholder: "Name",
        maxlength: "60",
        value: name,
        oninput: (/** @type {any} */ e) => {
          name = e.target.value;
        },
        onkeydown: (/** @type {KeyboardEvent} */ e) => {
          if (e.key !== "Enter") return;
          e.preventDefault();
          save();
        },
      }),
      h("button", { type: "button", onclick: save }, "Save"),
      h(
        "button",
        {
          type: "button",
          onclick: () => {
            naming = false;
            page.render();
          },
        },
        "Cancel",
      ),
    );
  return h(
    "div",
    { class: "line-of-fields saving", key: "saved" },
    mine.length
      ? h(
          "select",
          {
            "aria-label": "Saved requests",
            value: mine.some((r) => r.name === chosen) ? chosen : "",
            onchange: (/** @type {any} */ e) => {
              chosen = e.target.value;
              const found = mine.find((r) => r.name === chosen);
              if (found) Object.assign(request, { method: found.method, path: found.path, body: found.body });
              page.render();
            },
          },
          h("option", { value: "" }, "Saved requests"),
          mine.map((r) => h("option", { value: r.name }, r.name)),
        )
      : null,
    h(
      "button",
      {
        type: "button",
        key: "save",
        onclick: () => {
          [naming, name] = [true, chosen];
          page.render();
          requestAnimationFrame(() => requestAnimationFrame(() => document.getElementById("request-name")?.focus()));
        },
      },
      "Save request",
    ),
    mine.some((r) => r.name === chosen)
      ? h(
          "button",
          {
            type: "button",
            "aria-label": `Delete the saved request ${chosen}`,
            onclick: () => {
              keep(all().filter((r) => r.key !== key || r.name !== chosen));
              chosen = "";
              page.render();
            },
          },
          "Delete",
        )
      : null,
  );
}
