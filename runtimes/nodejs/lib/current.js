// The request to which the running code belongs.
'use strict';

const { AsyncLocalStorage } = require('node:async_hooks');
const { STRUCTURED, mediaType } = require('./body.js');
const { chained, decodeHeader } = require('./cloudevent.js');

const storage = new AsyncLocalStorage();

const isStructured = (req) => mediaType(req) === STRUCTURED;

const isEvent = (req) => ('ce-type' in req.headers && 'ce-source' in req.headers) || isStructured(req);

// run calls handle for a request.
const run = (req, handle) => storage.run(req, handle);

// request returns the current request, or undefined.
const request = () => storage.getStore();

// chain returns the extensions of events that the handler emits for the current event, or undefined.
function chain() {
  const req = storage.getStore();
  if (req === undefined || !isEvent(req)) return undefined;
  if (isStructured(req)) return chained(req.body?.id, req.body?.rousehops);
  return chained(decodeHeader(req.headers['ce-id'] ?? ''), req.headers['ce-rousehops']);
}

module.exports = { chain, request, run };
