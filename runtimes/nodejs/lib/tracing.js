// Decides how a request's trace goes on. Where spans are collected, or a handler has asked for a tracer, that is the matter
// of OpenTelemetry, a part of its own that is loaded late; else it is carried on without.
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

  // tracer loads OpenTelemetry, which then also takes over the request that is being answered.
  tracer() {
    if (this.#part === undefined) {
      const req = current.request();
      this.#load();
      if (req !== undefined) this.#part.enter(req);
    }
    return this.#part.tracer;
  }

  // join makes the API of OpenTelemetry do something when the handler has loaded it, whichever copy of it.
  join() {
    if (Object.keys(require.cache).some((file) => API.test(file))) this.#load();
  }

  // begin returns the trace of a request, or undefined when there is nothing for OpenTelemetry to do.
  begin(req) {
    return this.#part?.begin(req);
  }

  // run calls handle so that what it sends carries the request's trace and, for an event, its id.
  run({ req, trace }, handle) {
    current.run(req, trace === undefined ? handle : () => trace.run(handle));
  }

  // flush sends the spans that wait. It never rejects.
  async flush() {
    await this.#part?.flush();
  }
}

module.exports = { Tracing };
