// Writes V8's code caches beside the bundles: `node warm.js DIRECTORY`, run by the Node.js version that will use it.
//
// The server serves each kind of request once first, because the cache holds
// only functions that have run.
'use strict';

const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const v8 = require('node:v8');
const zlib = require('node:zlib');
const { once } = require('node:events');

const HANDLER = `
const { emitCloudEvent } = require('sdk');
exports.main = async (first, res) => {
  await emitCloudEvent('warm.up', 'build', { answer: 42 });
  return first.extensions ? { answer: 42 } : res.send({ answer: 42 });
};`;

const BINARY = { 'ce-id': '1', 'ce-source': 'build', 'ce-type': 'warm.up', 'ce-specversion': '1.0' };
const STRUCTURED = { specversion: '1.0', id: '1', source: 'build', type: 'warm.up', data: {} };

const REQUESTS = [
  { method: 'GET', path: '/healthz', headers: {} },
  { method: 'GET', path: '/metrics', headers: {} },
  { method: 'GET', path: '/', headers: {} },
  { method: 'POST', path: '/', headers: { 'content-type': 'application/json' }, body: '{}' },
  { method: 'POST', path: '/', headers: { 'content-type': 'text/plain' }, body: 'text' },
  { method: 'POST', path: '/', headers: { 'content-type': 'application/json', ...BINARY }, body: '{}' },
  {
    method: 'POST',
    path: '/',
    headers: { 'content-type': 'application/cloudevents+json' },
    body: JSON.stringify(STRUCTURED),
  },
];

async function send(port, { body, ...options }) {
  const request = http.request({ host: '127.0.0.1', port, ...options });
  request.end(body);
  const [response] = await once(request, 'response');
  response.resume();
  await once(response, 'end');
}

async function warm(appDir) {
  // This server is both the publisher and the collector of traces.
  const publisher = http.createServer((req, res) => req.resume().once('end', () => res.writeHead(204).end()));
  await once(publisher.listen(0, '127.0.0.1'), 'listening');
  Object.assign(process.env, {
    FUNC_PORT: '0',
    FUNC_HANDLER_SOURCE: zlib.gzipSync(HANDLER).toString('base64'),
    PUBLISHER_PROXY_ADDRESS: `http://127.0.0.1:${publisher.address().port}`,
    TRACE_COLLECTOR_ENDPOINT: `http://127.0.0.1:${publisher.address().port}`,
    KYMA_INTERNAL_LOGGER_ENABLED: 'true',
    SERVER_INTERNAL_LOGGER: 'true',
  });

  // Otherwise the cache would differ from run to run: it contains the number of garbage collections since a function
  // ran, and whether the function was hot enough for the baseline compiler.
  v8.setFlagsFromString('--no-flush-bytecode');
  v8.setFlagsFromString('--no-sparkplug');
  const { scripts, start } = require(path.join(appDir, 'server.js'));
  const server = await start(appDir);
  await once(server, 'listening');
  for (const request of REQUESTS) {
    await send(server.address().port, request);
  }
  // V8 refuses the cache where its flags differ from these.
  v8.setFlagsFromString('--flush-bytecode');
  v8.setFlagsFromString('--sparkplug');
  for (const [file, script] of scripts) {
    fs.writeFileSync(`${file}.${process.version}.cache`, script.createCachedData());
  }
  process.exit(0);
}

warm(path.resolve(process.argv[2]));
