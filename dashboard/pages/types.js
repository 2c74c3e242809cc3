// The shapes of the API, as docs/dashboard.md describes them.

/**
 * @typedef {{cause: string, began: string, sentMs?: number, addressedMs?: number, readyMs: number}} Wake
 * @typedef {{namespace: string, name: string, runtime: string, phase: string, doing?: string, problem?: string, older?: boolean,
 *   desired: number, ready: number, min: number, max: number, backlog: number | null, wakes: number | null, restarts: number | null, url?: string,
 *   exposed?: string[], lastWake?: Wake, at?: string}} Fn
 * @typedef {Fn & {why: {question: string, answer: string}[], files: {name: string, text: string}[], repository?: string,
 *   dependencies?: string, environment: string[], conditions?: Condition[], pods: Pod[], versions?: Version[], rollbackTo?: string,
 *   happenings?: Happening[], unknown?: string[]}} FnDetail
 * @typedef {{type: string, status: string, level: string, reason: string, message: string, since: string}} Condition
 * @typedef {{name: string, ready: boolean, state: string, problem?: string, restarts: number, since: string}} Pod
 * @typedef {{name: string, since: string, pods: number, runs?: boolean, state?: "serving" | "rollingOut"}} Version
 * @typedef {{last: string, count: number, warning?: boolean, reason: string, message: string}} Happening
 * @typedef {{check: string, level: string, message: string, remedy?: string}} Finding
 * @typedef {{name: string, severity: string, namespace?: string, summary: string, remedy: string, since: string}} Alert
 * @typedef {{at: string, findings: Finding[], alerts?: {firing: Alert[], silent: number}}} Examined
 * @typedef {{namespace: string, name: string, runtime: string, source: string | null, dependencies: string, min: number | null,
 *   max: number | null}} FnDraft
 * @typedef {{namespace: string, name: string, source: string, types: string[] | null, function: string}} SubscriptionDraft
 * @typedef {{kind: string, namespace: string, name: string, file?: string, yaml: string, new?: boolean,
 *   diff: {op: string, text: string}[]}} Preview
 * @typedef {{field: string, message: string, remedy?: string, conflict?: boolean}} Refusal
 * @typedef {{objects: Preview[], problems: Refusal[], digest?: string, applied: boolean}} Outlook
 * @typedef {{namespace: string, name: string, source: string, types: string[], typeMatching?: string, sink: string, function: boolean,
 *   state: string, message?: string, backlog: number, inFlight: number, retries: number, deadLetters: number}} Subscription
 * @typedef {{kind: string, namespace: string, name: string, url?: string, at?: string}} Exposure
 * @typedef {{namespace: string, name: string, when: string, type: string, source: string, problem?: string, last?: string,
 *   next?: string, published: number, missed: number}} Schedule
 * @typedef {{name: string, fill: number, problem?: string}} Stream
 * @typedef {{at?: string, object?: string, message: string, remedy?: string, warning?: boolean}} Problem
 * @typedef {{time: string, kind: string, id?: string, source?: string, type?: string, cause?: string, trace?: string,
 *   namespace?: string, subscription?: string, sink?: string, deadLetter?: boolean, stored?: string, attempt?: number,
 *   status?: number, reason?: string, message?: string, due?: string, began?: string, took?: number, count?: number}} Entry
 * @typedef {{kind: string, source: string, type: string, subscription?: string, count: number}} Path
 * @typedef {{records: Entry[], skipped?: number, lost?: number, paths: Path[]}} Flow
 * @typedef {{sequence: number, namespace: string, subscription: string, reason: string, message: string, attempts: number,
 *   status?: number, excerpt?: string, time: string, published?: string, id?: string, source?: string, type?: string,
 *   event?: any, body?: string}} DeadLetter
 * @typedef {{home: string, name: string, version: string, publish?: string, logIn: string, runtimes: string[], user: {name: string,
 *   changes: boolean, namespace?: string, session?: boolean}}} About
 */

export {};
