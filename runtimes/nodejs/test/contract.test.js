// Drives both Node.js APIs through the cases that all runtimes share.
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { setTimeout: sleep } = require('node:timers/promises');
const { checkSpans, withCollector } = require('./collector.js');
const { START_TIMEOUT_MS, contract, readHandler, withPublisher, withServer } = require('./server.js');

const readCases = (file) => JSON.parse(fs.readFileSync(path.join(contract, file)));

const { environment, variants, requests: common, loadFailures } = readCases('cases.json');
const topics = fs.readdirSync(path.join(contract, 'cases')).filter((file) => file.endsWith('.json')).sort();
const requests = [...common, ...topics.flatMap((file) => readCases(path.join('cases', file)).requests)];
const own = Object.entries(variants).filter(([name]) => name.startsWith('nodejs-'));

const setup = (variant, handler, extra) => ({
  source: readHandler(handler, variant.file),
  environment: { ...environment, FUNC_RUNTIME: variant.runtime, ...extra },
});

function checkHeaders(headers, want = {}) {
  for (const [name, pattern] of Object.entries(want)) {
    if (pattern === null) assert.equal(headers[name], undefined, name);
    else assert.match(headers[name] ?? '', new RegExp(pattern), name);
  }
}

function check(response, want, variant) {
  assert.equal(response.status, want.status, response.text);
  checkHeaders(response.headers, want.headers);
  if (want.json) {
    const json = JSON.parse(JSON.stringify(want.json).replace('$runtime', variant.runtime));
    assert.deepEqual(JSON.parse(response.text), json);
  }
  if (want.text !== undefined) {
    assert.equal(want.foldCase ? response.text.toLowerCase() : response.text, want.text);
  }
  for (const pattern of want.matches?.nodejs ?? []) {
    assert.match(response.text, new RegExp(pattern, 'm'));
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
    await (test.spans ? withSpans : ask)(test, variant, extra);
    if (test.emitted) checkEmitted(events, test.emitted);
    if (test.emittedHeaders) checkHeaders(events[0].headers, test.emittedHeaders);
  });
}

async function ask(test, variant, extra, finish = async () => {}) {
  await withServer(setup(variant, test.handler, extra), async (server) => {
    await server.listening();
    const held = (test.held ?? []).map(({ request, response }) => ({ end: server.hold(request), response }));
    await askOne(server, test, variant);
    for (const { end, response } of held) check(await end(), response, variant);
    for (const step of test.then ?? []) await askOne(server, step, variant);
    await finish(server);
  });
}

async function askOne(server, { request, response, eventually }, variant) {
  for (const deadline = Date.now() + (eventually ? START_TIMEOUT_MS : 0); ;) {
    const answer = await server.request(request);
    try {
      check(answer, response, variant);
      return;
    } catch (error) {
      if (Date.now() >= deadline) throw error;
    }
    await sleep(10);
  }
}

// The end of a server sends the spans that it has.
async function withSpans(test, variant, extra) {
  await withCollector(async (endpoint, spans) => {
    await ask(test, variant, { ...extra, TRACE_COLLECTOR_ENDPOINT: endpoint }, async (server) => {
      server.process.kill('SIGTERM');
      assert.equal(await server.exited, 0);
    });
    checkSpans(spans, test.spans);
    for (const { resource } of spans) assert.equal(resource['service.name'], environment.FUNC_NAME);
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

    it('slow requests run side by side', () => {
      // No request is answered before all are there.
      const source = `const there = [];
        exports.main = (_, res) => new Promise((done) => {
          there.push(() => done(res.send ? res.send('x') : 'x'));
          if (there.length === 5) for (const go of there) go();
        });`;
      return withServer({ ...setup(variant, 'slow'), source }, async (server) => {
        await server.listening();
        const answers = await Promise.all(Array.from({ length: 5 }, () => server.request({ method: 'GET', path: '/' })));
        assert.deepEqual(answers.map(({ text }) => text), Array(5).fill('x'));
      });
    });
  });
}
