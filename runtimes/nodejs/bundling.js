// Changes that the bundler makes to packages, so that a cold start does no work that a request may never need.
'use strict';

const fs = require('node:fs');

// Loaded by the first call instead of by the start.
const LATER = ['cookie-signature', 'etag', 'finalhandler', 'http-errors', 'qs', 'router', 'send'];

const laterSource = (name) => `
const load = () => require(${JSON.stringify(name)});
module.exports = new Proxy(function later() {}, {
  apply: (_, self, args) => Reflect.apply(load(), self, args),
  construct: (_, args) => Reflect.construct(load(), args),
  get: (_, key) => load()[key],
});`;

const later = {
  name: 'later',
  setup({ onLoad, onResolve }) {
    const filter = new RegExp(`^(${LATER.join('|')})$`);
    onResolve({ filter }, ({ path, importer, namespace, resolveDir }) =>
      namespace === 'later' || !/[/\\]express[/\\]lib[/\\]/.test(importer)
        ? undefined
        : { path, namespace: 'later', pluginData: resolveDir });
    onLoad({ filter: /.*/, namespace: 'later' }, ({ path, pluginData }) => ({
      contents: laterSource(path),
      resolveDir: pluginData,
    }));
  },
};

// Switches for developers of Express; each use costs time at the start.
const SILENT = {
  debug: 'module.exports = () => Object.assign(() => {}, { enabled: false });',
  depd: 'module.exports = () => Object.assign(() => {}, { function: (fn) => fn, property: () => {} });',
};

const silent = {
  name: 'silent',
  setup({ onLoad, onResolve }) {
    onResolve({ filter: /^(debug|depd)$/ }, ({ path }) => ({ path, namespace: 'silent' }));
    onLoad({ filter: /.*/, namespace: 'silent' }, ({ path }) => ({ contents: SILENT[path] }));
  },
};

// mime-types fills its tables from a database at every start. Here the build fills them, and the first request that
// needs them reads them.
const mimeTypes = {
  name: 'mime-types',
  setup({ onLoad }) {
    onLoad({ filter: /[/\\]mime-types[/\\]index\.js$/ }, ({ path: file }) => {
      const { types, extensions } = require(file);
      const table = (name, value) => `
Object.defineProperty(exports, '${name}', {
  configurable: true,
  get() {
    const value = Object.assign(Object.create(null), JSON.parse(${JSON.stringify(JSON.stringify(value))}));
    Object.defineProperty(exports, '${name}', { value });
    return value;
  },
});
`;
      return {
        contents: replace(file, [
          ["\nvar db = require('mime-db')\n", '\n'],
          ['match && db[', "match && require('mime-db')["],
          ['\nexports.extensions = Object.create(null)\n', table('extensions', extensions)],
          ['\nexports.types = Object.create(null)\n', table('types', types)],
          ['\npopulateMaps(exports.extensions, exports.types)\n', '\n'],
        ]),
      };
    });
  },
};

function replace(file, pairs) {
  let source = fs.readFileSync(file, 'utf8');
  for (const [from, to] of pairs) {
    if (!source.includes(from)) throw new Error(`${file} is not as expected: ${from.trim()}`);
    source = source.replace(from, () => to);
  }
  return source;
}

module.exports = { plugins: [later, silent, mimeTypes] };
