// The server reports its port to the process that starts it on a shared machine.
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { withServer } = require('./server.js');

const source = "exports.main = (first, res) => (res?.send ? res.send('here') : 'here');";

async function refuses(host, port) {
  const socket = net.connect(port, host);
  try {
    await once(socket, 'connect');
    return false;
  } catch (error) {
    return error.code === 'ECONNREFUSED';
  } finally {
    socket.destroy();
  }
}

describe('a server that is asked for its port', () => {
  for (const runtime of ['nodejs22', 'nodejs26']) {
    it(`writes it in ${runtime} once it serves, and listens for this machine only`, async () => {
      const environment = { FUNC_RUNTIME: runtime, FUNC_READY_FD: '3', SERVER_HOST: '0.0.0.0', SERVER_PORT: '9' };
      await withServer({ source, environment }, async (server) => {
        const text = await server.portText;
        assert.match(text, /^\d+\n$/);
        server.port = Number(text);
        assert.equal((await server.request({ method: 'GET', path: '/' })).text, 'here');
        assert.ok(await refuses('127.0.0.2', server.port));
      });
    });
  }

  it('writes nothing when the handler does not load', async () => {
    await withServer({ source: 'throw new Error("no");', environment: { FUNC_READY_FD: '3' } }, async (server) => {
      assert.equal(await server.portText, '');
      assert.equal(await server.ended(), 1);
      assert.match(server.terminationMessage(), /no/);
    });
  });

  it('does not run when the port cannot be written', async () => {
    await withServer({ source, environment: { FUNC_READY_FD: '999' } }, async (server) => {
      assert.equal(await server.ended(), 1);
      assert.match(server.terminationMessage(), /FUNC_READY_FD=999/);
    });
  });

  it('listens everywhere on a port of its own choice without FUNC_PORT=0', async () => {
    await withServer({ source, environment: { FUNC_READY_FD: '3', FUNC_PORT: '00' } }, async (server) => {
      await server.printed(/listening on 0\.0\.0\.0:/);
    });
  });

  it('finds its handler in FUNCTION_PATH', async () => {
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'function-path-'));
    try {
      fs.writeFileSync(path.join(directory, 'handler.js'), source);
      await withServer({ environment: { FUNC_READY_FD: '3', FUNCTION_PATH: directory } }, async (server) => {
        server.port = Number(await server.portText);
        assert.equal((await server.request({ method: 'GET', path: '/' })).text, 'here');
      });
    } finally {
      fs.rmSync(directory, { recursive: true });
    }
  });
});
