// A pod that stands in takes one Function in its life, from who has its key.
'use strict';

const assert = require('node:assert/strict');
const net = require('node:net');
const { createHash } = require('node:crypto');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { encode, withServer } = require('./server.js');

const key = 'the key of this pod';
const digest = createHash('sha256').update(key).digest('hex');
const path = '/.well-known/rouse/stand-in';

const sources = {
  nodejs22: "module.exports.main = () => process.env.GREETING + ' ' + process.env.FUNC_STAND_IN;",
  nodejs26: "exports.main = (req, res) => res.send(process.env.GREETING + ' ' + process.env.FUNC_STAND_IN);",
};

const standIn = (use) => withServer({ environment: { FUNC_STAND_IN: digest } }, async (server) => use(await server.listening()));

const handover = (server, text) => server.request({ method: 'POST', path, body: text });

const give = (server, source, environment = {}, itsKey = key) =>
  handover(server, JSON.stringify({ key: itsKey, environment: { FUNC_HANDLER_SOURCE: encode(source), ...environment } }));

describe('a server that stands in', () => {
  for (const [runtime, source] of Object.entries(sources)) {
    it(`becomes the server of a Function of ${runtime}`, async () => {
      await standIn(async (server) => {
        assert.equal((await server.request({ method: 'GET', path: '/healthz' })).status, 200);
        assert.equal((await server.request({ method: 'GET', path: '/' })).status, 503);
        assert.equal((await give(server, source, { FUNC_RUNTIME: runtime, GREETING: 'hello' })).status, 204);
        const answer = await server.request({ method: 'GET', path: '/' });
        assert.deepEqual([answer.status, answer.text], [200, 'hello undefined']);
        assert.equal((await server.request({ method: 'GET', path: '/healthz' })).status, 200);
      });
    });
  }

  it('takes no Function from a stranger, and none twice', async () => {
    await standIn(async (server) => {
      for (const [body, status] of [
        ['', 400],
        ['{}', 400],
        [JSON.stringify({ key: 1, environment: {} }), 400],
        [JSON.stringify({ key, environment: { A: {} } }), 400],
        [JSON.stringify({ key, environment: null }), 400],
        [JSON.stringify({ key: '', environment: {} }), 403],
        [JSON.stringify({ key: digest, environment: {} }), 403],
        ['x'.repeat(1024 * 1024 + 1), 400],
      ]) {
        assert.equal((await handover(server, body)).status, status, body.slice(0, 80));
      }
      assert.equal((await give(server, sources.nodejs22, { FUNC_RUNTIME: 'nodejs22', GREETING: 'first' })).status, 204);
      await give(server, sources.nodejs22, { FUNC_RUNTIME: 'nodejs22', GREETING: 'second' });
      assert.equal((await server.request({ method: 'GET', path: '/' })).text, 'first undefined');
    });
  });

  it('ends when the handler does not load', async () => {
    await standIn(async (server) => {
      await assert.rejects(give(server, 'throw new Error("no");'));
      assert.equal(await server.ended(), 1);
      assert.match(server.terminationMessage(), /no/);
    });
  });

  it('ends at once on SIGTERM, before and after the hand-over', async () => {
    for (const given of [false, true]) {
      await standIn(async (server) => {
        if (given) await give(server, sources.nodejs22);
        server.process.kill('SIGTERM');
        assert.equal(await server.ended(), 0);
      });
    }
  });

  it('closes the connections of those who send nothing', async () => {
    await standIn(async (server) => {
      const silent = Array.from({ length: 40 }, () => net.connect(server.port, '127.0.0.1'));
      await Promise.all(silent.map((socket) => once(socket, 'connect')));
      assert.equal((await server.request({ method: 'GET', path: '/healthz' })).status, 200);
      silent.forEach((socket) => socket.resume());
      await Promise.all(silent.map((socket) => once(socket, 'close')));
    });
  });
});
