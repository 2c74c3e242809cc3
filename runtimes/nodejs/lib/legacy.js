// The API of nodejs20, nodejs22 and nodejs24: main(event, context, callback), whose return value is the answer.
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

function describeInput(req) {
  const received = cloudevent.parse(req);
  if (received) {
    const keys = Object.fromEntries(EVENT_KEYS.map((key) => [`ce-${key}`, received[key]]));
    return { ...keys, data: received.data };
  }
  return req.body && !mediaType(req).startsWith('multipart/') ? { data: req.body } : {};
}

function createEvent(req, res, publisher) {
  const input = describeInput(req);
  return {
    ...input,
    extensions: { request: req, response: res },
    setResponseHeader: (name, value) => res.set(name, value),
    setResponseContentType: (type) => res.type(type),
    setResponseStatus: (status) => res.status(status),
    emitCloudEvent: (type, source, data, attributes) => publisher.emit(type, source, data, attributes),
    publishCloudEvent: ({ type, source, data, specversion, ...attributes }) =>
      publisher.emit(type, source, data, attributes),
    buildResponseCloudEvent: (id, type, data) => ({
      type,
      source: input['ce-source'] ?? '',
      eventtypeversion: input['ce-eventtypeversion'] ?? '',
      specversion: input['ce-specversion'] ?? '1.0',
      id,
      data,
    }),
  };
}

// answer turns what the handler returned into the response, unless the handler has answered by itself.
function answer(res, value) {
  if (res.writableEnded || res.destroyed) return;
  if (typeof value === 'string' && value !== '') {
    if (!res.get('Content-Type')) res.type('html');
    res.end(value);
  } else if (typeof value === 'object' && value !== null) {
    res.json(value);
  } else if (!value || typeof value === 'function') {
    res.end();
  } else {
    throw new TypeError(`the handler returned a ${typeof value}; return a string or an object`);
  }
}

function createCallback(res) {
  return (body, status, headers) => {
    if (headers) res.set(headers);
    if (status) res.status(status);
    if (!body && status) {
      res.sendStatus(status);
    } else {
      answer(res, body);
    }
  };
}

// middleware calls the handler once per request; what it throws goes to the error handler.
function middleware(main, config, publisher) {
  const context = createContext(config);
  return async (req, res) => {
    const event = createEvent(req, res, publisher);
    answer(res, await main(event, { ...context }, createCallback(res)));
  };
}

module.exports = { middleware };
