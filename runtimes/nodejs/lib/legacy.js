// The API of nodejs20, nodejs22 and nodejs24: main(event, context, callback), whose return value is the response.
'use strict';

const cloudevent = require('./cloudevent.js');
const { mediaType } = require('./body.js');

const EVENT_KEYS = ['type', 'source', 'eventtypeversion', 'specversion', 'id', 'time', 'datacontenttype'];

function createContext(config) {
  return {
    'function-name': config.functionName,
    runtime: config.runtime,
    namespace: config.namespace,
    timeout: config.timeoutSeconds,
    'body-size-limit': config.bodyLimitMb,
  };
}

// FunctionEvent is the handler's first argument. Its functions work unbound, too, as in `({ emitCloudEvent }) => ...`.
class FunctionEvent {
  #tracing;
  #chain;

  constructor(req, res, { publisher, tracing }) {
    this.#tracing = tracing;
    this.extensions = { request: req, response: res };
    this.setResponseHeader = (name, value) => res.set(name, value);
    this.setResponseContentType = (type) => res.type(type);
    this.setResponseStatus = (status) => res.status(status);
    this.emitCloudEvent = (type, source, data, attributes) => publisher.emit(type, source, data, attributes, this.#chain);
    this.publishCloudEvent = ({ type, source, data, specversion, ...attributes }) =>
      publisher.emit(type, source, data, attributes, this.#chain);
    this.buildResponseCloudEvent = (id, type, data) => ({
      type,
      source: this['ce-source'] ?? '',
      eventtypeversion: this['ce-eventtypeversion'] ?? '',
      specversion: this['ce-specversion'] ?? '1.0',
      id,
      data,
    });
    this.#read(req);
  }

  #read(req) {
    const received = cloudevent.parse(req);
    if (received) {
      this.#chain = cloudevent.chained(received.id, received.rousehops);
      for (const key of EVENT_KEYS) this[`ce-${key}`] = received[key];
      this.data = received.data;
    } else if (req.body && !mediaType(req).startsWith('multipart/')) {
      this.data = req.body;
    }
  }

  get tracer() {
    return this.#tracing.tracer();
  }
}

// answer converts the handler's return value to the response, unless the handler has sent one itself.
function answer(res, value) {
  if (res.writableEnded || res.destroyed) return;
  if (typeof value === 'string' && value !== '') {
    if (!res.hasHeader('Content-Type')) res.setHeader('Content-Type', 'text/html; charset=utf-8');
    res.end(value);
  } else if (typeof value === 'object' && value !== null) {
    res.json(value);
  } else if (!value || typeof value === 'function') {
    res.end();
  } else {
    throw new TypeError(`the handler returned a ${typeof value}; return a string or an object`);
  }
}

function answerWith(res, body, status, headers) {
  if (headers) res.set(headers);
  if (status) res.status(status);
  if (!body && status) {
    res.sendStatus(status);
  } else {
    answer(res, body);
  }
}

// An error in the callback fails the call: its caller may be a timer, which would lose the error.
function createCallback(res) {
  return (...args) => {
    try {
      answerWith(res, ...args);
    } catch (error) {
      res.req.next(error);
    }
  };
}

// createInvoke returns a function that calls the handler and responds with its value; its promise rejects if the
// handler fails.
function createInvoke(main, config, parts) {
  const context = createContext(config);
  return (req, res) => {
    const value = main(new FunctionEvent(req, res, parts), { ...context }, createCallback(res));
    if (typeof value?.then === 'function') return value.then((settled) => answer(res, settled));
    answer(res, value);
    return undefined;
  };
}

module.exports = { createInvoke };
