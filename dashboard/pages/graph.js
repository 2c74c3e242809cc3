// The picture of what wakes what: which nodes there are, where they lie, and the lines between them. All functions are pure.

/** @typedef {import("./types.js").Fn} Fn */
/** @typedef {import("./types.js").Subscription} Subscription */
/**
 * @typedef {{id: string, kind: "source" | "type" | "function" | "sink", label: string, under?: string, layer: number, x: number, y: number,
 *   width: number, height: number, row: number}} GraphNode
 * @typedef {{id: string, from: string, to: string, subscription?: Subscription, learned?: boolean, back?: boolean, d: string,
 *   middle: number[]}} Edge
 * @typedef {{nodes: Map<string, GraphNode>, edges: Map<string, Edge>, width: number, height: number, left: number}} Graph
 */

/** widths: what a node takes at least and at most, and its height */
const sizes = { source: [76, 150, 40], type: [96, 210, 40], function: [132, 200, 72], sink: [104, 200, 40] };
const columnGap = 64;
const leastGap = 20;
const rowGap = 22;
const margin = 16;

/** shown is how many Functions a picture has. */
export const shown = 60;

/**
 * model returns the nodes and edges of Subscriptions, of the types that Functions emit, and of types that nobody takes.
 * @param {Map<string, Fn>} functions
 * @param {Subscription[]} subscriptions
 * @param {Map<string, Map<string, number>>} emitted
 * @param {{type: string, source: string, label: string}[]} origins  Schedules
 * @returns {Graph}
 */
export function model(functions, subscriptions, emitted, origins) {
  /** @type {Graph} */
  const graph = { nodes: new Map(), edges: new Map(), width: 0, height: 0, left: 0 };
  const kept = chosen(functions);
  graph.left = functions.size - kept.size;
  for (const subscription of subscriptions) {
    if (subscription.function && !kept.has(subscription.sink)) continue;
    const sink = subscription.function ? `f:${subscription.sink}` : `k:${subscription.sink}`;
    if (subscription.function) add(graph, sink, "function", subscription.sink.split("/")[1], subscription.sink.split("/")[0]);
    else add(graph, sink, "sink", subscription.sink.replace(/^https?:\/\//, ""), "outside");
    for (const type of subscription.types) {
      const from = `t:${subscription.source}|${type}`;
      add(graph, from, "type", type, subscription.source);
      connect(graph, from, sink, { subscription });
    }
  }
  for (const key of kept.keys()) add(graph, `f:${key}`, "function", key.split("/")[1], key.split("/")[0]);
  for (const [type, votes] of emitted) {
    const most = Math.max(0, ...votes.values());
    for (const [emitter, n] of votes) {
      if (n < most / 3 || !graph.nodes.has(`f:${emitter}`)) continue;
      const [source, name] = type.split("|");
      const to = match(graph, source, name) ?? `t:${type}`;
      add(graph, to, "type", name, source);
      connect(graph, `f:${emitter}`, to, { learned: true });
    }
  }
  addOrigins(graph, origins);
  return graph;
}

/** match finds a type as a Subscription writes it, which may have a prefix only. @param {Graph} graph @param {string} source @param {string} name */
function match(graph, source, name) {
  const exact = `t:${source}|${name}`;
  if (graph.nodes.has(exact)) return exact;
  for (const node of graph.nodes.values()) {
    const [, type] = node.id.slice(2).split("|");
    if (node.kind === "type" && type.endsWith("*") && name.startsWith(type.slice(0, -1))) return node.id;
  }
  return undefined;
}

/** chosen returns the Functions with most to see. @param {Map<string, Fn>} functions */
function chosen(functions) {
  if (functions.size <= shown) return functions;
  /** @param {Fn} f */
  const weight = (f) =>
    (f.phase === "failing" ? 1e9 : 0) + f.ready * 1e6 + (f.backlog ?? 0) * 1e3 + new Date(f.lastWake?.began ?? 0).getTime() / 1e12;
  return new Map([...functions].sort(([, a], [, b]) => weight(b) - weight(a)).slice(0, shown));
}

/** addOrigins gives each type that no Function emits where it comes from. @param {Graph} graph @param {{type: string, source: string, label: string}[]} origins */
function addOrigins(graph, origins) {
  const from = new Set([...graph.edges.values()].filter((e) => e.learned).map((e) => e.to));
  for (const node of [...graph.nodes.values()]) {
    if (node.kind !== "type" || from.has(node.id)) continue;
    const [source, type] = node.id.slice(2).split("|");
    const known = origins.find((o) => o.type === type && o.source === source);
    const id = known ? `o:${known.label}` : `s:${source}`;
    add(graph, id, "source", known ? known.label : source, known ? "schedule" : "source");
    connect(graph, id, node.id, {});
  }
}

/** @param {Graph} graph @param {string} id @param {GraphNode["kind"]} kind @param {string} label @param {string} [under] */
function add(graph, id, kind, label, under) {
  if (graph.nodes.has(id)) return;
  const [least, widest, height] = sizes[kind];
  const width =
    kind === "function" ? widest : Math.max(least, Math.min(widest, 34 + 7.6 * Math.max(label.length, (under ?? "").length * 0.85)));
  graph.nodes.set(id, { id, kind, label, under, layer: 0, row: 0, x: 0, y: 0, width, height });
}

/** @param {Graph} graph @param {string} from @param {string} to @param {Partial<Edge>} more */
function connect(graph, from, to, more) {
  const id = `${from} > ${to}${more.subscription ? ` ${more.subscription.namespace}/${more.subscription.name}` : ""}`;
  if (!graph.edges.has(id)) graph.edges.set(id, { id, from, to, d: "", middle: [0, 0], ...more });
}

/**
 * arrange gives each node its place: in layers from what comes in to what comes of it, from left to right, or down on a narrow screen.
 * @param {Graph} graph @param {number} room  pixels across
 */
export function arrange(graph, room) {
  layer(graph);
  const layers = /** @type {GraphNode[][]} */ ([]);
  for (const node of graph.nodes.values()) {
    layers[node.layer] ??= [];
    layers[node.layer].push(node);
  }
  const filled = layers.filter((nodes) => nodes?.length);
  order(graph, filled);
  const across = (/** @type {number} */ gap) =>
    filled.reduce((sum, nodes) => sum + Math.max(...nodes.map((n) => n.width)) + gap, margin * 2 - gap);
  const least = filled.reduce((sum, nodes) => sum + Math.max(...nodes.map((n) => sizes[n.kind][0])) + leastGap, margin * 2 - leastGap);
  const downwards = room < 720 && least > room;
  if (downwards) {
    down(graph, filled, room);
  } else {
    let gap = Math.max(leastGap, Math.min(columnGap + 90, columnGap - (across(columnGap) - room) / Math.max(1, filled.length - 1)));
    while (across(gap) > room && narrow(filled));
    gap = Math.max(leastGap, Math.min(gap, gap + (room - across(gap)) / Math.max(1, filled.length - 1)));
    along(graph, filled, gap);
  }
  for (const edge of graph.edges.values()) curve(graph, edge, downwards);
  return graph;
}

/** narrow makes the widest column narrower, and reports whether one could be. @param {GraphNode[][]} layers */
function narrow(layers) {
  const step = 4;
  const widths = layers.map((nodes) => Math.max(...nodes.map((n) => (n.width - step >= sizes[n.kind][0] ? n.width : 0))));
  const widest = Math.max(...widths);
  if (widest === 0) return false;
  for (const node of layers[widths.indexOf(widest)]) {
    if (node.width > widest - step) node.width = Math.max(sizes[node.kind][0], widest - step);
  }
  return true;
}

/** layer puts each node behind all that lead to it; an edge that closes a circle counts for nothing. @param {Graph} graph */
function layer(graph) {
  /** @type {Map<string, Edge[]>} */
  const out = new Map();
  for (const edge of graph.edges.values()) out.set(edge.from, [...(out.get(edge.from) ?? []), edge]);
  /** @type {Map<string, "open" | "done">} */
  const passed = new Map();
  /** @type {string[]} */
  const sorted = [];
  /** @param {string} id */
  const visit = (id) => {
    passed.set(id, "open");
    for (const edge of out.get(id) ?? []) {
      edge.back = passed.get(edge.to) === "open";
      if (!passed.has(edge.to)) visit(edge.to);
    }
    passed.set(id, "done");
    sorted.unshift(id);
  };
  const entries = [...graph.nodes.values()].sort((a, b) => rank(a) - rank(b));
  for (const node of entries) if (!passed.has(node.id)) visit(node.id);
  for (const id of sorted) {
    const node = /** @type {GraphNode} */ (graph.nodes.get(id));
    if (node.kind === "type") node.layer = Math.max(node.layer, 1);
    if (node.kind === "function" && !out.get(id)?.length && node.layer === 0) node.layer = 2;
    for (const edge of out.get(id) ?? []) {
      const to = graph.nodes.get(edge.to);
      if (to && !edge.back) to.layer = Math.max(to.layer, node.layer + 1);
    }
  }
}

/** @param {GraphNode} node */
const rank = (node) => ({ source: 0, type: 1, function: 2, sink: 3 })[node.kind];

/** order places nodes beside those that lead to them. @param {Graph} graph @param {GraphNode[][]} layers */
function order(graph, layers) {
  const into = new Map();
  for (const edge of graph.edges.values()) if (!edge.back) into.set(edge.to, [...(into.get(edge.to) ?? []), edge.from]);
  for (const nodes of layers) {
    const weigh = (/** @type {GraphNode} */ node) => {
      const before = (into.get(node.id) ?? []).map((/** @type {string} */ id) => graph.nodes.get(id)?.row ?? 0);
      return before.length ? before.reduce((/** @type {number} */ a, /** @type {number} */ b) => a + b, 0) / before.length : 1e6;
    };
    const weights = new Map(nodes.map((node) => [node, weigh(node)]));
    nodes.sort((a, b) => (weights.get(a) ?? 0) - (weights.get(b) ?? 0) || a.id.localeCompare(b.id));
    for (const [i, node] of nodes.entries()) node.row = i;
  }
}

/** @param {Graph} graph @param {GraphNode[][]} layers @param {number} gap */
function along(graph, layers, gap) {
  const heights = layers.map((nodes) => nodes.reduce((sum, n) => sum + n.height + rowGap, -rowGap));
  graph.height = Math.max(...heights, 0) + margin * 2;
  let x = margin;
  layers.forEach((nodes, i) => {
    const width = Math.max(...nodes.map((n) => n.width));
    let y = (graph.height - heights[i]) / 2;
    for (const node of nodes) {
      Object.assign(node, { x: x + (width - node.width) / 2, y });
      y += node.height + rowGap;
    }
    x += width + gap;
  });
  graph.width = x - gap + margin;
}

/** @param {Graph} graph @param {GraphNode[][]} layers @param {number} room */
function down(graph, layers, room) {
  graph.width = room;
  const gap = 12;
  const half = (room - margin * 2 - gap) / 2;
  for (const node of layers.flat()) node.width = Math.min(node.width, half);
  let y = margin;
  for (const nodes of layers) {
    for (let at = 0; at < nodes.length; ) {
      let width = nodes[at].width;
      let end = at + 1;
      while (end < nodes.length && width + gap + nodes[end].width <= room - margin * 2 + 1) width += gap + nodes[end++].width;
      let x = (room - width) / 2;
      for (const node of nodes.slice(at, end)) {
        Object.assign(node, { x, y });
        x += node.width + gap;
      }
      y += Math.max(...nodes.slice(at, end).map((n) => n.height)) + 40;
      at = end;
    }
  }
  graph.height = y - 40 + margin;
}

/** curve draws the line of an edge. @param {Graph} graph @param {Edge} edge @param {boolean} downwards */
function curve(graph, edge, downwards) {
  const a = /** @type {GraphNode} */ (graph.nodes.get(edge.from));
  const b = /** @type {GraphNode} */ (graph.nodes.get(edge.to));
  const [x1, y1] = downwards ? [a.x + a.width / 2, a.y + a.height] : [a.x + a.width, a.y + a.height / 2];
  const [x2, y2] = downwards ? [b.x + b.width / 2, b.y] : [b.x, b.y + b.height / 2];
  edge.middle = [(x1 + x2) / 2, (y1 + y2) / 2];
  const bend = edge.back ? 60 : Math.max(18, (downwards ? Math.abs(y2 - y1) : x2 - x1) / 2);
  edge.d = downwards
    ? `M${x1},${y1} C${x1},${y1 + bend} ${x2},${y2 - bend} ${x2},${y2}`
    : `M${x1},${y1} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`;
}

/**
 * ways returns the edges that the events of a path take.
 * @param {Graph} graph @param {import("./types.js").Path} path
 */
export function ways(graph, path) {
  const type = match(graph, path.source, path.type) ?? `t:${path.source}|${path.type}`;
  const found = [];
  for (const edge of graph.edges.values()) {
    if (
      path.kind === "stored"
        ? edge.to === type
        : edge.from === type && edge.subscription && `${edge.subscription.namespace}/${edge.subscription.name}` === path.subscription
    )
      found.push(edge);
  }
  return found;
}
