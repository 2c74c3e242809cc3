// Gives the requests that a handler makes the trace of the one that it answers, as it came, where no spans are collected.
// Every event has a trace, and loading OpenTelemetry for it would double a cold start.
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

// toSend returns the headers that carry the trace of a request on, in both forms; none when it has no trace.
function toSend(headers) {
  const trace = fromW3C(headers) ?? fromB3(headers);
  if (trace === undefined) return [];
  const { traceId, spanId, sampled, state } = trace;
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

function carried() {
  const req = current.request();
  return req === undefined ? [] : toSend(req.headers);
}

// install is called once, before there is a request to carry on.
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
    if (/^traceparent:/im.test(String(request.headers))) return;
    for (const [name, value] of carried()) request.addHeader(name, value);
  });
}

module.exports = { install, toSend };
