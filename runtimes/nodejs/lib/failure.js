// Reports why the handler did not load: on stderr for logs, and in the termination
// message, which Kubernetes puts into the pod's status.
'use strict';

const fs = require('node:fs');

const STACK_LINES = 6;
const MAX_LENGTH = 2000;

// Frames of Node.js and of the server, and the list of the modules that required the handler.
const NOT_THE_USERS = /^\s+at .*(node:internal|[/\\]nodejs[/\\]lib[/\\]|[/\\](bundles[/\\][a-z]+|server)\.js)|^Require stack:|^- /;

// describe returns the message and the first lines of the stack that belong to the user's code.
function describe(error, directory) {
  if (!(error instanceof Error)) {
    return `handler did not load: ${String(error)}`.slice(0, MAX_LENGTH);
  }
  const trace = (error.stack || `${error.name}: ${error.message}`)
    .split('\n')
    .filter((line) => !NOT_THE_USERS.test(line));
  const frames = trace.findIndex((line) => /^\s+at /.test(line));
  const kept = frames < 0 ? trace : trace.slice(0, frames + STACK_LINES);
  const text = `handler did not load: ${kept.join('\n').trim()}`;
  return withoutDirectory(text, directory).slice(0, MAX_LENGTH);
}

// The user knows the file as handler.js, not where the server has put it.
function withoutDirectory(text, directory) {
  return directory ? text.replaceAll(`file://${directory}/`, '').replaceAll(`${directory}/`, '') : text;
}

// report never throws: without a termination log, stderr has the reason.
function report(text, terminationLog) {
  console.error(text);
  try {
    const file = fs.openSync(terminationLog, fs.constants.O_WRONLY | fs.constants.O_TRUNC);
    fs.writeSync(file, text);
    fs.closeSync(file);
  } catch (error) {
    console.error(`termination log not written: ${error.message}`);
  }
}

module.exports = { describe, report };
