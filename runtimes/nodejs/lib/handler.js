// Loads the user's module, CommonJS or ES module, and picks its `main`.
'use strict';

const fs = require('node:fs');
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

// A handler that was compiled has a map beside it, with which stack traces name the user's files. Without one, maps of
// packages would only cost time.
function mapStackTraces(file) {
  if (fs.existsSync(`${file}.map`)) process.setSourceMapsEnabled(true);
}

const MOST_NAMES = 10;

// missing describes what a module exports instead of main.
function missing(loaded) {
  const text = 'the handler does not export a function named "main"';
  const own = loaded?.default ?? loaded;
  const names = Object.keys(Object(loaded)).filter((name) => name !== 'default' && name !== 'module.exports' && name !== '__esModule');
  const functions = names.filter((name) => typeof loaded[name] === 'function').slice(0, MOST_NAMES);
  if (loaded?.main !== undefined) return `${text}: its main is of type ${typeof loaded.main}`;
  if (functions.length > 0) return `${text}; it exports ${functions.join(', ')}: name the function that takes calls main`;
  if (typeof own === 'function') {
    return `${text}; it exports a function without that name: write "export const main = ..." or "exports.main = ..."`;
  }
  return names.length > 0 ? `${text}; it exports ${names.slice(0, MOST_NAMES).join(', ')}` : `${text}; it exports nothing`;
}

// load returns the handler function, or throws the error that prevents it.
async function load(file, importModule) {
  mapStackTraces(file);
  const loaded = await loadModule(file, importModule);
  const main = loaded?.main ?? loaded?.default?.main;
  if (typeof main !== 'function') {
    throw new TypeError(missing(loaded));
  }
  return main;
}

module.exports = { load };
