// Loads the user's module, CommonJS or ES module, and picks its `main`.
'use strict';

const { pathToFileURL } = require('node:url');

const NEEDS_IMPORT = new Set(['ERR_REQUIRE_ESM', 'ERR_REQUIRE_ASYNC_MODULE']);

// require() is tried first: it is faster, and accepts most ES modules, too.
async function loadModule(file, importModule) {
  try {
    return require(file);
  } catch (error) {
    if (!NEEDS_IMPORT.has(error?.code)) {
      throw error;
    }
  }
  return importModule(pathToFileURL(file));
}

// load returns the handler function, or throws the error that prevents it.
async function load(file, importModule) {
  const loaded = await loadModule(file, importModule);
  const main = loaded?.main ?? loaded?.default?.main;
  if (typeof main !== 'function') {
    throw new TypeError('the handler does not export a function named "main"');
  }
  return main;
}

module.exports = { load };
