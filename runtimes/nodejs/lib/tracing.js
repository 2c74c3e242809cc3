// Decides how a request's trace goes on. Where spans are collected, or a handler has asked for a tracer, that is the matter
// of OpenTelemetry, a part of its own that is loaded late; else what came is carried on as it is.
'use strict';

const { install } = require('./carry.js');
const current = require('./current.js');

const HEADERS = ['traceparent', 'b3', 'x-b3-traceid', 'x-b3-sampled', 'x-b3-flags'];

const isTraced = (headers) => HEADERS.some((name) => name in headers);

class Tracing {
  #config;
  #loadPart;
  #part;
  #carries = false;

  constructor(config, loadPart) {
    this.#config = config;
    this.#loadPart = loadPart;
    if (config.traceEndpoint) this.#load();
  }

  #load() {
    this.#part ??= this.#loadPart('opentelemetry').start(this.#config);
    return this.#part;
  }

  // tracer loads OpenTelemetry, which then also takes over the request that is being answered.
  tracer() {
    if (this.#part === undefined) {
      const req = current.request();
      this.#load();
      if (req !== undefined) this.#part.enter(req);
    }
    return this.#part.tracer;
  }

  // begin returns the trace of a request, or undefined when there is nothing for OpenTelemetry to do.
  begin(req) {
    if (this.#part !== undefined && (this.#config.traceEndpoint || isTraced(req.headers))) return this.#part.begin(req);
    if (!this.#carries && isTraced(req.headers)) {
      install();
      this.#carries = true;
    }
    return undefined;
  }

  // run calls handle so that what it sends carries the request's trace and, for an event, its id.
  run({ req, trace }, handle) {
    const within = trace === undefined ? handle : () => trace.run(handle);
    if (isTraced(req.headers) || current.isEvent(req)) current.run(req, within);
    else within();
  }

  // flush sends the spans that wait. It never rejects.
  async flush() {
    await this.#part?.flush();
  }
}

module.exports = { Tracing };
