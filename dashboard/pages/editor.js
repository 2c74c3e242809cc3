// Editor: a field for code. Tab indents; Escape and then Tab leaves it, so that the keyboard is not trapped.
import { h } from "./dom.js";

const indent = "  ";
let leaving = false;
let inserting = false;

/**
 * editor is a text field in a fixed-width font.
 * @param {{id: string, value: string, describedby: string, invalid: boolean, rows: number, change: (text: string) => void}} o
 */
export const editor = (o) =>
  h("textarea", {
    id: o.id,
    class: "editor",
    rows: String(o.rows),
    spellcheck: "false",
    autocapitalize: "off",
    autocomplete: "off",
    wrap: "off",
    "aria-describedby": o.describedby,
    "aria-invalid": o.invalid ? "true" : undefined,
    value: o.value,
    oninput: (/** @type {any} */ e) => o.change(e.target.value),
    onfocus: () => {
      leaving = false;
    },
    onkeydown: type,
    onbeforeinput: newLine,
  });

/** @param {KeyboardEvent} key */
function type(key) {
  const field = /** @type {HTMLTextAreaElement} */ (key.target);
  const plain = !key.ctrlKey && !key.metaKey && !key.altKey && !key.isComposing;
  if (key.key === "Escape") {
    leaving = true;
  } else if (key.key === "Tab" && plain && !leaving) {
    key.preventDefault();
    shift(field, key.shiftKey);
  } else if (key.key !== "Shift" && key.key !== "Tab") {
    leaving = false;
  }
}

/** newLine indents a line as the one before it, and deeper behind what opens a block. @param {InputEvent} input */
function newLine(input) {
  if (inserting || input.inputType !== "insertLineBreak") return;
  const field = /** @type {HTMLTextAreaElement} */ (input.target);
  const before = field.value.slice(0, field.selectionStart);
  const blanks = /^[ \t]*/.exec(before.slice(before.lastIndexOf("\n") + 1))?.[0] ?? "";
  input.preventDefault();
  insert(field, `\n${blanks}${/[{[(:]$/.test(before) ? indent : ""}`);
}

/** shift indents the selected lines, or takes their indentation back. @param {HTMLTextAreaElement} field @param {boolean} back */
function shift(field, back) {
  const { selectionStart: start, selectionEnd: end, value } = field;
  const several = value.slice(start, end).includes("\n");
  if (!back && !several) return insert(field, indent);
  const from = value.lastIndexOf("\n", start - 1) + 1;
  const lines = value.slice(from, end).split("\n");
  const changed = lines.map((line) => (back ? line.replace(/^(\t| {1,2})/, "") : line && indent + line)).join("\n");
  if (changed === lines.join("\n")) return;
  field.setSelectionRange(from, end);
  insert(field, changed);
  if (several) field.setSelectionRange(from, from + changed.length);
}

/** insert replaces the selection, so that the browser can undo it. @param {HTMLTextAreaElement} field @param {string} text */
function insert(field, text) {
  inserting = true;
  const done = document.execCommand("insertText", false, text);
  inserting = false;
  if (done) return;
  field.setRangeText(text, field.selectionStart, field.selectionEnd, "end");
  field.dispatchEvent(new Event("input", { bubbles: true }));
}
