// Traces, and their context in all requests of a handler.
'use strict';

const assert = require('node:assert/strict');
const http = require('node:http');
const net = require('node:net');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { checkSpans, withCollector } = require('./collector.js');
const { withPublisher, withServer } = require('./server.js');

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const get = { method: 'GET', path: '/' };
const traced = { method: 'GET', path: '/', headers: { traceparent: `00-${TRACE}-00f067aa0ba902b7-01` } };

const setup = (source, environment) => ({ source, environment: { FUNC_RUNTIME: 'nodejs22', FUNC_NAME: 'f', ...environment } });

// Each way to send a request, to process.env.TARGET.
const WAYS = {
  'http.get': "require('http').get(process.env.TARGET, (r) => r.resume().on('end', done));",
  'http.request with a body': "const r = require('http').request(process.env.TARGET, { method: 'POST' }, (a) => a.resume().on('end', done)); r.write('a'); r.end('b');",
  'http.request after a wait': "setTimeout(() => require('http').get(process.env.TARGET, (r) => r.resume().on('end', done)), 5);",
  fetch: 'fetch(process.env.TARGET).then((r) => r.text()).then(done);',
  'fetch after awaits': '(async () => { await null; await new Promise(setImmediate); await (await fetch(process.env.TARGET)).text(); done(); })();',
  emitCloudEvent: "event.emitCloudEvent('t', 's', {}).then(done);",
};

const sending = (way) => `exports.main = (event) => new Promise((done) => { ${way} });`;

// assertBegins checks the headers of a trace that begins in the server.
function assertBegins(headers) {
  const [, traceId, spanId] = /^00-(?!0{32}-)([0-9a-f]{32})-(?!0{16}-)([0-9a-f]{16})-01$/.exec(headers.traceparent) ?? [];
  assert.ok(traceId, headers.traceparent);
  assert.ok(traceId !== TRACE);
  const b3 = ['x-b3-traceid', 'x-b3-spanid', 'x-b3-sampled'].map((name) => headers[name]);
  assert.deepEqual(b3, [traceId, spanId, '1']);
}

describe('outgoing requests', { concurrency: 4 }, () => {
  for (const [name, way] of Object.entries(WAYS)) {
    it(`${name} carries the context`, () =>
      withPublisher(204, async (address, received) => {
        await withServer(setup(sending(way), { TARGET: address, PUBLISHER_PROXY_ADDRESS: address }), async (server) => {
          await server.listening();
          // Two at once: each has the context of its own request.
          const other = { ...traced, headers: { traceparent: `00-${TRACE.replaceAll('4', '5')}-00f067aa0ba902b7-01` } };
          await Promise.all([server.request(traced), server.request(other)]);
          const untraced = await server.request({ method: 'GET', path: '/' });
          assert.equal(untraced.status, 200);
        });
        const parents = received.map(({ headers }) => headers.traceparent?.split('-')[1]);
        assert.deepEqual(parents.slice(0, 2).sort(), [TRACE, TRACE.replaceAll('4', '5')].sort());
        assert.equal(received[0].headers['x-b3-traceid'], parents[0]);
        assertBegins(received[2].headers);
      }));

    it(`${name} is a span`, () =>
      withCollector((endpoint, spans) =>
        withPublisher(503, async (address, received) => {
          const environment = { TARGET: address, PUBLISHER_PROXY_ADDRESS: address, TRACE_COLLECTOR_ENDPOINT: endpoint };
          const source = sending(way.replace('.then(done)', '.then(done, done)'));
          await withServer(setup(source, environment), async (server) => {
            await server.listening();
            assert.equal((await server.request(traced)).status, 200);
            server.process.kill('SIGTERM');
            assert.equal(await server.exited, 0);
          });
          checkSpans(spans, [
            { kind: 'server', traceId: TRACE, parentSpanId: '00f067aa0ba902b7', status: 'unset', scope: 'io.kyma-project.serverless' },
            { kind: 'client', traceId: TRACE, status: 'error', attributes: { 'http.response.status_code': 503, 'server.address': '127.0.0.1' } },
          ]);
          const [client, server] = spans.toSorted((a, b) => b.kind < a.kind ? 1 : -1);
          assert.equal(client.parentSpanId, server.spanId);
          assert.equal(received[0].headers.traceparent, `00-${TRACE}-${client.spanId}-01`);
        })));
  }

  const twice = "const target = process.env.TARGET; const send = () => fetch(target).then((r) => r.text());";

  for (const [name, headers] of Object.entries({ 'no trace': {}, 'a decision alone': { 'x-b3-sampled': '1' }, 'no valid trace': { traceparent: '00-x', 'x-b3-traceid': '0' } })) {
    it(`of one call that came with ${name} are in one trace`, () =>
      withPublisher(204, async (address, received) => {
        const source = `${twice} exports.main = async () => { await send(); await send(); };`;
        await withServer(setup(source, { TARGET: address }), async (server) => {
          await server.listening();
          for (let i = 0; i < 2; i += 1) assert.equal((await server.request({ ...get, headers })).status, 200);
        });
        for (const { headers: sent } of received) assertBegins(sent);
        const [first, same, other] = received.map(({ headers: sent }) => sent.traceparent.split('-')[1]);
        assert.equal(first, same);
        assert.notEqual(first, other);
      }));
  }

  it('of a call that has asked for a tracer are in one trace', () =>
    withPublisher(204, async (address, received) => {
      const source = `${twice} exports.main = async (event) => {
        await send();
        const within = await event.tracer.startActiveSpan('a', async (span) => { await send(); span.end(); return span.spanContext().traceId; });
        await send();
        return within;
      };`;
      await withServer(setup(source, { TARGET: address }), async (server) => {
        await server.listening();
        for (let i = 0; i < 2; i += 1) {
          const { text } = await server.request(get);
          const traces = received.slice(3 * i).map(({ headers }) => headers.traceparent.split('-')[1]);
          assert.deepEqual(traces, [text, text, text]);
        }
      });
    }));

  it('of a handler that loads have a trace each', () =>
    withPublisher(204, async (address, received) => {
      const source = `${twice} await send(); await send(); export const main = () => 'x';`;
      await withServer(setup(source, { TARGET: address }), (server) => server.listening());
      for (const { headers } of received) assertBegins(headers);
      assert.notEqual(received[0].headers.traceparent, received[1].headers.traceparent);
    }));

  for (const [name, send] of Object.entries({
    fetch: 'fetch(process.env.TARGET, { headers }).then((r) => r.text())',
    'http.get': "new Promise((done) => require('http').get(process.env.TARGET, { headers }, (r) => r.resume().on('end', done)))",
  })) {
    it(`a trace that the handler gives ${name} itself stays`, () =>
      withPublisher(204, async (address, received) => {
        const own = `00-${TRACE.replaceAll('4', '6')}-00f067aa0ba902b7-00`;
        const source = `const headers = { traceparent: '${own}' }; exports.main = () => ${send};`;
        await withServer(setup(source, { TARGET: address }), async (server) => {
          await server.listening();
          await server.request(traced);
        });
        assert.equal(received[0].headers.traceparent, own);
      }));
  }

  it('load nothing of OpenTelemetry', () =>
    withPublisher(204, async (address) => {
      const source = `${twice} exports.main = async () => { await send(); return Object.keys(require.cache).some((file) => /opentelemetry/.test(file)); };`;
      await withServer(setup(source, { TARGET: address }), async (server) => {
        await server.listening();
        assert.equal((await server.request(get)).text, '');
      });
    }));

  it('a request without a server is a failed span', () =>
    withCollector(async (endpoint, spans) => {
      const source = "exports.main = () => new Promise((done) => require('http').get('http://127.0.0.1:1/', () => {}).on('error', () => done()));";
      await withServer(setup(source, { TRACE_COLLECTOR_ENDPOINT: endpoint }), async (server) => {
        await server.listening();
        assert.equal((await server.request(traced)).status, 200);
        server.process.kill('SIGTERM');
        assert.equal(await server.exited, 0);
      });
      checkSpans(spans, [{ kind: 'server', status: 'unset' }, { kind: 'client', status: 'error', attributes: { 'error.type': 'ECONNREFUSED' } }]);
    }));
});

describe('the tracer of a handler', { concurrency: 4 }, () => {
  const nested = (tracer) => `await ${tracer}.startActiveSpan('inner', async (span) => { span.setAttribute('order', 7); span.end(); });`;
  const sources = {
    'event.tracer': ['nodejs22', `exports.main = async (event) => { ${nested('event.tracer')} };`],
    'sdk.getTracer()': ['nodejs26', `const { getTracer } = require('sdk'); exports.main = async (req, res) => { ${nested('getTracer()')} res.send('x'); };`],
    'the global of OpenTelemetry': ['nodejs26', `const api = require(${JSON.stringify(require.resolve('@opentelemetry/api'))});
      const tracer = api.trace.getTracer('mine'); exports.main = async (req, res) => { ${nested('tracer')} res.send('x'); };`],
  };
  for (const [name, [runtime, source]] of Object.entries(sources)) {
    it(`${name} makes spans inside the request's`, () =>
      withCollector(async (endpoint, spans) => {
        await withServer(setup(source, { FUNC_RUNTIME: runtime, TRACE_COLLECTOR_ENDPOINT: endpoint }), async (server) => {
          await server.listening();
          assert.equal((await server.request(traced)).status, 200);
          server.process.kill('SIGTERM');
          assert.equal(await server.exited, 0);
        });
        const inner = spans.find((span) => span.name === 'inner');
        const outer = spans.find((span) => span.kind === 'server');
        assert.deepEqual([inner.parentSpanId, inner.traceId, inner.attributes.order], [outer.spanId, TRACE, 7]);
      }));
  }

  it('works without a collector', () =>
    withServer(setup("exports.main = (event) => event.tracer.startActiveSpan('a', (span) => { span.end(); return span.spanContext().traceId; });"), async (server) => {
      await server.listening();
      assert.equal((await server.request(traced)).text, TRACE);
      assert.match((await server.request({ method: 'GET', path: '/' })).text, /^[0-9a-f]{32}$/);
    }));
});

describe('the collector', { concurrency: 4 }, () => {
  // A wait for the export would take minutes.
  const patient = { OTEL_EXPORTER_OTLP_TIMEOUT: '600000', OTEL_BSP_EXPORT_TIMEOUT: '600000' };

  it('that is unreachable is logged once, and does not delay the end', () =>
    withServer(setup("exports.main = () => 'x';", { TRACE_COLLECTOR_ENDPOINT: 'http://127.0.0.1:1/v1/traces', OTEL_BSP_SCHEDULE_DELAY: '10', ...patient }), async (server) => {
      await server.listening();
      for (let i = 0; i < 20; i += 1) assert.equal((await server.request(traced)).text, 'x');
      server.process.kill('SIGTERM');
      assert.equal(await server.ended(), 0);
      assert.ok(server.output.split('traces are not exported').length <= 2, server.output);
    }));

  it('that never answers does not delay a request or the end', async (t) => {
    const silent = net.createServer(() => {});
    await once(silent.listen(0, '127.0.0.1'), 'listening');
    t.after(() => silent.close());
    const endpoint = `http://127.0.0.1:${silent.address().port}/v1/traces`;
    await withServer(setup("exports.main = () => 'x';", { TRACE_COLLECTOR_ENDPOINT: endpoint, ...patient }), async (server) => {
      await server.listening();
      assert.equal((await server.request(traced)).text, 'x');
      server.process.kill('SIGTERM');
      assert.equal(await server.ended(), 0);
    });
  });

  it('gets spans in batches, without its own requests', async () => {
    let posts = 0;
    const collector = http.createServer((req, res) => {
      posts += 1;
      req.resume().on('end', () => res.end('{}'));
    });
    await once(collector.listen(0, '127.0.0.1'), 'listening');
    try {
      const endpoint = `http://127.0.0.1:${collector.address().port}/v1/traces`;
      // Only the end of the server is a reason to send less than a full batch.
      const environment = { TRACE_COLLECTOR_ENDPOINT: endpoint, OTEL_BSP_SCHEDULE_DELAY: '600000' };
      await withServer(setup("exports.main = () => 'x';", environment), async (server) => {
        await server.listening();
        for (let i = 0; i < 20; i += 1) await server.request(traced);
        server.process.kill('SIGTERM');
        assert.equal(await server.exited, 0);
      });
    } finally {
      collector.closeAllConnections();
      collector.close();
    }
    assert.equal(posts, 1);
  });
});
