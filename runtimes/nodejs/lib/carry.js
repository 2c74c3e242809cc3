// Passes the trace of a call on to the handler's requests where no spans are collected: the caller's trace, or a new
// one. Every event has a trace, and loading OpenTelemetry for it would double a cold start.
'use strict';

const http = require('node:http');
const { subscribe } = require('node:diagnostics_channel');
const current = require('./current.js');

const PARENT = /^(?!ff)[0-9a-f]{2}-((?!0{32})[0-9a-f]{32})-((?!0{16})[0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const TRACE_ID = /^(?!0+$)([0-9a-f]{32}|[0-9a-f]{16})$/i;
const SPAN_ID = /^(?!0+$)[0-9a-f]{16}$/i;

function fromW3C(headers) {
  const [, traceId, spanId, flags, more] = PARENT.exec(headers.traceparent?.trim() ?? '') ?? [];
  if (traceId === undefined || (more !== undefined && headers.traceparent.startsWith('00'))) return undefined;
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1, state: headers.tracestate };
}

function fromB3(headers) {
  const [traceId, spanId, sampled] = headers.b3?.split('-') ?? [
    headers['x-b3-traceid'],
    headers['x-b3-spanid'],
    headers['x-b3-flags'] === '1' ? 'd' : headers['x-b3-sampled'],
  ];
  if (!TRACE_ID.test(traceId ?? '') || !SPAN_ID.test(spanId ?? '')) return undefined;
  return {
    traceId: traceId.toLowerCase().padStart(32, '0'),
    spanId: spanId.toLowerCase(),
    sampled: ['1', 'd', 'true'].includes(sampled?.toLowerCase()),
  };
}

// begin makes a trace, sampled as OpenTelemetry samples without a parent's decision.
function begin() {
  const random = require('node:crypto').randomBytes(24).toString('hex');
  return { traceId: random.slice(0, 32), spanId: random.slice(32), sampled: true };
}

const TRACE = Symbol('trace');

// traceOf returns the trace in the headers of a request, or a new trace.
function traceOf(req) {
  req[TRACE] ??= fromW3C(req.headers) ?? fromB3(req.headers) ?? begin();
  return req[TRACE];
}

// toSend returns the headers that pass a trace on, in both forms.
function toSend({ traceId, spanId, sampled, state }) {
  const flag = sampled ? '1' : '0';
  const made = [
    ['traceparent', `00-${traceId}-${spanId}-0${flag}`],
    ['x-b3-traceid', traceId],
    ['x-b3-spanid', spanId],
    ['x-b3-sampled', flag],
  ];
  if (state) made.push(['tracestate', state]);
  return made;
}

// carried returns the headers for an outgoing request; outside of a call, each request has a separate trace.
function carried() {
  const req = current.request();
  return toSend(req === undefined ? begin() : traceOf(req));
}

// hasTrace reads the headers of undici: one text in older versions, alternating names and values in newer ones.
function hasTrace(headers) {
  if (!Array.isArray(headers)) return /^traceparent:/im.test(headers);
  return headers.some((text, i) => i % 2 === 0 && String(text).toLowerCase() === 'traceparent');
}

// install is called once, before the handler can send anything.
function install() {
  const { prototype } = http.ClientRequest;
  const writeHeaders = prototype._implicitHeader;
  prototype._implicitHeader = function _implicitHeader() {
    if (!this._header && !this.hasHeader('traceparent')) {
      for (const [name, value] of carried()) this.setHeader(name, value);
    }
    return writeHeaders.call(this);
  };
  subscribe('undici:request:create', ({ request }) => {
    if (hasTrace(request.headers)) return;
    for (const [name, value] of carried()) request.addHeader(name, value);
  });
}

module.exports = { install, traceOf };
