// Where the handler's file is: in the image, or written from the environment variable that carries it.
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

// A root file system may be read-only; /dev/shm is there in every pod.
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

// locate returns the handler's file and, when it wrote that file, the directory it made for it.
function locate(config, appDir) {
  if (!config.handlerSource) {
    return { file: path.resolve(appDir, config.handlerPath) };
  }
  const source = decode(config.handlerSource);
  const directory = makeDirectory();
  process.once('exit', () => fs.rmSync(directory, { recursive: true, force: true }));

  const file = path.join(directory, 'handler.js');
  fs.writeFileSync(file, source);
  // Makes `sdk` resolvable from there.
  fs.symlinkSync(path.join(appDir, 'node_modules'), path.join(directory, 'node_modules'));
  return { file, directory };
}

module.exports = { decode, locate };
