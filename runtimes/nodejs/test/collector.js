// A collector of OTLP traces over HTTP that keeps what it gets.
'use strict';

const assert = require('node:assert/strict');
const http = require('node:http');
const { once } = require('node:events');

const KINDS = ['unspecified', 'internal', 'server', 'client'];
const STATUS = ['unset', 'ok', 'error'];

const valueOf = ({ stringValue, intValue, boolValue, doubleValue }) =>
  stringValue ?? (intValue === undefined ? boolValue ?? doubleValue : Number(intValue));

const read = (attributes) => Object.fromEntries(attributes.map(({ key, value }) => [key, valueOf(value)]));

const spansOf = ({ resourceSpans }) =>
  resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ scope, spans }) =>
      spans.map((span) => ({
        ...span,
        kind: KINDS[span.kind],
        status: STATUS[span.status?.code ?? 0],
        attributes: read(span.attributes),
        resource: read(resource.attributes),
        scope: scope.name,
      }))));

// withCollector runs a local collector; spans is filled while it runs.
async function withCollector(use) {
  const spans = [];
  const collector = http.createServer((req, res) => {
    let body = '';
    req.setEncoding('utf8').on('data', (chunk) => (body += chunk));
    req.on('end', () => {
      spans.push(...spansOf(JSON.parse(body)));
      res.setHeader('content-type', 'application/json').end('{}');
    });
  });
  await once(collector.listen(0, '127.0.0.1'), 'listening');
  try {
    return await use(`http://127.0.0.1:${collector.address().port}/v1/traces`, spans);
  } finally {
    collector.closeAllConnections();
    collector.close();
  }
}

// checkSpans takes what a wanted span does not name for granted.
function checkSpans(spans, want) {
  const order = (a, b) => KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind);
  const got = spans.toSorted(order);
  assert.deepEqual(got.map(({ kind }) => kind), want.map(({ kind }) => kind));
  for (const [i, { attributes = {}, ...fields }] of want.entries()) {
    for (const [name, value] of Object.entries(fields)) assert.deepEqual(got[i][name], value, name);
    for (const [name, value] of Object.entries(attributes)) assert.deepEqual(got[i].attributes[name], value, name);
  }
}

module.exports = { checkSpans, withCollector };
