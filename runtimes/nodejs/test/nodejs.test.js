// Features of the Node.js runtimes only: module systems, the callback, CORS, stray errors, bodies and return values.
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { app, encode, image, root, withPublisher, withServer } = require('./server.js');

const get = { method: 'GET', path: '/' };

const ask = (source, request = get, environment = {}) =>
  withServer({ source, environment: { FUNC_RUNTIME: 'nodejs22', FUNC_NAME: 'f', ...environment } }, async (server) => {
    await server.listening();
    return { ...(await server.request(request)), server };
  });

describe('module systems', { concurrency: 4 }, () => {
  const cases = {
    'CommonJS with exports.main': "exports.main = () => 'ok';",
    'ES module with a named export': "export const main = () => 'ok';",
    'ES module with a default export': "export default { main: () => 'ok' };",
    'ES module with top-level await': "const text = await Promise.resolve('ok');\nexport const main = () => text;",
    'ES module that imports the sdk by name': "import { getFunctionName } from 'sdk';\nexport const main = () => getFunctionName() && 'ok';",
    'ES module that imports the sdk as a whole': "import sdk from 'sdk';\nexport const main = () => sdk.getFunctionName() && 'ok';",
    'CommonJS that imports at call time': "exports.main = async () => { const sdk = await import('sdk'); return sdk.getFunctionName() && 'ok'; };",
    'CommonJS with a byte order mark': "\ufeffexports.main = () => 'ok';",
  };
  for (const [name, source] of Object.entries(cases)) {
    it(name, async () => {
      const { status, text, server } = await ask(source);
      assert.deepEqual([status, text], [200, 'ok']);
      assert.equal(server.output.trim(), `listening on 0.0.0.0:${server.port}`, 'nothing else is printed');
    });
  }

  it('a file at HANDLER_PATH is loaded with its package type', async (t) => {
    const directory = fs.mkdtempSync(path.join(require('node:os').tmpdir(), 'handler-'));
    t.after(() => fs.rmSync(directory, { recursive: true }));
    fs.writeFileSync(path.join(directory, 'package.json'), '{"type": "module"}');
    fs.writeFileSync(path.join(directory, 'other.js'), "export const text = 'from a file';");
    fs.writeFileSync(path.join(directory, 'handler.js'), "import { text } from './other.js';\nexport const main = () => text;");
    const { text } = await ask(undefined, get, { HANDLER_PATH: path.join(directory, 'handler.js') });
    assert.equal(text, 'from a file');
  });

  it('a missing file is a load failure', () =>
    withServer({ environment: { HANDLER_PATH: '/no/such/handler.js' } }, async (server) => {
      assert.equal(await server.exited, 1);
      assert.match(server.terminationMessage(), /no\/such\/handler\.js/);
    }));

  it('a module that waits forever is a load failure', () =>
    withServer({ source: 'await new Promise(() => {});\nexport const main = () => 1;' }, async (server) => {
      assert.equal(await server.exited, 1);
      assert.match(server.terminationMessage(), /^handler did not load/);
    }));

  it('a source that is not gzip is a load failure', () =>
    withServer({ environment: { FUNC_HANDLER_SOURCE: 'bm90IGd6aXA=' } }, async (server) => {
      assert.equal(await server.exited, 1);
      assert.match(server.terminationMessage(), /FUNC_HANDLER_SOURCE is not base64 of gzip/);
    }));

  it('the reason names file and line of the user, and no path of the server', () =>
    withServer({ source: 'const a = 1;\nrequire("no-such-package");' }, async (server) => {
      assert.equal(await server.exited, 1);
      assert.match(server.terminationMessage(), /handler\.js:2/);
      assert.ok(!server.terminationMessage().includes(app), server.terminationMessage());
    }));
});

describe('the legacy API', { concurrency: 4 }, () => {
  const post = (type, body) => ({ method: 'POST', path: '/', headers: { 'content-type': type }, body });
  const data = 'exports.main = ({ data }) => ({ kind: data === undefined ? "none" : Buffer.isBuffer(data) ? "bytes" : typeof data, data });';
  const cases = {
    'an array is JSON': ['exports.main = () => [1, 2];', get, 200, '[1,2]'],
    'a false value is an empty answer': ['exports.main = () => 0;', get, 200, ''],
    'a function is an empty answer': ['exports.main = () => () => 1;', get, 200, ''],
    'a number is refused': ['exports.main = () => 7;', get, 500, 'Internal server error'],
    'a thrown string is the body': ["exports.main = async () => { throw 'out of stock'; };", get, 500, 'out of stock'],
    'a synchronous exception is 500': ["exports.main = () => { throw new Error('x'); };", get, 500, 'Internal server error'],
    'an answer made with the response object stands': ["exports.main = (e) => { e.extensions.response.status(202).send('mine'); return 'other'; };", get, 202, 'mine'],
    'the status can be set for an empty answer': ['exports.main = (e) => { e.extensions.response.status(204); };', get, 204, ''],
    'the callback answers': ["exports.main = (e, c, callback) => { callback('body', 201, { 'x-a': 'b' }); };", get, 201, 'body'],
    'the callback with a status alone sends its text': ['exports.main = (e, c, callback) => { callback(null, 404); };', get, 404, 'Not Found'],
    'a form is an object': [data, post('application/x-www-form-urlencoded', 'a[b]=1'), 200, '{"kind":"object","data":{"a":{"b":"1"}}}'],
    'other bodies are bytes': ['exports.main = ({ data }) => ({ bytes: Buffer.isBuffer(data), text: String(data) });', post('application/octet-stream', 'xyz'), 200, '{"bytes":true,"text":"xyz"}'],
    'no body is no data': [data, { method: 'POST', path: '/' }, 200, '{"kind":"none"}'],
    'a JSON primitive is taken': [data, post('application/json', '7'), 200, '{"kind":"number","data":7}'],
    'multipart is not data': [data, post('multipart/form-data; boundary=x', '--x--'), 200, '{"kind":"none"}'],
    'data_base64 gives bytes': [
      'exports.main = ({ data }) => String(Buffer.isBuffer(data) && data);',
      post('application/cloudevents+json', JSON.stringify({ specversion: '1.0', id: '1', type: 't', source: 's', data_base64: 'eHl6' })), 200, 'xyz',
    ],
  };
  for (const [name, [source, request, status, text]] of Object.entries(cases)) {
    it(name, async () => {
      const answer = await ask(source, request);
      assert.deepEqual([answer.status, answer.text], [status, text]);
    });
  }
});

describe('an answer that cannot be made', { concurrency: 4 }, () => {
  const circular = 'const a = {}; a.a = a;';
  const cases = {
    'of the handler': ['nodejs24', `exports.main = () => { ${circular} return a; };`],
    'of a promise': ['nodejs24', `exports.main = async () => { ${circular} return a; };`],
    'with a number that is no JSON': ['nodejs24', 'exports.main = () => ({ a: 1n });'],
    'of the callback': ['nodejs24', `exports.main = (e, c, callback) => { ${circular} callback(a); };`],
    'of a callback while the handler waits': ['nodejs24', `exports.main = (e, c, callback) => new Promise(() => setImmediate(() => { ${circular} callback(a, 201); }));`],
    'of a callback with headers that are none': ['nodejs24', "exports.main = (e, c, callback) => new Promise(() => setImmediate(() => callback('a', 201, { 'x y': 'b' })));"],
    'with the response object': ['nodejs26', `exports.main = (req, res) => { ${circular} res.json(a); };`],
    'with the response object, later': ['nodejs26', `exports.main = async (req, res) => { ${circular} await null; res.json(a); };`],
  };
  for (const [name, [runtime, source]] of Object.entries(cases)) {
    it(`${name} is a failure`, () =>
      withServer({ source, environment: { FUNC_RUNTIME: runtime } }, async (server) => {
        await server.listening();
        const { status, text } = await server.request(get);
        assert.deepEqual([status, text], [500, 'Internal server error']);
        assert.match((await server.request({ ...get, path: '/metrics' })).text, /^function_failures_total 1$/m);
      }));
  }
});

describe('a value that main(req, res) returns', { concurrency: 4 }, () => {
  const hint = 'send the value with res.send(value)';
  const cases = {
    'with no response is told once': ["exports.main = () => 'x';", 1],
    'later, with no response, is told once': ['exports.main = async () => ({ a: 1 });', 1],
    'beside a response is not told': ["exports.main = (req, res) => { res.send('x'); return 'x'; };", 0],
    'of a timer is not told': ["exports.main = (req, res) => setTimeout(() => res.send('x'), 10);", 0],
    'of Express is not told': ["exports.main = async (req, res) => res.status(200).send('x');", 0],
  };
  for (const [name, [source, times]] of Object.entries(cases)) {
    it(name, () =>
      withServer({ source, environment: { FUNC_RUNTIME: 'nodejs26', FUNC_TIMEOUT: '0.5' } }, async (server) => {
        await server.listening();
        for (let call = 0; call < 2; call += 1) await server.request(get);
        server.process.kill('SIGTERM');
        await server.ended();
        assert.equal(server.output.split(hint).length - 1, times, server.output);
      }));
  }
});

describe('the server', { concurrency: 4 }, () => {
  it('allows every origin', async () => {
    const { headers } = await ask("exports.main = () => 'x';");
    assert.equal(headers['access-control-allow-origin'], '*');
  });

  it('answers a preflight itself', async () => {
    const headers = { 'access-control-request-method': 'PUT', 'access-control-request-headers': 'x-a' };
    const answer = await ask("exports.main = () => { throw 'no'; };", { method: 'OPTIONS', path: '/', headers });
    assert.deepEqual([answer.status, answer.text], [200, '']);
    assert.equal(answer.headers['access-control-allow-methods'], 'PUT');
    assert.equal(answer.headers['access-control-allow-headers'], 'x-a');
  });

  it('survives an error in a callback of the handler', () =>
    withServer({ source: "exports.main = () => { setImmediate(() => { throw new Error('stray'); }); Promise.reject(new Error('lost')); return 'ok'; };", environment: { FUNC_RUNTIME: 'nodejs22' } }, async (server) => {
      await server.listening();
      assert.equal((await server.request(get)).text, 'ok');
      assert.equal((await server.request(get)).text, 'ok');
      await server.printed(/Caught exception: .*stray/);
      await server.printed(/Caught exception: .*lost/);
    }));

  it('leaves nothing in the temporary directory', () =>
    withServer({ source: "exports.main = () => 'x';" }, async (server) => {
      await server.listening();
      server.process.kill('SIGTERM');
      assert.equal(await server.exited, 0);
      assert.deepEqual(fs.readdirSync(server.directory), ['termination-log']);
    }));

  it('works without a writable temporary directory', () =>
    withServer({ source: "exports.main = () => 'x';", environment: { FUNC_RUNTIME: 'nodejs22', TMPDIR: '/proc/self' } }, async (server) => {
      await server.listening();
      assert.equal((await server.request(get)).text, 'x');
      server.process.kill('SIGTERM');
      assert.equal(await server.exited, 0);
    }));

  it('sends an event again when the publisher has closed the idle connection', async (t) => {
    let connections = 0;
    // Answers the first request of a connection, and drops the connection at the second.
    const publisher = net.createServer((socket) => {
      connections += 1;
      let requests = 0;
      socket.on('error', () => {});
      socket.on('data', (chunk) => {
        if (!String(chunk).includes('POST ')) return;
        requests += 1;
        if (requests === 1) socket.write('HTTP/1.1 204 No Content\r\n\r\n');
        else socket.resetAndDestroy();
      });
    });
    await once(publisher.listen(0, '127.0.0.1'), 'listening');
    t.after(() => publisher.close());
    const source = "exports.main = (e) => e.emitCloudEvent('t', 's', 'text').then((r) => ({ status: r.status }));";
    const environment = { FUNC_RUNTIME: 'nodejs22', PUBLISHER_PROXY_ADDRESS: `http://127.0.0.1:${publisher.address().port}` };
    await withServer({ source, environment }, async (server) => {
      await server.listening();
      for (let i = 0; i < 3; i += 1) assert.equal((await server.request(get)).text, '{"status":204}');
    });
    assert.equal(connections, 3);
  });

  it('publishes an event that was built as the answer to another', () =>
    withPublisher(204, async (address, events) => {
      const source = "exports.main = async (e) => { await e.publishCloudEvent(e.buildResponseCloudEvent('7', 'order.priced', { a: 1 })); };";
      const headers = { 'ce-id': '1', 'ce-type': 'order.received', 'ce-source': 'shop', 'ce-eventtypeversion': 'v1' };
      await ask(source, { method: 'POST', path: '/', headers }, { PUBLISHER_PROXY_ADDRESS: address });
      const { time, ...event } = JSON.parse(events[0].body);
      assert.deepEqual(event, {
        specversion: '1.0', id: '7', type: 'order.priced', source: 'shop', eventtypeversion: 'v1', rousecause: '1', rousehops: '1', datacontenttype: 'application/json', data: { a: 1 },
      });
    }));

  it('rejects an event without a type', async () => {
    const source = "exports.main = (e) => e.emitCloudEvent('', 's', {}).catch((error) => error.message);";
    const { text } = await ask(source, get, { PUBLISHER_PROXY_ADDRESS: 'http://127.0.0.1:1' });
    assert.equal(text, 'cannot emit a CloudEvent: type must be a non-empty string');
  });

  it('reports a missing publisher', async () => {
    const source = "exports.main = (e) => e.emitCloudEvent('t', 's', {}).catch((error) => error.message);";
    assert.match((await ask(source)).text, /PUBLISHER_PROXY_ADDRESS is not set/);
    assert.match((await ask(source, get, { PUBLISHER_PROXY_ADDRESS: 'http://127.0.0.1:1' })).text, /cannot reach the publisher/);
  });
});

describe('the image', () => {
  const dockerfile = fs.readFileSync(path.join(root, 'Dockerfile'), 'utf8');

  it('starts the same way from the Dockerfile and from image.json', () => {
    const entrypoint = JSON.parse(/^ENTRYPOINT (.*)$/m.exec(dockerfile)[1]);
    assert.deepEqual(entrypoint, image.entrypoint);
    assert.equal(/^WORKDIR (.*)$/m.exec(dockerfile.split('\nFROM ').at(-1))[1], image.workdir);
    assert.equal(/^USER (.*)$/m.exec(dockerfile)[1], image.user);
    assert.equal(/^EXPOSE (.*)$/m.exec(dockerfile)[1], String(image.port));
    for (const [name, value] of Object.entries(image.env)) {
      assert.ok(dockerfile.includes(`ENV ${name}=${value}\n`), name);
    }
  });
});

// Checks the helper: the tests send the same as the controller.
it('the source travels as base64 of gzip', () => {
  assert.equal(require('../lib/source.js').decode(encode('x $$ y')).toString(), 'x $$ y');
});
