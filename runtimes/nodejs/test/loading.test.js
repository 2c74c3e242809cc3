// The Function's directory in an image or a volume: packages, package.json and the handler's file.
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { execFileSync } = require('node:child_process');
const { after, before, describe, it } = require('node:test');
const { root, withServer } = require('./server.js');

const get = { method: 'GET', path: '/' };

const aPackage = {
  'node_modules/left/package.json': '{"name": "left", "version": "1.0.0", "main": "index.js"}',
  'node_modules/left/index.js': "exports.side = 'left of ' + require('right');",
  'node_modules/right/index.js': "module.exports = 'right';",
};

const withPackage = (files) => ({ ...aPackage, 'package.json': '{"dependencies": {"left": "1"}}', ...files });

// The packages of Kyma's images.
const PROVIDED = [
  '@opentelemetry/api', '@opentelemetry/exporter-prometheus', '@opentelemetry/exporter-trace-otlp-http', '@opentelemetry/instrumentation',
  '@opentelemetry/instrumentation-express', '@opentelemetry/instrumentation-http', '@opentelemetry/propagator-b3', '@opentelemetry/sdk-metrics',
  '@opentelemetry/sdk-trace-base', '@opentelemetry/sdk-trace-node', 'axios', 'body-parser', 'cloudevents', 'co', 'express', 'morgan', 'mz',
];

// Every request of a handler carries a trace, and so do spans that it makes with a package of the image.
const withApi = (load) => `${load}
  export const main = () => api.trace.getTracer('mine').startActiveSpan('a', (span) => {
    const sent = {};
    api.propagation.inject(api.context.active(), sent);
    return sent.traceparent.includes(span.spanContext().traceId) + ' ' + api.isSpanContextValid(span.spanContext());
  });`;

const CASES = {
  'packages that Kyma\'s images bring, required': {
    source: `const loaded = ${JSON.stringify(PROVIDED)}.map((name) => require(name)); exports.main = () => 'all ' + loaded.length;`,
    want: `all ${PROVIDED.length}`,
  },
  'packages that Kyma\'s images bring, imported': {
    source: PROVIDED.map((name, i) => `import * as p${i} from '${name}';`).join('\n') + "\nexport const main = () => 'all';",
    want: 'all',
  },
  'axios, which sends requests': {
    source: `import axios from 'axios'; import http from 'node:http';
      const server = http.createServer((req, res) => res.end(typeof req.headers.traceparent)).listen(0, '127.0.0.1').unref();
      export const main = async () => (await axios.get('http://127.0.0.1:' + server.address().port)).data;`,
    want: 'string',
  },
  'nothing of them that is not asked for': {
    source: "exports.main = () => String(Object.keys(require.cache).filter((file) => file.includes('node_modules')));",
    want: '',
  },
  'the API of OpenTelemetry, which then works': { source: withApi("import api from '@opentelemetry/api';"), want: 'true true' },
  'handler.js with packages that Kyma\'s images bring': {
    files: { 'handler.js': "exports.main = () => typeof require('axios').get;" },
    want: 'function',
  },
  'a source that requires a package': {
    source: "exports.main = () => require('left').side;",
    files: withPackage(),
    want: 'left of right',
  },
  'a source that imports a package': {
    source: "import { side } from 'left';\nimport sdk from 'sdk';\nexport const main = () => side + sdk.getFunctionName();",
    files: withPackage(),
    want: 'left of rightf',
  },
  'a source whose package.json says that it is an ES module': {
    source: 'export const main = () => typeof require;',
    files: withPackage({ 'package.json': '{"type": "module"}' }),
    want: 'undefined',
  },
  'a source that reads its package.json': {
    source: "exports.main = () => require('./package.json').version;",
    files: { 'package.json': '{"version": "1.2.3"}' },
    want: '1.2.3',
  },
  'packages with names of the server\'s own': {
    source: `const api = require('@opentelemetry/api');
      exports.main = (e) => [require('express'), api, typeof e.tracer.startSpan, typeof e.extensions.response.json].join(' ');`,
    files: {
      'node_modules/express/index.js': "module.exports = 'my express';",
      'node_modules/@opentelemetry/api/index.js': "module.exports = 'my api';",
      'node_modules/body-parser/index.js': "throw new Error('not this one');",
    },
    want: 'my express my api function function',
  },
  'handler.js': { files: withPackage({ 'handler.js': "exports.main = () => require('left').side;" }), want: 'left of right' },
  'handler.js that is an ES module by package.json': {
    files: withPackage({ 'package.json': '{"type": "module"}', 'handler.js': "import { side } from 'left';\nexport const main = () => side;" }),
    want: 'left of right',
  },
  'handler.mjs': { files: { 'handler.mjs': "export const main = () => 'mjs';" }, want: 'mjs' },
  'handler.cjs beside type module': {
    files: { 'package.json': '{"type": "module"}', 'handler.cjs': "exports.main = () => 'cjs';" },
    want: 'cjs',
  },
  'the main of package.json': {
    files: { 'package.json': '{"main": "lib/start.js"}', 'lib/start.js': "exports.main = () => require('./more.js');", 'lib/more.js': "module.exports = 'more';" },
    want: 'more',
  },
  'handler.js rather than the main of package.json': {
    files: { 'package.json': '{"main": "index.js"}', 'index.js': "exports.main = () => 'index';", 'handler.js': "exports.main = () => 'handler';" },
    want: 'handler',
  },
};

const FAILURES = {
  'no handler': { files: { 'package.json': '{}' }, want: /there is no handler\.js, handler\.mjs, handler\.cjs and no package\.json with "main"/ },
  'an unreadable package.json': { files: { 'package.json': '{' }, want: /cannot read .*package\.json/ },
  'a missing package': { files: { 'handler.js': "require('left');" }, want: /Cannot find module 'left'\n *at handler\.js|Cannot find module 'left'/ },
  'an error in a package': {
    source: "exports.main = require('bad');",
    files: { 'node_modules/bad/index.js': "throw new Error('bad package');" },
    want: /bad package/,
  },
};

describe('the directory of the Function', { concurrency: 4 }, () => {
  let template;

  // Always as in an image, because the directory lies in the server's.
  before(() => {
    template = fs.mkdtempSync(path.join(os.tmpdir(), 'app-'));
    if (process.env.RUNTIME_APP) fs.cpSync(process.env.RUNTIME_APP, template, { recursive: true, verbatimSymlinks: true });
    else execFileSync(process.execPath, [path.join(root, 'build.js'), template]);
  });

  after(() => fs.rmSync(template, { recursive: true, force: true }));

  // All except the packages is a copy; the server's packages are many, and only read.
  function copyTo(app) {
    const packages = path.join(template, 'node_modules');
    fs.cpSync(template, app, { recursive: true, verbatimSymlinks: true, filter: (file) => !file.startsWith(packages + path.sep) });
    for (const name of fs.readdirSync(packages)) {
      const own = name === 'sdk'; // sdk is beside its server
      fs.symlinkSync(own ? '../sdk' : path.join(packages, name), path.join(app, 'node_modules', name));
    }
  }

  async function withDirectory({ source, files = {} }, use) {
    const app = fs.mkdtempSync(path.join(os.tmpdir(), 'app-'));
    try {
      copyTo(app);
      for (const [name, content] of Object.entries(files)) {
        const file = path.join(app, 'function', name);
        fs.mkdirSync(path.dirname(file), { recursive: true });
        fs.writeFileSync(file, content);
      }
      await withServer({ source, app, environment: { FUNC_RUNTIME: 'nodejs22', FUNC_NAME: 'f' } }, use);
    } finally {
      fs.rmSync(app, { recursive: true, force: true });
    }
  }

  for (const [name, { want, ...test }] of Object.entries(CASES)) {
    it(name, () =>
      withDirectory(test, async (server) => {
        await server.listening();
        const { status, text } = await server.request(get);
        assert.deepEqual([status, text], [200, want], server.output);
      }));
  }

  for (const [name, { want, ...test }] of Object.entries(FAILURES)) {
    it(`${name} is a load failure`, () =>
      withDirectory(test, async (server) => {
        assert.equal(await server.exited, 1);
        assert.match(server.terminationMessage(), want);
      }));
  }
});
