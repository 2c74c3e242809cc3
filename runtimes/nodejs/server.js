// Entry point: runs the bundles that build.js made, or lib/ where there are none.
//
// Compiling Express and its packages takes more than half of a cold start, so
// an image carries one file with V8's code cache beside it, one cache for each
// Node.js version. A cache that V8 refuses only costs the compilation that it
// would have saved. Parts that most starts do not need are in separate files.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const vm = require('node:vm');

const bundles = path.join(__dirname, 'bundles');

// A code cache contains the script's name; with the name in an image, the cache is the same wherever it is built.
const NAMED = '/usr/src/app/bundles';

function readIfThere(file) {
  try {
    return fs.readFileSync(file);
  } catch {
    return undefined;
  }
}

// The scripts run so far, by file name, for warm.js.
const scripts = new Map();

// A bundle is ASCII, and latin1 is the fastest way to read it.
function loadBundle(name) {
  const file = path.join(bundles, `${name}.js`);
  const source = readIfThere(file);
  if (!source) return undefined;
  const script = new vm.Script(source.toString('latin1'), {
    filename: `${NAMED}/${name}.js`,
    cachedData: readIfThere(`${file}.${process.version}.cache`),
  });
  scripts.set(file, script);
  const mod = { exports: {} };
  script.runInThisContext()(require, mod, mod.exports);
  return mod.exports;
}

const { create, createPlain } = loadBundle('main') ?? require('./lib/main.js');
const loadPart = (name) => loadBundle(name) ?? require(`./lib/parts/${name}.js`);

let server;

// start resolves with the Function's HTTP server just before it listens. release is called before that.
// A bundle runs as a separate script, where import() is not available.
function start(appDir, release) {
  server = create(loadPart);
  return server.start(appDir, (url) => import(url), release);
}

module.exports = {
  get sdk() {
    return server.sdk;
  },
  start,
  scripts,
};

if (require.main === module) {
  if (process.env.FUNC_STAND_IN) {
    loadPart('standin').wait(process.env, createPlain, (release) => start(__dirname, release));
  } else {
    start(__dirname);
  }
}
