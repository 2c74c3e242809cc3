// Numbers, times and names as people read them.

const grouped = new Intl.NumberFormat("en");
const exact = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

/** @param {number} n */
export const count = (n) => grouped.format(n);

/** @param {number} n @param {string} one @param {string} [many] */
export const counted = (n, one, many) => `${count(n)} ${n === 1 ? one : (many ?? `${one}s`)}`;

/** @param {number} perSecond */
export function rate(perSecond) {
  if (perSecond === 0) return "0";
  return perSecond < 10 ? perSecond.toFixed(1) : count(Math.round(perSecond));
}

/** @param {number} ms */
export function duration(ms) {
  if (ms < 1) return "< 1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 100_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 6_000_000) return `${Math.round(ms / 60_000)} min`;
  return `${Math.round(ms / 3_600_000)} h`;
}

/** @param {number} share */
export function percent(share) {
  if (share === 0) return "0 %";
  if (share < 0.001) return "< 0.1 %";
  return `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;
}

/**
 * ago is a time relative to now.
 * @param {string | number | undefined} at @param {number} [now]
 */
export function ago(at, now = Date.now()) {
  if (!at) return "never";
  const ms = now - new Date(at).getTime();
  const text = coarse(Math.abs(ms));
  if (Math.abs(ms) < 1000) return "now";
  return ms < 0 ? `in ${text}` : `${text} ago`;
}

/** @param {number} ms */
function coarse(ms) {
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

/** full is the exact time, for a hover. @param {string | number | undefined} at */
export const full = (at) => (at ? `${exact.format(new Date(at))} (${new Date(at).toISOString()})` : "");

/** clock is the time of day with milliseconds. @param {string | number} at */
export function clock(at) {
  const date = new Date(at);
  /** @param {number} n @param {number} width */
  const digits = (n, width) => String(n).padStart(width, "0");
  return `${digits(date.getHours(), 2)}:${digits(date.getMinutes(), 2)}:${digits(date.getSeconds(), 2)}.${digits(date.getMilliseconds(), 3)}`;
}

/** short cuts a long id in the middle. @param {string} text @param {number} [most] */
export function short(text, most = 28) {
  if (text.length <= most) return text;
  const half = Math.floor((most - 1) / 2);
  return `${text.slice(0, half)}…${text.slice(-half)}`;
}

/** firstLine is the summary of a message. @param {string} text */
export const firstLine = (text) => text.split("\n")[0];

/** json indents JSON, and leaves other text as it is. @param {any} value */
export const json = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));
