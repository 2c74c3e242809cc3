// Dispatches requests: the reserved paths, preflight, the body, and then the handler.
'use strict';

const { hasBody, parser } = require('./body.js');
const { Calls } = require('./calls.js');
const { Load } = require('./load.js');
const { createMessages } = require('./messages.js');
const { preflight, sendError, sendStatus, sendTimeout } = require('./respond.js');

function pathOf(url) {
  const query = url.indexOf('?');
  return query < 0 ? url : url.slice(0, query);
}

function createReserved(metrics, load) {
  return {
    '/healthz': (req, res) => {
      res.setHeader('Content-Type', 'text/plain; charset=utf-8');
      res.end('OK');
    },
    '/favicon.ico': (req, res) => {
      res.statusCode = 204;
      res.end();
    },
    '/metrics': (req, res) => {
      metrics.render().then(
        ({ type, text }) => {
          res.setHeader('Content-Type', type);
          res.end(text);
        },
        (error) => sendError(res, error),
      );
    },
    '/.well-known/rouse/load': (req, res) => {
      res.setHeader('Content-Type', 'application/json');
      res.setHeader('Cache-Control', 'no-store');
      res.end(load.text());
    },
  };
}

// silent returns the start of a message about a call's silence; the duration follows.
function silent({ invoked, res }) {
  if (invoked === 0) return 'nothing of the request has come for';
  return res.headersSent ? 'the handler has sent nothing for' : 'the handler has not answered within';
}

// Dispatcher is the listener of the HTTP server; invoke(req, res) calls the handler and returns its promise, if any.
class Dispatcher {
  #invoke;
  #parse;
  #reserved;
  #metrics;
  #tracing;
  #log;
  #draining = false;

  constructor({ invoke, config, metrics, tracing, log }) {
    this.#invoke = invoke;
    this.#parse = parser(config.bodyLimitMb);
    this.load = new Load();
    this.#reserved = Object.assign(Object.create(null), createReserved(metrics, this.load));
    this.#metrics = metrics;
    this.#tracing = tracing;
    this.#log = log;
    this.calls = new Calls(config.timeoutSeconds, {
      expire: (call) => this.#expire(call, config.timeoutSeconds),
      ended: (call, now) => this.#ended(call, now),
    });
    this.messages = createMessages((req, error) => this.#passOn(req, error));
    this.listener = (req, res) => this.#receive(req, res);
  }

  // drain makes every connection end with its next response.
  drain() {
    this.#draining = true;
    for (const { res } of this.calls) res.shouldKeepAlive = false;
  }

  #receive(req, res) {
    if (this.#draining) res.shouldKeepAlive = false;
    const { method } = req;
    if (method === 'GET' || method === 'HEAD') {
      const own = this.#reserved[pathOf(req.url)];
      if (own !== undefined) {
        own(req, res);
        return;
      }
    }
    this.load.received();
    if (this.#log !== undefined) this.#log(req, res);
    res.setHeader('Access-Control-Allow-Origin', '*');
    if (method === 'OPTIONS') {
      preflight(req, res);
      return;
    }
    this.#call(this.calls.begin(req, res));
  }

  #call(call) {
    const { req, res } = call;
    call.sender = this.load.begin(req);
    call.trace = this.#tracing.begin(req);
    if (!hasBody(req)) {
      this.#run(call);
      return;
    }
    this.#parse(req, res, (error) => {
      if (error) this.#fail(call, error);
      else this.#run(call);
    });
  }

  #run(call) {
    this.#tracing.run(call, () => this.#handle(call));
  }

  #handle(call) {
    call.invoked = performance.now();
    this.#metrics.called();
    try {
      const pending = this.#invoke(call.req, call.res);
      if (pending !== undefined) pending.then(undefined, (error) => this.#fail(call, error));
    } catch (error) {
      this.#fail(call, error);
    }
  }

  #fail(call, error, status) {
    call.error ??= error ?? new Error('the handler failed without a reason');
    if (status >= 400 && status < 500) sendStatus(call.res, status);
    else sendError(call.res, error);
  }

  #expire(call, seconds) {
    const { req, res } = call;
    if (res.writableEnded || req.socket.writableLength > 0) { // the client does not read the response
      req.socket.destroy();
      return;
    }
    call.error = new Error(`${silent(call)} ${seconds} s`);
    console.error(`${req.method} ${pathOf(req.url)}: ${call.error.message}`);
    sendTimeout(res);
  }

  #ended(call, now) {
    this.load.end(call.sender);
    if (call.invoked !== 0) this.#metrics.ended(now - call.invoked, call.error !== undefined);
    if (call.trace !== undefined) call.trace.end(call.res.statusCode, call.error);
  }

  // As Express does at the end of its middleware.
  #passOn(req, error) {
    const call = this.calls.of(req.res);
    if (error) this.#fail(call, error, error.status);
    else sendStatus(req.res, 404);
  }
}

module.exports = { Dispatcher };
