// Starts a Function: load the handler, and only then listen, so that a server which accepts can serve.
'use strict';

const http = require('node:http');
const config = require('./config.js').fromEnv(process.env);
const { createApp } = require('./app.js');
const { createSdk } = require('./sdk.js');
const { describe, report } = require('./failure.js');
const { Drain } = require('./drain.js');
const { load } = require('./handler.js');
const { locate } = require('./source.js');
const { Publisher } = require('./publisher.js');

// Longer than clients keep an idle connection, so that it is they who close it.
const KEEP_ALIVE_MS = 120_000;

const publisher = new Publisher(config.publisherAddress);
const sdk = createSdk(config, publisher);

function fail(text) {
  report(text, config.terminationLog);
  process.exit(1);
}

// A handler can end the process, or wait for what never comes, while it loads; neither throws.
function watchForSilentEnd(drain) {
  const onExit = (code) => {
    if (drain.begun) return;
    process.exitCode = 1;
    const text = `handler did not load: the process ended with code ${code} before the module was ready`;
    report(text, config.terminationLog);
  };
  process.once('exit', onExit);
  return () => process.off('exit', onExit);
}

async function loadHandler(appDir, importModule, drain) {
  const stopWatching = watchForSilentEnd(drain);
  let directory;
  try {
    const located = locate(config, appDir);
    directory = located.directory;
    return await load(located.file, importModule);
  } catch (error) {
    stopWatching();
    return fail(describe(error, directory));
  } finally {
    stopWatching();
  }
}

function listen(main, drain) {
  const server = http.createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, createApp(main, config, publisher));
  drain.attach(server);
  server.on('error', (error) => fail(`cannot listen on ${config.host}:${config.port}: ${error.message}`));
  server.listen(config.port, config.host, () => {
    console.log(`listening on ${config.host}:${server.address().port}`);
  });
  return server;
}

// start resolves with the server, which then is about to listen.
async function start(appDir, importModule) {
  const drain = new Drain(['SIGTERM', 'SIGINT']);
  const main = await loadHandler(appDir, importModule, drain);
  // A stray error in a handler's callback must not end the requests of others.
  process.on('uncaughtException', (error) => console.error('Caught exception:', error));
  return listen(main, drain);
}

module.exports = { sdk, start };
