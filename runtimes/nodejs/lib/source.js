// Locates the handler's file: in the Function's directory, or written from the environment variable with the source.
//
// The variable holds base64 of gzip, because Kubernetes expands `$(X)` and `$$`
// in plain text. The text becomes a real file, so that both module systems,
// `require` and stack traces work as for any other file.
'use strict';

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const zlib = require('node:zlib');

function decode(encoded) {
  try {
    return zlib.gunzipSync(Buffer.from(encoded, 'base64'));
  } catch (error) {
    throw new Error(`FUNC_HANDLER_SOURCE is not base64 of gzip: ${error.message}`, { cause: error });
  }
}

// A root file system may be read-only; every pod has /dev/shm.
function makeDirectory() {
  let failure;
  for (const parent of [os.tmpdir(), '/dev/shm']) {
    try {
      return fs.mkdtempSync(path.join(parent, 'function-'));
    } catch (error) {
      failure ??= error;
    }
  }
  throw new Error(`no directory to write the handler to: ${failure.message}`, { cause: failure });
}

// The possible names of a handler's file in the Function's directory; otherwise package.json names it.
const NAMES = ['handler.js', 'handler.mjs', 'handler.cjs'];

function find(directory) {
  const name = NAMES.find((each) => fs.existsSync(path.join(directory, each)));
  if (name) return path.join(directory, name);
  const { main } = readPackage(path.join(directory, 'package.json'));
  if (main) return path.join(directory, main);
  throw new Error(`there is no ${NAMES.join(', ')} and no package.json with "main" in ${directory}`);
}

function existing(file) {
  if (!fs.existsSync(file)) throw new Error(`there is no file ${file}`);
  return file;
}

function readPackage(file) {
  try {
    return JSON.parse(fs.readFileSync(file, 'utf8'));
  } catch (error) {
    if (error.code === 'ENOENT') return {};
    throw new Error(`cannot read ${file}: ${error.message}`, { cause: error });
  }
}

// The files that a handler written elsewhere must find as if it were in the Function's directory: its
// packages and its package.json, which names the module system.
const SHARED = ['node_modules', 'package.json'];

function write(source, directory, functionDir) {
  fs.mkdirSync(directory);
  for (const name of SHARED) {
    const target = path.join(functionDir, name);
    if (fs.existsSync(target)) fs.symlinkSync(target, path.join(directory, name));
  }
  const file = path.join(directory, 'handler.js');
  fs.writeFileSync(file, source);
  return file;
}

// locate returns the handler's file.
function locate(config, appDir) {
  const functionDir = config.functionPath || path.join(appDir, 'function');
  if (!config.handlerSource) {
    return config.handlerPath ? existing(path.resolve(functionDir, '..', config.handlerPath)) : find(functionDir);
  }
  const source = decode(config.handlerSource);
  const directory = makeDirectory();
  process.once('exit', () => fs.rmSync(directory, { recursive: true, force: true }));
  // Makes `sdk` resolvable from there.
  fs.symlinkSync(path.join(appDir, 'node_modules'), path.join(directory, 'node_modules'));
  return write(source, path.join(directory, 'function'), functionDir);
}

module.exports = { decode, locate };
