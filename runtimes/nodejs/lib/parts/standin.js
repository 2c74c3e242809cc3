// Stands in for a Function whose pod starts: waits without a handler until the controller hands over a Function's
// environment, and then becomes its server.
//
// It accepts one hand-over in its life, from who knows the key whose SHA-256 is in FUNC_STAND_IN. The answer follows
// once the Function's server listens. A handler that does not load ends the process, as in any pod.
'use strict';

const http = require('node:http');
const { createHash, timingSafeEqual } = require('node:crypto');
const { once } = require('node:events');

const PATH = '/.well-known/rouse/stand-in';
const MAX_BODY = 1024 * 1024;
const TIMEOUT_MS = 2000; // for a whole request, so that strangers cannot hold all connections
const MAX_CONNECTIONS = 64;

async function readBody(req) {
  const parts = [];
  let length = 0;
  for await (const part of req) {
    length += part.length;
    if (length > MAX_BODY) throw new Error('the body is longer than 1 MiB');
    parts.push(part);
  }
  return Buffer.concat(parts);
}

function parse(body) {
  const { key, environment } = JSON.parse(body.toString());
  const texts = Object.values(environment);
  if (typeof key !== 'string' || texts.some((value) => typeof value !== 'string')) throw new Error('key and environment are texts');
  return { key, environment };
}

// A name in FUNC_PORT means this server's port, also where it was chosen by the kernel.
function becomes(env, environment, port) {
  if (env.FUNC_PORT !== undefined) env.FUNC_PORT = String(port);
  Object.assign(env, environment);
}

class StandIn {
  #digest;
  #env;
  #start;
  #server;
  #taken = false;

  constructor(env, start) {
    this.#digest = Buffer.from(env.FUNC_STAND_IN, 'hex');
    delete env.FUNC_STAND_IN;
    this.#env = env;
    this.#start = start;
    const options = { headersTimeout: TIMEOUT_MS, requestTimeout: TIMEOUT_MS, connectionsCheckingInterval: TIMEOUT_MS / 4 };
    this.#server = http.createServer(options, (req, res) => this.#answer(req, res));
    this.#server.maxConnections = MAX_CONNECTIONS;
  }

  listen() {
    const end = () => process.exit(0);
    process.once('SIGTERM', end).once('SIGINT', end);
    this.#server.once('close', () => process.off('SIGTERM', end).off('SIGINT', end));
    this.#server.listen(Number(this.#env.FUNC_PORT ?? 8080), () => {
      console.log(`stands in, listening on 0.0.0.0:${this.#server.address().port}`);
    });
  }

  async #answer(req, res) {
    const respond = (status, text) => res.writeHead(status, { connection: 'close' }).end(text);
    if (req.method === 'GET' && req.url === '/healthz') return respond(200, 'OK');
    if (req.method !== 'POST' || req.url !== PATH) return respond(503, 'no Function is loaded');
    let handover;
    try {
      handover = parse(await readBody(req));
    } catch (error) {
      return respond(400, error.message);
    }
    if (!this.#knows(handover.key)) return respond(403, 'the key is not that of this pod');
    if (this.#taken) return respond(409, 'a Function is loaded');
    this.#taken = true;
    becomes(this.#env, handover.environment, this.#server.address().port);
    const server = await this.#start(() => this.#server.close());
    await once(server, 'listening');
    return respond(204);
  }

  #knows(key) {
    const digest = createHash('sha256').update(key).digest();
    return digest.length === this.#digest.length && timingSafeEqual(digest, this.#digest);
  }
}

// EVENT is the kind of request that wakes most Functions.
const EVENT = {
  method: 'POST',
  host: '127.0.0.1',
  headers: { 'content-type': 'application/json', 'ce-specversion': '1.0', 'ce-id': '1', 'ce-source': 'stand-in', 'ce-type': 'warm.up' },
};
const WARM_REQUESTS = 20; // the compiler has seen the way of a request by then

// warm sends requests to a server whose handler does nothing: the first ones take ten times as long as later ones.
async function warm(createServer) {
  const server = createServer(() => '').listen(0, '127.0.0.1');
  await once(server, 'listening');
  for (let i = 0; i < WARM_REQUESTS; i++) {
    const request = http.request({ ...EVENT, port: server.address().port }).end('{}');
    const [response] = await once(request, 'response');
    await once(response.resume(), 'end');
  }
  server.close();
  server.closeAllConnections();
}

// wait listens. createServer(handler) returns a Function's HTTP server without its other parts. start(release) starts
// the Function's server, which calls release before it listens on the same port.
async function wait(env, createServer, start) {
  await warm(createServer);
  new StandIn(env, start).listen();
}

module.exports = { wait };
