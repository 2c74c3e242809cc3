// Entry point: runs the bundle that build.js made, or lib/main.js where there is none.
//
// Compiling Express and what it needs costs more than half of a cold start, so
// an image carries one file with V8's code cache beside it, one cache for each
// Node.js version. A cache that V8 refuses only costs the compilation it would
// have saved.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const vm = require('node:vm');

const bundle = path.join(__dirname, 'bundle.js');

function readIfThere(file) {
  try {
    return fs.readFileSync(file);
  } catch {
    return undefined;
  }
}

// The bundle is ASCII, which latin1 reads quickest.
function loadBundle(source) {
  const script = new vm.Script(source.toString('latin1'), {
    filename: bundle,
    cachedData: readIfThere(`${bundle}.${process.version}.cache`),
  });
  const mod = { exports: {} };
  script.runInThisContext()(require, mod, mod.exports);
  return { ...mod.exports, script };
}

const source = readIfThere(bundle);
const { sdk, start, script } = source ? loadBundle(source) : require('./lib/main.js');

// The bundle runs as a script of its own, where import() is not available.
const importModule = (url) => import(url);

module.exports = { sdk, start, script };

if (require.main === module) {
  start(__dirname, importModule);
}
