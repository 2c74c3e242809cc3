// Starts a Function: load the handler, and only then listen, so that a server that accepts can serve.
'use strict';

const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const { fromEnv } = require('./config.js');
const current = require('./current.js');
const { Dispatcher } = require('./dispatch.js');
const { Drain } = require('./drain.js');
const { describe, report } = require('./failure.js');
const { load } = require('./handler.js');
const legacy = require('./legacy.js');
const { Metrics } = require('./metrics.js');
const modern = require('./modern.js');
const { Publisher } = require('./publisher.js');
const { createSdk } = require('./sdk.js');
const { locate } = require('./source.js');
const { Tracing } = require('./tracing.js');

// Longer than clients keep an idle connection, so that the client closes it.
const KEEP_ALIVE_MS = 120_000;

// While it loads, a handler can end the process or wait forever; neither throws.
function watchForSilentEnd(drain, terminationLog) {
  const onExit = (code) => {
    if (drain.begun) return;
    process.exitCode = 1;
    const text = `handler did not load: the process ended with code ${code} before the module was ready`;
    report(text, terminationLog);
  };
  process.once('exit', onExit);
  return () => process.off('exit', onExit);
}

// Server is a Function's server: its parts, and the steps from a source to a listening port.
class Server {
  #config;
  #loadPart;
  #publisher;
  #tracing;

  constructor(config, loadPart) {
    this.#config = config;
    this.#loadPart = loadPart;
    this.#publisher = new Publisher(config.publisherAddress, config.publisherTokenFile);
    this.#tracing = new Tracing(config, loadPart);
    this.sdk = createSdk(config, this.#publisher, this.#tracing);
  }

  // start resolves with the HTTP server just before it listens. release frees the port where another server has it.
  async start(appDir, importModule, release = () => {}) {
    const drain = new Drain(['SIGTERM', 'SIGINT']);
    const main = await this.#loadHandler(appDir, importModule, drain);
    this.#tracing.join();
    // A stray error in a handler's callback must not end the requests of others.
    process.on('uncaughtException', (error) => console.error('Caught exception:', error));
    release();
    return this.#listen(main, drain);
  }

  #fail(text) {
    report(text, this.#config.terminationLog);
    process.exit(1);
  }

  // The process that started the server gets the port; when the port cannot be written, the start fails.
  #writePort(descriptor, port) {
    try {
      fs.writeSync(descriptor, `${port}\n`);
      fs.closeSync(descriptor);
    } catch (error) {
      this.#fail(`cannot write to FUNC_READY_FD=${descriptor}: ${error.message}`);
    }
  }

  async #loadHandler(appDir, importModule, drain) {
    const stopWatching = watchForSilentEnd(drain, this.#config.terminationLog);
    let file;
    try {
      file = locate(this.#config, appDir);
      return await load(file, importModule);
    } catch (error) {
      stopWatching();
      return this.#fail(describe(error, file && path.dirname(file)));
    } finally {
      stopWatching();
    }
  }

  #createDispatcher(main) {
    const config = this.#config;
    const parts = { publisher: this.#publisher, tracing: this.#tracing };
    return new Dispatcher({
      invoke: config.modern ? modern.createInvoke(main) : legacy.createInvoke(main, config, parts),
      config,
      metrics: new Metrics(config.functionName, this.#loadPart),
      tracing: this.#tracing,
      log: config.requestLog ? this.#loadPart('requestlog').createLog() : undefined,
    });
  }

  #listen(main, drain) {
    const { host, port, ready } = this.#config;
    const dispatcher = this.#createDispatcher(main);
    const server = http.createServer({ keepAliveTimeout: KEEP_ALIVE_MS, ...dispatcher.messages }, dispatcher.listener);
    drain.attach(server, dispatcher, () => this.#tracing.flush());
    dispatcher.load.watch(server);
    server.on('error', (error) => this.#fail(`cannot listen on ${host}:${port}: ${error.message}`));
    server.listen(port, host, () => {
      console.log(`listening on ${host}:${server.address().port}`);
      if (ready !== undefined) this.#writePort(ready, server.address().port);
    });
    return server;
  }
}

// create returns the server for this process. loadPart(name) loads a file of parts/, which a start may not need.
const create = (loadPart) => new Server(fromEnv(process.env), loadPart);

// createPlain returns an HTTP server that calls main for each request, without traces, logs and a publisher.
function createPlain(main) {
  const config = fromEnv(process.env);
  const tracing = { begin: () => undefined, run: ({ req }, handle) => current.run(req, handle) };
  const invoke = config.modern ? modern.createInvoke((req, res) => res.end(main())) : legacy.createInvoke(main, config, { tracing });
  const dispatcher = new Dispatcher({ invoke, config, tracing, metrics: new Metrics('') });
  return http.createServer(dispatcher.messages, dispatcher.listener);
}

module.exports = { create, createPlain };
