// Starts the real server as a child process, and talks to it over real HTTP.
'use strict';

const fs = require('node:fs');
const http = require('node:http');
const os = require('node:os');
const path = require('node:path');
const zlib = require('node:zlib');
const { spawn } = require('node:child_process');
const { once } = require('node:events');

const root = path.join(__dirname, '..');
const contract = path.join(root, '../contract');

// The tests run against the sources with this Node.js, unless these name an image layer's content and another binary.
const node = process.env.RUNTIME_NODE || process.execPath;
const app = process.env.RUNTIME_APP || root;

const image = JSON.parse(fs.readFileSync(path.join(root, 'image.json')));
const flags = image.entrypoint.slice(1, -1);

const START_TIMEOUT_MS = 120_000;
const END_TIMEOUT_MS = 60_000;

const encode = (source) => zlib.gzipSync(source).toString('base64');

const readHandler = (handler, file) => fs.readFileSync(path.join(contract, 'handlers', handler, file));

async function answerTo(request) {
  const [response] = await once(request, 'response');
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) text += chunk;
  return { status: response.statusCode, headers: response.headers, text };
}

async function sendTo(port, { method, path: target, headers, body, bodyLength, agent }) {
  const content = bodyLength ? Buffer.alloc(bodyLength, body || 'x') : body;
  const options = { host: '127.0.0.1', port, method, path: target, agent, headers: { ...headers } };
  if (content !== undefined) options.headers['content-length'] = Buffer.byteLength(content);
  const request = http.request(options);
  request.end(content);
  return answerTo(request);
}

// hold sends a request without its body's last byte, and returns a function that sends it and reads the response.
function hold(port, { method, path: target, headers, body }) {
  const content = Buffer.from(body);
  const request = http.request({ host: '127.0.0.1', port, method, path: target, headers: { ...headers, 'content-length': content.length } });
  request.flushHeaders();
  request.write(content.subarray(0, -1));
  return () => {
    request.end(content.subarray(-1));
    return answerTo(request);
  };
}

// Server is one running server; `listening` sets its port.
class Server {
  constructor(environment, directoryOfApp) {
    this.directory = fs.mkdtempSync(path.join(os.tmpdir(), 'runtime-test-'));
    this.terminationLog = path.join(this.directory, 'termination-log');
    fs.writeFileSync(this.terminationLog, '');
    this.output = '';
    this.process = spawn(node, [...flags, path.join(directoryOfApp, 'server.js')], {
      cwd: this.directory,
      // An additional descriptor for a server that has to report its port.
      stdio: Array(environment.FUNC_READY_FD ? 4 : 3).fill('pipe'),
      env: { PATH: process.env.PATH, TMPDIR: this.directory, TERMINATION_LOG_PATH: this.terminationLog, FUNC_PORT: '0', ...environment },
    });
    // 'close' and not 'exit': at 'close', all output has arrived.
    this.exited = once(this.process, 'close').then(([code]) => code);
    // The text of the descriptor until the server closes it.
    this.portText = this.process.stdio[3]?.setEncoding('latin1').toArray().then((parts) => parts.join(''));
    for (const stream of [this.process.stdout, this.process.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        this.output += text;
        this.process.emit('output');
      });
    }
  }

  async listening() {
    this.port = Number((await this.printed(/listening on .*:(\d+)/))[1]);
    return this;
  }

  // printed resolves with the match once the server's output has one.
  async printed(pattern) {
    const deadline = AbortSignal.timeout(START_TIMEOUT_MS);
    for (;;) {
      const match = pattern.exec(this.output);
      if (match) return match;
      if (this.process.exitCode !== null) throw new Error(`server ended: ${this.output}`);
      await Promise.race([once(this.process, 'output', { signal: deadline }), this.exited]);
    }
  }

  // ended resolves with the exit code of a server that must not wait for a client.
  async ended() {
    const deadline = AbortSignal.timeout(END_TIMEOUT_MS);
    const late = once(deadline, 'abort').then(() => { throw new Error(`server does not end: ${this.output}`); });
    return Promise.race([this.exited, late]);
  }

  request(request) {
    return sendTo(this.port, request);
  }

  hold(request) {
    return hold(this.port, request);
  }

  terminationMessage() {
    return fs.readFileSync(this.terminationLog, 'utf8');
  }

  async stop() {
    this.process.kill('SIGKILL');
    await this.exited;
    fs.rmSync(this.directory, { recursive: true, force: true });
  }
}

// withServer starts a server for a handler's source, and ends it after the test.
async function withServer({ source, environment, app: other = app }, use) {
  const server = new Server({ ...(source && { FUNC_HANDLER_SOURCE: encode(source) }), ...environment }, other);
  try {
    return await use(server);
  } finally {
    await server.stop();
  }
}

// withPublisher runs a local publisher that answers every event with the same status and headers and keeps requests.
async function withPublisher(status, use, answer = {}) {
  const events = [];
  const publisher = http.createServer((req, res) => {
    let body = '';
    req.setEncoding('utf8').on('data', (chunk) => (body += chunk));
    req.on('end', () => {
      events.push({ method: req.method, type: req.headers['content-type'], headers: req.headers, body });
      res.writeHead(status, answer).end();
    });
  });
  await once(publisher.listen(0, '127.0.0.1'), 'listening');
  try {
    return await use(`http://127.0.0.1:${publisher.address().port}/publish`, events);
  } finally {
    publisher.closeAllConnections();
    publisher.close();
  }
}

module.exports = { START_TIMEOUT_MS, app, contract, encode, image, readHandler, root, sendTo, withPublisher, withServer };
