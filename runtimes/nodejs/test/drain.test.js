// The server's end and its reports of requests: SIGTERM, request log, late responses, streams.
'use strict';

const assert = require('node:assert/strict');
const http = require('node:http');
const net = require('node:net');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { withServer } = require('./server.js');

const get = { method: 'GET', path: '/' };

const run = (source, environment, use) =>
  withServer({ source, environment: { FUNC_RUNTIME: 'nodejs22', FUNC_NAME: 'f', ...environment } }, async (server) => use(await server.listening()));

// drained resolves once the server takes no new connections.
async function drained(port) {
  for (;;) {
    const socket = net.connect(port, '127.0.0.1');
    const refused = await Promise.race([once(socket, 'connect').then(() => false), once(socket, 'error').then(() => true)]).catch(() => true);
    socket.destroy();
    if (refused) return;
  }
}

describe('SIGTERM', { concurrency: 4 }, () => {
  // The server waits for kept connections sixty times as long as usual, so that no busy machine can be too late.
  it('answers a request on an idle connection and closes the connection', () =>
    run("const real = setInterval; globalThis.setInterval = (f, ms) => real(f, 60 * ms); exports.main = () => 'x';", {}, async (server) => {
      const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
      const first = await server.request({ ...get, agent });
      assert.equal(first.headers.connection, 'keep-alive');
      server.process.kill('SIGTERM');
      await drained(server.port);
      const last = await server.request({ ...get, agent });
      assert.deepEqual([last.text, last.headers.connection], ['x', 'close']);
      assert.equal(await server.exited, 0);
    }));

  it('signals a client with a request in progress that the connection ends', () =>
    run("exports.main = () => new Promise((done) => { process.once('SIGTERM', () => setTimeout(done, 100, 'late')); console.log('began'); });", {}, async (server) => {
      const agent = new http.Agent({ keepAlive: true });
      const busy = server.request({ ...get, agent });
      await server.printed(/began/);
      server.process.kill('SIGTERM');
      const { text, headers } = await busy;
      assert.deepEqual([text, headers.connection], ['late', 'close']);
      assert.equal(await server.exited, 0);
    }));

  it('lets a started response end', () => {
    const source = `exports.main = (req, res) => {
      res.write('a');
      process.once('SIGTERM', () => setTimeout(() => res.end('b'), 1500));
    };`;
    return run(source, { FUNC_RUNTIME: 'nodejs26' }, async (server) => {
      const agent = new http.Agent({ keepAlive: true });
      const request = http.get({ host: '127.0.0.1', port: server.port, path: '/', agent });
      const [response] = await once(request, 'response');
      server.process.kill('SIGTERM');
      let text = '';
      for await (const chunk of response.setEncoding('utf8')) text += chunk;
      assert.equal(text, 'ab');
      assert.equal(await server.exited, 0);
    });
  });

  it('does not wait for a connection that never sent anything', () =>
    run("exports.main = () => 'x';", {}, async (server) => {
      const silent = net.connect(server.port, '127.0.0.1').on('error', () => {});
      await once(silent, 'connect');
      await server.request({ ...get, path: '/healthz' });
      server.process.kill('SIGTERM');
      assert.equal(await server.exited, 0);
    }));

  it('twice ends a busy server at once', () =>
    run("exports.main = () => new Promise(() => { console.log('began'); });", {}, async (server) => {
      server.request(get).catch(() => {});
      await server.printed(/began/);
      server.process.kill('SIGTERM');
      await drained(server.port);
      server.process.kill('SIGTERM');
      assert.equal(await server.exited, 1);
    }));
});

describe('the request log', { concurrency: 4 }, () => {
  const line = /^\S*127\.0\.0\.1 - - \[\d\d\/\w+\/\d{4}:\d\d:\d\d:\d\d \+0000\] "POST \/a\?b=1 HTTP\/1\.1" 200 2 "http:\/\/shop" "curl\/8"$/m;
  const asked = { method: 'POST', path: '/a?b=1', headers: { 'user-agent': 'curl/8', referer: 'http://shop' } };
  const apis = {
    nodejs24: [{ KYMA_INTERNAL_LOGGER_ENABLED: 'true' }, "exports.main = () => ({});"],
    nodejs26: [{ SERVER_INTERNAL_LOGGER: 'true' }, "exports.main = (req, res) => res.json({});"],
  };
  for (const [runtime, [on, source]] of Object.entries(apis)) {
    it(`${runtime} writes Apache's combined format, without probes`, () =>
      run(source, { FUNC_RUNTIME: runtime, ...on }, async (server) => {
        for (const path of ['/healthz', '/.well-known/rouse/load']) await server.request({ ...get, path });
        await server.request(asked);
        await server.printed(line);
        assert.doesNotMatch(server.output, /healthz|rouse\/load/);
      }));

    it(`${runtime} writes nothing by default`, () =>
      run(source, { FUNC_RUNTIME: runtime }, async (server) => {
        await server.request(asked);
        server.process.kill('SIGTERM');
        await server.exited;
        assert.equal(server.output.trim(), `listening on 0.0.0.0:${server.port}`);
      }));
  }
});

describe('a late answer', { concurrency: 4 }, () => {
  const sources = {
    nodejs24: "exports.main = () => new Promise((done) => setTimeout(done, 400, 'late'));",
    nodejs26: "exports.main = (req, res) => new Promise((done) => setTimeout(() => { done(); res.send('late'); }, 400));",
  };
  for (const [runtime, source] of Object.entries(sources)) {
    it(`of ${runtime} is dropped, logged and counted as a failure`, () =>
      run(source, { FUNC_RUNTIME: runtime, FUNC_TIMEOUT: '0.2' }, async (server) => {
        const { status, text, headers } = await server.request({ ...get, path: '/orders?secret=1' });
        assert.deepEqual([status, text, headers.connection], [408, 'Request Timeout', 'close']);
        await server.printed(/GET \/orders: the handler has not answered within 0\.2 s/);
        assert.match((await server.request({ ...get, path: '/metrics' })).text, /^function_failures_total 1$/m);
        // The server still serves after the end of the handler.
        await new Promise((resolve) => setTimeout(resolve, 300));
        assert.equal((await server.request({ ...get, path: '/healthz' })).text, 'OK');
      }));
  }

  it('of a disconnected client is not a failure', () =>
    run("exports.main = () => new Promise((done) => setTimeout(done, 200, 'late'));", {}, async (server) => {
      const request = http.get({ host: '127.0.0.1', port: server.port, path: '/' }).on('error', () => {});
      await server.request({ ...get, path: '/healthz' });
      request.destroy();
      await new Promise((resolve) => setTimeout(resolve, 300));
      assert.match((await server.request({ ...get, path: '/metrics' })).text, /^function_failures_total 0$/m);
    }));
});

describe('the time limit is for silence', { concurrency: 4 }, () => {
  // Longer than the limit in total, with pauses of a fraction of it.
  const parts = (send, end) => `let n = 0; const timer = setInterval(() => { ${send}; if (++n === 12) { clearInterval(timer); ${end}; } }, 250);`;
  const limit = { FUNC_RUNTIME: 'nodejs26', FUNC_TIMEOUT: '2' };

  for (const [name, [runtime, source]] of Object.entries({
    nodejs24: ['nodejs24', `exports.main = ({ extensions: { response: res } }) => new Promise((done) => { ${parts("res.write('x')", 'res.end(); done()')} });`],
    nodejs26: ['nodejs26', `exports.main = (req, res) => { ${parts("res.write('x')", 'res.end()')} };`],
  })) {
    it(`a stream of ${name} that still sends is not cut`, () =>
      run(source, { ...limit, FUNC_RUNTIME: runtime }, async (server) => {
        const { status, text } = await server.request(get);
        assert.deepEqual([status, text], [200, 'x'.repeat(12)]);
        assert.match((await server.request({ ...get, path: '/metrics' })).text, /^function_failures_total 0$/m);
      }));
  }

  it('a body that still arrives is not cut', () =>
    run('exports.main = (req, res) => res.send(String(req.body.length));', limit, async (server) => {
      const request = http.request({ host: '127.0.0.1', port: server.port, method: 'POST', headers: { 'content-type': 'text/plain' } });
      request.write('x');
      for (let i = 0; i < 11; i += 1) {
        await new Promise((resolve) => setTimeout(resolve, 250));
        request.write('x');
      }
      request.end();
      const [response] = await once(request, 'response');
      assert.equal((await response.setEncoding('utf8').toArray()).join(''), '12');
    }));

  it('a body that stops arriving is answered with 408', () =>
    run('exports.main = (req, res) => res.send(req.body);', limit, async (server) => {
      const request = http.request({ host: '127.0.0.1', port: server.port, method: 'POST', headers: { 'content-type': 'text/plain' } });
      request.on('error', () => {}).write('x');
      const [response] = await once(request, 'response');
      assert.equal(response.resume().statusCode, 408);
      await server.printed(/POST \/: nothing of the request has come for 2 s/);
    }));

  it('a stream that stops is cut, logged and counted as a failure', () =>
    run("exports.main = (req, res) => { res.write('x'); };", limit, async (server) => {
      await assert.rejects(server.request({ ...get, path: '/orders?secret=1' }), { code: 'ECONNRESET' });
      await server.printed(/GET \/orders: the handler has sent nothing for 2 s/);
      assert.match((await server.request({ ...get, path: '/metrics' })).text, /^function_failures_total 1$/m);
    }));

  it('a client that does not read its response is disconnected, without a failure', () =>
    run("exports.main = (req, res) => { res.on('close', () => console.log('let go')); res.send('x'.repeat(64 << 20)); };", limit, async (server) => {
      const request = http.get({ host: '127.0.0.1', port: server.port }).on('error', () => {});
      const [response] = await once(request, 'response');
      response.on('error', () => {}).pause();
      await server.printed(/let go/);
      assert.match((await server.request({ ...get, path: '/metrics' })).text, /^function_failures_total 0$/m);
      response.destroy();
    }));

  it('a connection is kept for longer than the limit', () =>
    run("exports.main = (req, res) => res.send('x');", { ...limit, FUNC_TIMEOUT: '0.2' }, async (server) => {
      const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
      await server.request({ ...get, agent });
      const [kept] = Object.values(agent.freeSockets).flat();
      await new Promise((resolve) => setTimeout(resolve, 600));
      assert.equal((await server.request({ ...get, agent })).text, 'x');
      assert.equal(Object.values(agent.freeSockets).flat()[0], kept);
      agent.destroy();
    }));
});
