// Continues a request's trace. Where spans are collected, or a handler uses a tracer, OpenTelemetry does it, a separate
// part that is loaded late; otherwise the trace is passed on without it.
'use strict';

const { install, traceOf } = require('./carry.js');
const current = require('./current.js');

const API = /[/\\]@opentelemetry[/\\]api[/\\]/;

class Tracing {
  #config;
  #loadPart;
  #part;

  constructor(config, loadPart) {
    this.#config = config;
    this.#loadPart = loadPart;
    if (config.traceEndpoint) this.#load();
    if (!this.#part?.exporting) install();
  }

  #load() {
    this.#part ??= this.#loadPart('opentelemetry').start(this.#config, traceOf);
    return this.#part;
  }

  // tracer loads OpenTelemetry, which then also takes over the current request.
  tracer() {
    if (this.#part === undefined) {
      const req = current.request();
      this.#load();
      if (req !== undefined) this.#part.enter(req);
    }
    return this.#part.tracer;
  }

  // join connects the API of OpenTelemetry that the handler has loaded, in any copy.
  join() {
    if (Object.keys(require.cache).some((file) => API.test(file))) this.#load();
  }

  // begin returns the trace of a request, or undefined when OpenTelemetry is not needed.
  begin(req) {
    return this.#part?.begin(req);
  }

  // run calls handle such that outgoing requests carry the request's trace and, for an event, its id.
  run({ req, trace }, handle) {
    current.run(req, trace === undefined ? handle : () => trace.run(handle));
  }

  // flush sends the waiting spans. It never rejects.
  async flush() {
    await this.#part?.flush();
  }
}

module.exports = { Tracing };
