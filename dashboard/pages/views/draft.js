// Draft: the fields of a form, and what of them is sent.

/** @typedef {import("../types.js").Refusal} Refusal */

/**
 * Form has the fields as they are typed, and what was answered.
 * @typedef {{key: string, create: boolean, fn: import("../types.js").FnDraft, source: string, min: string, max: string,
 *   subscribe: boolean, sub: {name: string, source: string, types: string}, known: import("../types.js").SubscriptionDraft[],
 *   touched: boolean, problems: Refusal[], shown: import("../types.js").Outlook | null, force: boolean, busy: boolean, error: Error | null}} Form
 */

/** handlers that answer, by the beginning of the runtime's name */
const samples = /** @type {Record<string, string>} */ ({
  nodejs: `module.exports = {
  main: async (event, context) => {
    console.log("got", event.data);
    return "done";
  },
};
`,
  python: `def main(event, context):
    print("got", event["data"])
    return "done"
`,
  go: `package handler

import "github.com/rouse-run/rouse/runtimes/golang/function"

func Main(event *function.Event, _ *function.Context) (any, error) {
	return "done", nil
}
`,
});

/** @param {string} runtime */
export const sampleOf = (runtime) => Object.entries(samples).find(([begin]) => runtime.startsWith(begin))?.[1] ?? "";

/** @param {string} runtime */
export const dependenciesOf = (runtime) =>
  runtime.startsWith("python") ? "requirements.txt" : runtime.startsWith("go") ? "go.mod" : "package.json";

/** @param {string} key @param {boolean} create @param {any} fn @param {any[]} known @returns {Form} */
export const newForm = (key, create, fn, known) => ({
  key,
  create,
  fn,
  source: fn.source ?? "",
  min: fn.min === null ? "" : String(fn.min),
  max: fn.max === null ? "" : String(fn.max),
  subscribe: create || known.length > 0,
  sub: { name: known[0]?.name ?? fn.name, source: known[0]?.source ?? "", types: (known[0]?.types ?? []).join("\n") },
  known,
  touched: false,
  problems: [],
  shown: null,
  force: false,
  busy: false,
  error: null,
});

/** @param {string} field */
export const idOf = (field) => field.replace(".", "-");

const fieldNames = /** @type {Record<string, string>} */ ({
  "function.dependencies": "Dependencies",
  "function.max": "Most replicas",
  "function.min": "Least replicas",
  "function.name": "Name",
  "function.namespace": "Namespace",
  "function.runtime": "Runtime",
  "function.source": "Code",
  "subscription.name": "Name of the Subscription",
  "subscription.source": "Source of events",
  "subscription.types": "Types of events",
});

/** @param {string} field */
export const nameOf = (field) => fieldNames[field] ?? field;

/** numberOf returns null for nothing, and NaN for no number. @param {string} value */
const numberOf = (value) => (value.trim() === "" ? null : /^\d+$/.test(value.trim()) ? Number(value) : Number.NaN);

/** @param {Form} f */
export function problemsHere(f) {
  return /** @type {const} */ (["min", "max"])
    .filter((field) => Number.isNaN(numberOf(f[field])))
    .map((field) => ({ field: `function.${field}`, message: "this is no number", remedy: "write digits, or nothing" }));
}

/** bodyOf is the body of a request; to write, it names what was shown. @param {Form} f @param {boolean} write */
export function bodyOf(f, write) {
  const fn = { ...f.fn, source: f.fn.source === null ? null : f.source, min: numberOf(f.min), max: numberOf(f.max) };
  const sub = {
    namespace: fn.namespace,
    name: f.sub.name,
    source: f.sub.source.trim(),
    types: f.sub.types.split("\n").flatMap((line) => line.trim() || []),
    function: fn.name,
  };
  return {
    function: fn,
    subscription: f.subscribe ? sub : undefined,
    create: f.create || undefined,
    force: f.force || undefined,
    seen: write ? f.shown?.digest : undefined,
  };
}
