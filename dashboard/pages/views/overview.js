// Overview: the whole at a glance, and how events move through it.
import { h, svgNamespace } from "../dom.js";
import { ago, count, counted, duration, firstLine, percent, rate } from "../format.js";
import { arrange, model, shown, ways } from "../graph.js";
import {
  deadLettersPath,
  empty,
  eventPath,
  eventsPath,
  fill,
  loading,
  moment,
  noEvents,
  outcome,
  panel,
  phase,
  sparkline,
} from "../parts.js";
import { course, perSecond, recordKey, state, subscriptionsByFunction, totals } from "../store.js";

const mostDots = 80;
const travel = 750;
const still = matchMedia("(prefers-reduced-motion: reduce)");

/** @type {import("../graph.js").Graph | null} */ let graph = null;
let drawnOf = "";
let room = 0;
/** @type {{edge: import("../graph.js").Edge, began: number, bad: boolean}[]} */ let dots = [];
/** when an edge had its last event, by its id @type {Map<string, number>} */ const lit = new Map();
let frame = 0;
/** @type {ResizeObserver | null} */ let watching = null;

export const overview = {
  title: () => "Overview",
  /** @param {{render: () => void}} page */
  mount(page) {
    watching = new ResizeObserver(([entry]) => {
      const width = Math.floor(entry.contentRect.width);
      if (width !== room) {
        room = width;
        page.render();
      }
    });
    const main = /** @type {HTMLElement} */ (document.getElementById("main"));
    room = Math.floor(main.clientWidth - parseFloat(getComputedStyle(main).paddingLeft) * 2);
    watching.observe(main);
  },
  unmount() {
    watching?.disconnect();
    cancelAnimationFrame(frame);
    dots = [];
    frame = 0;
  },
  /** @param {import("../types.js").Flow} flow */
  flow(flow) {
    if (!graph) return;
    const now = performance.now();
    for (const path of flow.paths) {
      if (path.kind === "filtered" || path.kind === "skipped") continue;
      for (const edge of ways(graph, path)) {
        lit.set(edge.id, Date.now());
        for (let i = 0; i < Math.min(path.count, 3) && dots.length < mostDots && !still.matches; i++) {
          const after = path.kind === "stored" ? 0 : 260;
          dots.push({ edge, began: now + after + i * 130, bad: path.kind === "deadlettered" || path.kind === "retry" });
        }
      }
    }
    if (dots.length && !frame) frame = requestAnimationFrame(move);
  },
  render() {
    const title = h("h1", { key: "title", class: "unseen" }, "Overview");
    if (!state.loaded) return [title, loading("Connecting")];
    if (state.functions.size === 0 && state.subscriptions.size === 0) return [title, stats(), first()];
    return [title, stats(), picture(), h("div", { class: "pair" }, latest(), attention())];
  },
};

/** first is shown while there is nothing yet, and says what to do. */
const first = () =>
  empty(
    "Nothing is here yet.",
    "Write a Function with ",
    h("code", null, "rouse init"),
    state.about?.home === "local" ? ` into ${state.about.name}: it is read at once.` : " and deploy it with rouse deploy.",
  );

function stats() {
  const t = totals();
  const stored = perSecond("stored");
  return h(
    "dl",
    { class: "stats", key: "stats" },
    stat("Published", rate(stored), "/s", sparkline(course("stored")), "/events"),
    stat("Delivered", rate(perSecond("delivered")), "/s", sparkline(course("delivered")), "/events"),
    stat("Awake", count(t.awake), ` of ${count(t.functions)}`, null, "/functions", t.awake > 0 ? "glowing" : ""),
    stat("Backlog", count(t.backlog), t.retries ? ` and ${counted(t.retries, "retry", "retries")}` : "", null, "/subscriptions"),
    stat("Dead letters", count(t.deadLetters), "", null, "/deadletters", t.deadLetters ? "bad" : ""),
    stat(
      "Fullest stream",
      state.streams.size ? percent(t.fill) : "?",
      "",
      state.streams.size ? fill(t.fill, "fill of the fullest stream") : null,
      "/health",
    ),
  );
}

/** @param {string} label @param {string} value @param {string} unit @param {any} below @param {string} href @param {string} [level] */
const stat = (label, value, unit, below, href, level = "") =>
  h(
    "div",
    { class: `stat ${level}` },
    h("dt", null, h("a", { href }, label)),
    h("dd", null, h("div", null, h("b", null, value), h("span", { class: "faint" }, unit)), below),
  );

function picture() {
  const origins = [...state.schedules.values()].map((s) => ({ type: s.type, source: s.source, label: s.name }));
  const subscriptions = [...state.subscriptions.values()];
  const key = JSON.stringify([
    room,
    [...state.functions.keys()].length > shown
      ? [...state.functions].filter(([, f]) => f.ready).map(([k]) => k)
      : [...state.functions.keys()],
    subscriptions.map((s) => [s.namespace, s.name, s.source, s.types, s.sink]),
    [...state.emitted].map(([t, f]) => [t, ...[...f].filter(([, n]) => n >= Math.max(...f.values()) / 3).map(([k]) => k)]),
    origins,
  ]);
  if (key !== drawnOf || !graph) {
    graph = arrange(model(state.functions, subscriptions, state.emitted, origins), Math.max(300, room));
    drawnOf = key;
  }
  const drawn = graph;
  const leading = subscriptionsByFunction();
  const more = drawn.left
    ? h(
        "p",
        { class: "faint" },
        `The ${shown} most active of ${count(state.functions.size)} Functions are drawn. `,
        h("a", { href: "/functions" }, "See all"),
      )
    : null;
  const sampled =
    Date.now() - state.skippedAt < 3000
      ? h(
          "span",
          { class: "chip warn", title: "Numbers and rates count all events." },
          `sampled: ${counted(state.skipped, "record")} more than are listed`,
        )
      : null;
  return panel(
    "What wakes what",
    [
      more,
      h(
        "div",
        { class: "canvas-scroll", tabindex: "0", role: "region", "aria-label": "Graph of sources, types, Subscriptions and Functions" },
        h(
          "div",
          { class: "canvas", style: { width: `${drawn.width}px`, height: `${drawn.height}px` } },
          h(
            "svg",
            { class: "edges", width: drawn.width, height: drawn.height, "aria-hidden": "true" },
            [...drawn.edges.values()].map(line),
            h("g", { id: "dots", own: true }),
          ),
          badged(drawn).map(badge),
          [...drawn.nodes.values()].map((n) => node(n, leading)),
        ),
      ),
    ],
    h(
      "div",
      { class: "key" },
      sampled,
      h("span", null, h("i", { class: "swatch awake" }), "awake"),
      h("span", null, h("i", { class: "swatch" }), "asleep"),
    ),
    { key: "graph", class: "picture" },
  );
}

/** @param {import("../graph.js").Edge} edge */
function line(edge) {
  const s = subscriptionOf(edge);
  const classes = ["edge"];
  if (Date.now() - (lit.get(edge.id) ?? 0) < 2000) classes.push("lit");
  if (s && s.backlog + s.inFlight > 0) classes.push("busy");
  if (s?.state === "paused") classes.push("paused");
  if (s?.state === "failing") classes.push("broken");
  return h("path", { key: edge.id, id: `edge ${edge.id}`, class: classes.join(" "), d: edge.d });
}

/** subscriptionOf is the Subscription of an edge as it is now. @param {import("../graph.js").Edge} edge */
const subscriptionOf = (edge) => edge.subscription && state.subscriptions.get(`${edge.subscription.namespace}/${edge.subscription.name}`);

/** badged are the edges that show what waits: of a Subscription's the one with the last event. @param {import("../graph.js").Graph} drawn */
function badged(drawn) {
  /** @type {Map<string, import("../graph.js").Edge>} */
  const found = new Map();
  for (const edge of drawn.edges.values()) {
    if (!edge.subscription) continue;
    const key = `${edge.subscription.namespace}/${edge.subscription.name}`;
    const other = found.get(key);
    if (!other || (lit.get(edge.id) ?? 0) > (lit.get(other.id) ?? 0)) found.set(key, edge);
  }
  return [...found.values()];
}

/** badge is the number of events that wait on an edge. @param {import("../graph.js").Edge} edge */
function badge(edge) {
  const s = subscriptionOf(edge);
  if (!s) return null;
  const waiting = s.backlog + s.inFlight + s.retries;
  if (!waiting && s.state === "ready") return null;
  const at = { left: `${edge.middle[0]}px`, top: `${edge.middle[1]}px` };
  return h(
    "a",
    {
      key: `b${edge.id}`,
      class: `badge ${s.state === "failing" ? "bad" : ""}`,
      style: at,
      href: `/subscriptions?filter=${s.namespace}/${s.name}`,
      title: `Subscription ${s.namespace}/${s.name}: ${count(s.backlog)} wait, ${count(s.inFlight)} in delivery, ${counted(s.retries, "retry", "retries")}, ${counted(s.deadLetters, "dead letter")}`,
    },
    waiting ? count(waiting) : s.state,
  );
}

/** @param {import("../graph.js").GraphNode} n @param {ReturnType<typeof subscriptionsByFunction>} leading */
function node(n, leading) {
  const place = { left: `${n.x}px`, top: `${n.y}px`, width: `${n.width}px`, height: `${n.height}px` };
  if (n.kind === "function") return functionNode(n, place, leading.get(n.id.slice(2)) ?? []);
  const [source, type] = n.id.slice(2).split("|");
  const href =
    n.kind === "type"
      ? eventsPath({ type, source })
      : n.kind === "source" && n.id.startsWith("s:")
        ? eventsPath({ source })
        : n.kind === "source"
          ? "/timers"
          : "/subscriptions";
  return h(
    "a",
    { key: n.id, class: `node ${n.kind}`, style: place, href, title: `${n.under ?? ""} ${n.label}` },
    h("span", { class: "under" }, n.under),
    h("span", { class: "label" }, n.label),
  );
}

/** @param {import("../graph.js").GraphNode} n @param {Record<string, string>} place @param {import("../types.js").Subscription[]} leading */
function functionNode(n, place, leading) {
  const key = n.id.slice(2);
  const fn = state.functions.get(key);
  if (!fn) return h("span", { key: n.id, class: "node function", style: place }, n.label);
  const dead = leading.reduce((sum, s) => sum + s.deadLetters, 0);
  const onLines = leading.some((s) => s.backlog + s.inFlight + s.retries > 0);
  const wake = fn.lastWake
    ? [h("span", null, `woke ${ago(fn.lastWake.began)}`), h("span", null, ` in ${duration(fn.lastWake.readyMs)}`)]
    : "has not woken yet";
  return h(
    "a",
    {
      key: n.id,
      class: `node function ${fn.phase} ${fn.ready ? "awake" : ""}`,
      style: place,
      href: `/functions/${key}`,
      title: fn.problem ?? key,
    },
    h(
      "span",
      { class: "label" },
      n.label,
      h("span", { class: "replicas", title: "replicas that are ready, of at most" }, `${fn.ready}/${fn.max}`),
    ),
    h(
      "span",
      { class: "line" },
      phase(fn),
      fn.backlog && !onLines
        ? h("span", { class: "waits" }, `${count(fn.backlog)} wait`)
        : dead
          ? h("span", { class: "bad", title: counted(dead, "dead letter") }, `${count(dead)} dead`)
          : null,
    ),
    fn.phase === "failing" ? h("span", { class: "under" }, firstLine(fn.problem ?? "")) : h("span", { class: "under whole" }, wake),
  );
}

/** move draws the events on their way. @param {number} now */
function move(now) {
  const group = document.getElementById("dots");
  dots = dots.filter((dot) => now - dot.began < travel);
  if (!group || dots.length === 0) {
    group?.replaceChildren();
    frame = 0;
    return;
  }
  while (group.childElementCount > dots.length) group.lastElementChild?.remove();
  while (group.childElementCount < dots.length) {
    const circle = document.createElementNS(svgNamespace, "circle");
    circle.setAttribute("r", "3.5");
    group.append(circle);
  }
  for (const [i, dot] of dots.entries()) {
    const circle = group.children[i];
    const path = /** @type {SVGPathElement | null} */ (/** @type {unknown} */ (document.getElementById(`edge ${dot.edge.id}`)));
    const part = (now - dot.began) / travel;
    circle.setAttribute("class", dot.bad ? "dot bad" : "dot");
    if (!path || part < 0) {
      circle.setAttribute("visibility", "hidden");
      continue;
    }
    const eased = part < 0.5 ? 2 * part * part : 1 - (2 - 2 * part) ** 2 / 2;
    const point = path.getPointAtLength(path.getTotalLength() * eased);
    circle.removeAttribute("visibility");
    circle.setAttribute("cx", String(point.x));
    circle.setAttribute("cy", String(point.y));
  }
  frame = requestAnimationFrame(move);
}

function latest() {
  const rows = state.recent
    .filter((r) => r.kind !== "filtered")
    .slice(0, 9)
    .map((r) =>
      h(
        "li",
        { key: recordKey(r) },
        moment(r.time),
        outcome(r.kind),
        h("a", { href: eventPath(r), class: "clip" }, r.type || r.id || "message"),
        h("span", { class: "faint clip" }, r.subscription ? `to ${r.subscription}` : `from ${r.source}`),
      ),
    );
  return panel(
    "Lately",
    rows.length ? h("ol", { class: "lately" }, rows) : state.recentLoaded ? noEvents() : loading(),
    h("a", { href: "/events" }, "All events"),
    {
      key: "latest",
    },
  );
}

function attention() {
  const items = [];
  for (const [key, fn] of state.functions) {
    if (fn.phase === "failing")
      items.push(
        h("li", { key: `f${key}`, class: "bad" }, h("a", { href: `/functions/${key}` }, key), " ", firstLine(fn.problem ?? "does not run")),
      );
  }
  for (const [key, p] of state.problems)
    items.push(
      h(
        "li",
        { key: `p${key}`, class: p.warning ? "warn" : "bad" },
        h("b", null, p.object || p.at),
        " ",
        p.message,
        p.remedy ? h("span", { class: "faint" }, ` ${p.remedy}`) : "",
      ),
    );
  for (const [key, s] of state.subscriptions) {
    if (s.state === "failing")
      items.push(h("li", { key: `s${key}`, class: "bad" }, h("a", { href: "/subscriptions" }, `Subscription ${key}`), " ", s.message));
    if (s.deadLetters)
      items.push(
        h(
          "li",
          { key: `d${key}`, class: "warn" },
          h("a", { href: deadLettersPath({ namespace: s.namespace, subscription: s.name }) }, counted(s.deadLetters, "dead letter")),
          ` of ${key}`,
        ),
      );
  }
  return panel(
    "Needs you",
    items.length
      ? h("ul", { class: "attention" }, items.slice(0, 12))
      : empty("Nothing.", "All Functions run, and every event was delivered or waits for its turn."),
    null,
    { key: "attention" },
  );
}
