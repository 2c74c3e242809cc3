// Gives the requests that a handler makes the context of the one that it answers, and each a span.
//
// Requests of node:http and node:https, and so of the packages that are built
// on them, are met where their headers are about to be written; those of fetch
// through the channels that it offers for this.
'use strict';

const http = require('node:http');
const { subscribe } = require('node:diagnostics_channel');
const { errorMonitor } = require('node:events');
const api = require('@opentelemetry/api');
const { isTracingSuppressed } = require('@opentelemetry/core');

// Starter begins a span, or only passes the context on where no spans are collected.
class Starter {
  #tracer;
  #exporting;

  constructor(tracer, exporting) {
    this.#tracer = tracer;
    this.#exporting = exporting;
  }

  // start returns the new span, if any, after set(name, value) was called for every header.
  start(method, attributes, set) {
    const active = api.context.active();
    if (isTracingSuppressed(active)) return undefined;
    let span;
    let context = active;
    if (this.#exporting) {
      span = this.#tracer.startSpan(method, { kind: api.SpanKind.CLIENT, attributes: attributes() }, active);
      context = api.trace.setSpan(active, span);
    }
    api.propagation.inject(context, undefined, { set: (_, name, value) => set(name, value) });
    return span;
  }
}

function finish(span, status, error) {
  if (status) span.setAttribute('http.response.status_code', status);
  if (error) {
    span.setAttribute('error.type', error.code ?? error.name ?? 'error');
    span.setStatus({ code: api.SpanStatusCode.ERROR, message: String(error.message ?? error) });
  } else if (!status || status >= 400) {
    span.setStatus({ code: api.SpanStatusCode.ERROR });
  }
  span.end();
}

const pathOf = (target) => target.split('?', 1)[0];

function describeHttp(request) {
  const origin = `${request.protocol}//${request.getHeader('host') ?? request.host}`;
  return {
    'http.request.method': request.method,
    'server.address': request.host,
    'url.full': origin + pathOf(request.path),
  };
}

function traceHttp(starter) {
  const { prototype } = http.ClientRequest;
  const writeHeaders = prototype._implicitHeader;
  prototype._implicitHeader = function _implicitHeader() {
    const set = (name, value) => this.setHeader(name, value);
    const span = this._header ? undefined : starter.start(this.method, () => describeHttp(this), set);
    if (span) {
      let failure;
      this.once(errorMonitor, (error) => (failure = error));
      this.once('close', () => finish(span, this.res?.statusCode, failure));
    }
    return writeHeaders.call(this);
  };
}

function describeFetch(request) {
  const origin = String(request.origin);
  return {
    'http.request.method': request.method,
    'server.address': URL.canParse(origin) ? new URL(origin).hostname : origin,
    'url.full': origin + pathOf(request.path),
  };
}

function traceFetch(starter) {
  const spans = new WeakMap();
  const end = (request, error) => {
    const open = spans.get(request);
    if (!open) return;
    spans.delete(request);
    finish(open.span, open.status, error);
  };
  subscribe('undici:request:create', ({ request }) => {
    const set = (name, value) => request.addHeader(name, value);
    const span = starter.start(request.method, () => describeFetch(request), set);
    if (span) spans.set(request, { span });
  });
  subscribe('undici:request:headers', ({ request, response }) => {
    const open = spans.get(request);
    if (open) open.status = response.statusCode;
  });
  subscribe('undici:request:trailers', ({ request }) => end(request));
  subscribe('undici:request:error', ({ request, error }) => end(request, error));
}

// traceOutgoing is called once, before there is a request to carry on.
function traceOutgoing(tracer, exporting) {
  const starter = new Starter(tracer, exporting);
  traceHttp(starter);
  traceFetch(starter);
}

module.exports = { traceOutgoing };
