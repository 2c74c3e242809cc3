// The load that the server reports: the requests that count as in progress, and until when.
'use strict';

const assert = require('node:assert/strict');
const http = require('node:http');
const net = require('node:net');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { setTimeout: sleep } = require('node:timers/promises');
const { isDeepStrictEqual } = require('node:util');
const { START_TIMEOUT_MS, withServer } = require('./server.js');

const get = { method: 'GET', path: '/' };

const run = (source, environment, use) =>
  withServer({ source, environment: { FUNC_RUNTIME: 'nodejs26', ...environment } }, async (server) => use(await server.listening()));

const readLoad = async (server) => JSON.parse((await server.request({ ...get, path: '/.well-known/rouse/load' })).text);

// shows resolves once the load is as expected.
async function shows(server, wanted) {
  const want = { viaGateway: 0, viaEventbridge: 0, ...wanted };
  for (const deadline = Date.now() + START_TIMEOUT_MS; ;) {
    const load = await readLoad(server);
    if (isDeepStrictEqual(load, want)) return;
    if (Date.now() > deadline) assert.deepEqual(load, want);
    await sleep(10);
  }
}

async function connect(server, text) {
  const socket = net.connect(server.port, '127.0.0.1').on('error', () => {});
  await once(socket, 'connect');
  socket.write(text);
  return socket;
}

describe('the load', { concurrency: 4 }, () => {
  for (const [runtime, source] of Object.entries({
    nodejs24: "exports.main = ({ extensions: { response: res } }) => new Promise((done) => { res.write('x'); setTimeout(done, 2 ** 30); });",
    nodejs26: "exports.main = (req, res) => { res.write('x'); };",
  })) {
    it(`of ${runtime} has a stream until it ends`, () =>
      run(source, { FUNC_RUNTIME: runtime }, async (server) => {
        const headers = { 'rouse-via': 'gateway' };
        const request = http.get({ host: '127.0.0.1', port: server.port, path: '/', headers }).on('error', () => {});
        const [response] = await once(request, 'response');
        response.on('error', () => {}).resume();
        await shows(server, { requests: 1, running: 1, viaGateway: 1 });
        request.destroy();
        await shows(server, { requests: 1, running: 0 });
      }));
  }

  it('has no hanging call after the response of the timeout', () =>
    run('exports.main = () => new Promise(() => {});', { FUNC_TIMEOUT: '0.2' }, async (server) => {
      assert.equal((await server.request(get)).status, 408);
      await shows(server, { requests: 1, running: 0 });
    }));

  it('has no incomplete request of a disconnected client', () =>
    run('exports.main = () => {};', {}, async (server) => {
      const socket = await connect(server, 'POST / HTTP/1.1\r\nHost: f\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\nx');
      await shows(server, { requests: 1, running: 1 });
      socket.destroy();
      await shows(server, { requests: 1, running: 0 });
    }));

  it('has no pipelined calls of a closed connection', () =>
    run('exports.main = () => {};', {}, async (server) => {
      const socket = await connect(server, 'GET / HTTP/1.1\r\nHost: f\r\nRouse-Via: eventbridge\r\n\r\n'.repeat(3));
      await shows(server, { requests: 3, running: 3, viaEventbridge: 3 });
      socket.destroy();
      await shows(server, { requests: 3, running: 0 });
    }));

  it('has a call once, also when the handler emits events on its response', () =>
    run("exports.main = (req, res) => { res.emit('close'); res.send('x'); };", {}, async (server) => {
      await server.request(get);
      await shows(server, { requests: 1, running: 0 });
    }));

  it('has a connection that the handler has taken over until it is closed', () => {
    const source = `exports.main = (req, res) => {
      req.socket.server.on('upgrade', (_, socket) => {
        socket.on('end', () => socket.end()).resume();
        socket.write('HTTP/1.1 101 Switching Protocols\\r\\nConnection: Upgrade\\r\\nUpgrade: x\\r\\n\\r\\n');
      });
      res.send('x');
    };`;
    return run(source, {}, async (server) => {
      await server.request(get);
      const socket = await connect(server, 'GET / HTTP/1.1\r\nHost: f\r\nRouse-Via: gateway\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n');
      await once(socket, 'data');
      await shows(server, { requests: 2, running: 1, viaGateway: 1 });
      socket.destroy();
      await shows(server, { requests: 2, running: 0 });
    });
  });
});
