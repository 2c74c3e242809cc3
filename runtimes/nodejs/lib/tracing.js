// Decides whether a request is traced. OpenTelemetry itself is a part of its
// own, loaded at once where spans are collected, and else by the first request
// or handler that has to do with traces.
'use strict';

const HEADERS = ['traceparent', 'b3', 'x-b3-traceid', 'x-b3-sampled', 'x-b3-flags'];

const isTraced = (headers) => HEADERS.some((name) => name in headers);

class Tracing {
  #config;
  #loadPart;
  #part;

  constructor(config, loadPart) {
    this.#config = config;
    this.#loadPart = loadPart;
    if (config.traceEndpoint) this.#load();
  }

  #load() {
    this.#part ??= this.#loadPart('opentelemetry').start(this.#config);
    return this.#part;
  }

  tracer() {
    return this.#load().tracer;
  }

  // begin returns the trace of a request, or undefined when there is nothing to carry on and nobody to report to.
  begin(req) {
    if (!this.#config.traceEndpoint && !isTraced(req.headers)) return undefined;
    return this.#load().begin(req);
  }

  // flush sends the spans that wait. It never rejects.
  async flush() {
    await this.#part?.flush();
  }
}

module.exports = { Tracing };
