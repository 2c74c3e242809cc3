// What the pages know: the state, the flow of events, and what is learned of it.
import { get, stream } from "./api.js";

/** @typedef {import("./types.js").Entry} Entry */
/** @typedef {import("./types.js").Flow} Flow */

const windowSeconds = 10;
const history = 60;
const remembered = 400;

/** The state. Views read it, and nobody else writes it. */
export const state = {
  /** @type {import("./types.js").About | null} */ about: null,
  /** @type {Map<string, import("./types.js").Fn>} */ functions: new Map(),
  /** @type {Map<string, import("./types.js").Subscription>} */ subscriptions: new Map(),
  /** @type {Map<string, import("./types.js").Exposure>} */ exposures: new Map(),
  /** @type {Map<string, import("./types.js").Schedule>} */ schedules: new Map(),
  /** @type {Map<string, import("./types.js").Stream>} */ streams: new Map(),
  /** @type {Map<string, import("./types.js").Problem>} */ problems: new Map(),
  loaded: false,
  /** the last events are among the recent ones */
  recentLoaded: false,
  connected: false,
  lost: "",
  /** records that were not shown in the last turn, and when that was */
  skipped: 0,
  skippedAt: 0,
  /** @type {Entry[]} the last records, the newest first */ recent: [],
  /** votes for the Functions that emit a type, by type: learned from what was stored while a delivery ran */
  /** @type {Map<string, Map<string, number>>} */ emitted: new Map(),
};

/** @type {Set<(what: "state" | "flow" | "connection", flow?: Flow) => void>} */
const watchers = new Set();

/** watch calls back on every change. @param {(what: "state" | "flow" | "connection", flow?: Flow) => void} call */
export function watch(call) {
  watchers.add(call);
}

/** @param {"state" | "flow" | "connection"} what @param {Flow} [flow] */
function notify(what, flow) {
  for (const call of watchers) call(what, flow);
}

/** start follows the home. The state is asked for first, and the last events when it has come, since they are not what users wait for. */
export async function start() {
  /** the last records, some of which the stream has as well @type {Set<string>} */ const known = new Set();
  /** @type {Promise<void> | undefined} */ let lately;
  const end = stream("/api/v1/live", {
    open: () => {
      for (const kind of kinds) state[kind].clear(); // the first change has everything
      Object.assign(state, { connected: true, lost: "" });
      notify("connection");
    },
    lost: (error) => {
      Object.assign(state, { connected: false, lost: error?.message ?? "The connection was lost. Trying again." });
      notify("connection");
    },
    state: (data) => {
      change(data);
      lately ??= loadRecent(known);
    },
    flow: (/** @type {Flow} */ flow) =>
      Promise.resolve(lately).then(() => flowed({ ...flow, records: flow.records.filter((r) => !known.has(recordKey(r))) })),
  });
  try {
    state.about = await get("/api/v1/about");
  } catch (error) {
    end();
    throw error;
  }
}

/** loadRecent loads the last records. @param {Set<string>} known  gets the keys of the records */
async function loadRecent(known) {
  const { records } = await get("/api/v1/events?limit=500").catch(() => ({ records: [] })); // what happens now comes by the stream
  learnFrom(records);
  for (const record of records) known.add(recordKey(record));
  state.recentLoaded = true;
  notify("state");
}

/** recordKey tells records apart. @param {Entry} r */
export const recordKey = (r) => `${r.time} ${r.kind} ${r.id} ${r.subscription ?? ""}`;

const kinds = /** @type {const} */ (["functions", "subscriptions", "exposures", "schedules", "streams", "problems"]);

/** @param {{set?: Record<string, Record<string, any>>, gone?: Record<string, string[]>}} data */
function change(data) {
  for (const kind of kinds) {
    const map = /** @type {Map<string, any>} */ (state[kind]);
    const set = Object.entries(data.set?.[kind] ?? {});
    const grew = set.some(([key]) => !map.has(key));
    for (const [key, value] of set) map.set(key, value);
    for (const key of data.gone?.[kind] ?? []) map.delete(key);
    if (grew) {
      const sorted = [...map].sort(([a], [b]) => (a < b ? -1 : 1));
      map.clear();
      for (const [key, value] of sorted) map.set(key, value);
    }
  }
  state.loaded = true;
  notify("state");
}

/** @param {Flow} flow */
function flowed(flow) {
  learnFrom(flow.records);
  tally(flow);
  if (flow.skipped) Object.assign(state, { skipped: flow.skipped, skippedAt: Date.now() });
  notify("flow", flow);
}

// ---- which Function emits which type

/** an event that another one has caused, and the delivery that may have emitted it @type {Map<string, {effect: Entry, by: Entry | null}>} */
const caused = new Map();
/** @type {Map<string, Entry[]>} deliveries by the event's id */
const delivered = new Map();

/** @param {Entry[]} records the oldest first */
function learnFrom(records) {
  for (const record of records) {
    if (record.kind === "stored" && record.cause) {
      const known = { effect: record, by: null };
      caused.set(`${record.source}|${record.id}`, known);
      for (const delivery of delivered.get(record.cause) ?? []) consider(known, delivery);
    } else if (record.kind === "delivered" && record.sink && record.id) {
      delivered.set(record.id, [...(delivered.get(record.id) ?? []), record]);
      for (const known of caused.values()) if (known.effect.cause === record.id) consider(known, record);
    }
  }
  for (const map of [caused, delivered]) {
    for (const key of map.keys()) {
      if (map.size <= remembered) break;
      map.delete(key);
    }
  }
  state.recent = [...records].reverse().concat(state.recent).slice(0, remembered);
}

/**
 * consider takes a delivery for the one that has emitted an event, if it ran then and ended sooner after that than others: records do not
 * say who has published. The votes of many events decide.
 * @param {{effect: Entry, by: Entry | null}} known @param {Entry} delivery
 */
function consider(known, delivery) {
  const { effect, by } = known;
  const ran = (delivery.began ?? "") <= (effect.began || effect.time) && effect.time <= later(delivery.time);
  /** a Function that names itself as the source @param {Entry} d */
  const named = (d) => d.sink?.endsWith(`/${effect.source}`) ?? false;
  if (!ran || (by && (named(by) || (!named(delivery) && by.time <= delivery.time)))) return;
  if (by) vote(effect, by, -1);
  vote(effect, delivery, 1);
  known.by = delivery;
}

/** later allows for the time in which a record is written. @param {string} time */
const later = (time) => new Date(new Date(time).getTime() + 50).toISOString();

/** @param {Entry} effect @param {Entry} by @param {number} n */
function vote(effect, by, n) {
  const type = typeKey(effect.source ?? "", effect.type ?? "");
  const votes = state.emitted.get(type) ?? new Map();
  votes.set(by.sink, (votes.get(by.sink) ?? 0) + n);
  if (!votes.get(by.sink)) votes.delete(by.sink);
  state.emitted.set(type, votes);
}

/** @param {string} source @param {string} type */
const typeKey = (source, type) => `${source}|${type}`;

// ---- rates: one bucket for each second

/** @type {{second: number, stored: number, delivered: number, failed: number, by: Map<string, number>}[]} */
let buckets = [];

/** @param {number} now */
function bucket(now) {
  const second = Math.floor(now / 1000);
  let last = buckets.at(-1);
  if (!last || last.second !== second) {
    last = { second, stored: 0, delivered: 0, failed: 0, by: new Map() };
    buckets.push(last);
    buckets = buckets.filter((b) => b.second > second - history - 1);
  }
  return last;
}

/** @param {Flow} flow */
function tally(flow) {
  const into = bucket(Date.now());
  for (const path of flow.paths) {
    if (path.kind === "stored") into.stored += path.count;
    else if (path.kind === "delivered") into.delivered += path.count;
    else if (path.kind === "retry" || path.kind === "deadlettered") into.failed += path.count;
    const key = `${path.kind} ${path.subscription ?? typeKey(path.source, path.type)}`;
    into.by.set(key, (into.by.get(key) ?? 0) + path.count);
  }
}

/** perSecond is the rate over the last seconds: "stored", "delivered", "failed", or a kind with a Subscription. @param {string} key */
export function perSecond(key) {
  const second = Math.floor(Date.now() / 1000);
  let sum = 0;
  for (const b of buckets) {
    if (b.second <= second - windowSeconds || b.second > second) continue;
    sum += key === "stored" || key === "delivered" || key === "failed" ? b[key] : (b.by.get(key) ?? 0);
  }
  return sum / windowSeconds;
}

/** course has a number for each of the last seconds. @param {"stored" | "delivered" | "failed"} key */
export function course(key) {
  const second = Math.floor(Date.now() / 1000);
  const found = new Array(history).fill(0);
  for (const b of buckets) {
    const at = history - 1 - (second - b.second);
    if (at >= 0 && at < history) found[at] = b[key];
  }
  return found;
}

/** subscriptionsOf returns those of a Function. @param {string} name namespace/name */
export const subscriptionsOf = (name) => [...state.subscriptions.values()].filter((s) => s.function && s.sink === name);

/** subscriptionsByFunction has those of all Functions, for views that show many. */
export function subscriptionsByFunction() {
  /** @type {Map<string, import("./types.js").Subscription[]>} */ const found = new Map();
  for (const s of state.subscriptions.values()) {
    if (!s.function) continue;
    const before = found.get(s.sink);
    if (before) before.push(s);
    else found.set(s.sink, [s]);
  }
  return found;
}

/** totals are the numbers that the pages have in common. */
export function totals() {
  const functions = [...state.functions.values()];
  const subscriptions = [...state.subscriptions.values()];
  /** @param {(s: import("./types.js").Subscription) => number} of */
  const sum = (of) => subscriptions.reduce((total, s) => total + of(s), 0);
  return {
    awake: functions.filter((f) => f.ready > 0).length,
    functions: functions.length,
    failing: functions.filter((f) => f.phase === "failing").length,
    backlog: sum((s) => s.backlog + s.inFlight),
    retries: sum((s) => s.retries),
    deadLetters: sum((s) => s.deadLetters),
    problems: [...state.problems.values()].filter((p) => !p.warning).length,
    fill: Math.max(0, ...[...state.streams.values()].map((s) => s.fill)),
  };
}
