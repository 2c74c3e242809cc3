// The token of a Function: only the publisher gets it.
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { describe, it } = require('node:test');
const { withCollector } = require('./collector.js');
const { withPublisher, withServer } = require('./server.js');

const get = { method: 'GET', path: '/' };
const EMIT = {
  nodejs22: "exports.main = (e) => e.emitCloudEvent('t', 's', {}).then(({ status }) => ({ status }), (error) => require('util').inspect(error));",
  nodejs26: "const sdk = require('sdk'); exports.main = (req, res) => sdk.emitCloudEvent('t', 's', {}).then(({ status }) => res.json({ status }));",
};

// mount is a directory of tokens as the kubelet makes it: the file is a link, and a new token changes its target.
function mount(t) {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'token-'));
  t.after(() => fs.rmSync(directory, { recursive: true }));
  let times = 0;
  const file = path.join(directory, 'token');
  fs.symlinkSync('..data/token', file);
  const write = (token) => {
    const version = `..${(times += 1)}`;
    fs.mkdirSync(path.join(directory, version));
    fs.writeFileSync(path.join(directory, version, 'token'), token);
    fs.symlinkSync(version, path.join(directory, '..new'));
    fs.renameSync(path.join(directory, '..new'), path.join(directory, '..data'));
  };
  return { file, write, remove: () => fs.rmSync(path.join(directory, '..data')) };
}

const shown = (events) => events.map(({ headers }) => headers.authorization);

describe('the token for the publisher', { concurrency: 4 }, () => {
  for (const [runtime, source] of Object.entries(EMIT)) {
    it(`is sent by ${runtime}, and replaced`, (t) =>
      withPublisher(204, async (address, events) => {
        const { file, write, remove } = mount(t);
        const environment = { FUNC_RUNTIME: runtime, PUBLISHER_PROXY_ADDRESS: address, PUBLISHER_TOKEN_FILE: file };
        await withServer({ source, environment }, async (server) => {
          await server.listening();
          const emit = async () => assert.equal((await server.request(get)).text, '{"status":204}');
          await emit(); // before the kubelet replaces the token
          write('header.first.signature\n');
          await emit();
          await emit();
          write('header.other.signature\n');
          await emit();
          remove();
          await emit();
        });
        assert.deepEqual(shown(events), [
          undefined, 'Bearer header.first.signature', 'Bearer header.first.signature',
          'Bearer header.other.signature', 'Bearer header.other.signature',
        ]);
      }));
  }

  const nothing = { 'no variable': undefined, 'no file': '/no/such/token', 'a directory': os.tmpdir() };
  for (const [name, file] of Object.entries(nothing)) {
    it(`is not there with ${name}`, () =>
      withPublisher(204, async (address, events) => {
        const environment = { FUNC_RUNTIME: 'nodejs22', PUBLISHER_PROXY_ADDRESS: address, ...(file && { PUBLISHER_TOKEN_FILE: file }) };
        await withServer({ source: EMIT.nodejs22, environment }, async (server) => {
          await server.listening();
          assert.equal((await server.request(get)).text, '{"status":204}');
        });
        assert.deepEqual(shown(events), [undefined]);
      }));
  }

  for (const [name, content] of Object.entries({ 'is empty': ' \n', 'has two lines': 'two\r\nlines', 'is too long': 'x'.repeat(8193) })) {
    it(`is not a file that ${name}`, (t) =>
      withPublisher(204, async (address, events) => {
        const { file, write } = mount(t);
        write(content);
        const environment = { FUNC_RUNTIME: 'nodejs22', PUBLISHER_PROXY_ADDRESS: address, PUBLISHER_TOKEN_FILE: file };
        await withServer({ source: EMIT.nodejs22, environment }, async (server) => {
          await server.listening();
          assert.equal((await server.request(get)).text, '{"status":204}');
        });
        assert.deepEqual(shown(events), [undefined]);
      }));
  }

  it('goes only to the publisher: not after a redirect, and not with the requests of the handler', (t) =>
    withPublisher(204, (elsewhere, strangers) =>
      withPublisher(307, async (address, events) => {
        const { file, write } = mount(t);
        write('header.first.signature');
        const source = `exports.main = async (e) => {
          process.env.PUBLISHER_PROXY_ADDRESS = process.env.ELSEWHERE;
          await fetch(process.env.ELSEWHERE, { method: 'POST', body: '{}' });
          return e.emitCloudEvent('t', 's', {}).catch((error) => require('util').inspect(error));
        };`;
        const environment = { FUNC_RUNTIME: 'nodejs22', PUBLISHER_PROXY_ADDRESS: address, PUBLISHER_TOKEN_FILE: file, ELSEWHERE: elsewhere };
        await withServer({ source, environment }, async (server) => {
          await server.listening();
          const { text } = await server.request({ ...get, headers: { 'ce-id': '1', 'ce-type': 't', 'ce-source': elsewhere, 'ce-specversion': '1.0' } });
          assert.match(text, /publisher answered 307/);
          assert.ok(!text.includes('signature'), text);
        });
        assert.deepEqual(shown(events), ['Bearer header.first.signature']);
        assert.deepEqual(shown(strangers), [undefined]);
      }, { location: elsewhere })));

  it('is in no error, log or span', (t) =>
    withCollector((endpoint, spans) =>
      withPublisher(401, async (address, events) => {
        const { file, write } = mount(t);
        write('header.first.signature');
        const source = "exports.main = (e) => { e.emitCloudEvent('t', 's', {}); return e.emitCloudEvent('t', 's', {}); };";
        const environment = {
          FUNC_RUNTIME: 'nodejs22', FUNC_NAME: 'f', KYMA_INTERNAL_LOGGER_ENABLED: 'true',
          PUBLISHER_PROXY_ADDRESS: address, PUBLISHER_TOKEN_FILE: file, TRACE_COLLECTOR_ENDPOINT: endpoint,
        };
        await withServer({ source, environment }, async (server) => {
          await server.listening();
          const { status, text } = await server.request(get);
          assert.equal(status, 500);
          await server.printed(/publisher answered 401/);
          server.process.kill('SIGTERM');
          assert.equal(await server.exited, 0);
          for (const output of [text, server.output, JSON.stringify(spans)]) assert.ok(!output.includes('signature'), output);
        });
        assert.equal(spans.length, 3);
        assert.deepEqual(new Set(shown(events)), new Set(['Bearer header.first.signature']));
      })));
});
