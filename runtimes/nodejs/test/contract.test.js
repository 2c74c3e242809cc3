// Drives both Node.js APIs through the cases that all runtimes share.
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { contract, readHandler, withPublisher, withServer } = require('./server.js');

const { environment, variants, requests, loadFailures } = JSON.parse(fs.readFileSync(path.join(contract, 'cases.json')));
const own = Object.entries(variants).filter(([name]) => name.startsWith('nodejs-'));

const setup = (variant, handler, extra) => ({
  source: readHandler(handler, variant.file),
  environment: { ...environment, FUNC_RUNTIME: variant.runtime, ...extra },
});

function check(response, want, variant) {
  assert.equal(response.status, want.status, response.text);
  for (const [name, pattern] of Object.entries(want.headers ?? {})) {
    assert.match(response.headers[name] ?? '', new RegExp(pattern));
  }
  if (want.json) {
    const json = JSON.parse(JSON.stringify(want.json).replace('$runtime', variant.runtime));
    assert.deepEqual(JSON.parse(response.text), json);
  }
  if (want.text !== undefined) {
    assert.equal(want.foldCase ? response.text.toLowerCase() : response.text, want.text);
  }
}

function checkEmitted(events, want) {
  assert.equal(events.length, 1);
  assert.equal(events[0].method, 'POST');
  assert.equal(events[0].type, 'application/cloudevents+json');
  const { id, time, ...rest } = JSON.parse(events[0].body);
  assert.ok(id);
  assert.ok(!Number.isNaN(Date.parse(time)));
  assert.deepEqual(rest, want);
}

async function run(test, variant) {
  await withPublisher(test.publisherStatus ?? 204, async (address, events) => {
    const extra = { PUBLISHER_PROXY_ADDRESS: address, ...test.environment, ...(test.limitBody && variant.bodyLimit) };
    await withServer(setup(variant, test.handler, extra), async (server) => {
      await server.listening();
      check(await server.request(test.request), test.response, variant);
    });
    if (test.emitted) checkEmitted(events, test.emitted);
  });
}

for (const [name, variant] of own) {
  describe(name, { concurrency: 4 }, () => {
    for (const test of requests) {
      if (!test.only || test.only.includes(name)) {
        it(test.name, () => run(test, variant));
      }
    }

    for (const failure of loadFailures) {
      it(`${failure.handler}: the reason is in the termination message and the exit code is 1`, () =>
        withServer(setup(variant, failure.handler), async (server) => {
          assert.equal(await server.exited, 1);
          assert.match(server.terminationMessage(), /^handler did not load/);
          assert.ok(server.terminationMessage().includes(failure.nodejs), server.terminationMessage());
          assert.ok(server.output.includes(failure.nodejs));
        }));
    }

    it('SIGTERM lets a busy request finish, takes no new one and exits 0', () =>
      withServer(setup(variant, 'slow'), async (server) => {
        await server.listening();
        const busy = server.request({ method: 'GET', path: '/' });
        // The handler is running once the server has answered what was sent after it.
        await server.request({ method: 'GET', path: '/healthz' });
        server.process.kill('SIGTERM');
        assert.equal((await busy).text, '{"finished":true}');
        assert.equal(await server.exited, 0);
        await assert.rejects(server.request({ method: 'GET', path: '/' }), { code: 'ECONNREFUSED' });
      }));

    it('SIGTERM ends an idle server at once, also with an open connection', () =>
      withServer(setup(variant, 'object'), async (server) => {
        await server.listening();
        const agent = new (require('node:http').Agent)({ keepAlive: true });
        await server.request({ method: 'GET', path: '/', agent });
        server.process.kill('SIGTERM');
        assert.equal(await server.exited, 0);
      }));

    it('slow requests run side by side', () =>
      withServer(setup(variant, 'slow'), async (server) => {
        await server.listening();
        const begin = Date.now();
        await Promise.all(Array.from({ length: 5 }, () => server.request({ method: 'GET', path: '/' })));
        assert.ok(Date.now() - begin < 2 * 1500, `${Date.now() - begin} ms`);
      }));
  });
}
