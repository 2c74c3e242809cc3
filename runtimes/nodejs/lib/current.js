// The request that the code which runs belongs to.
'use strict';

const { AsyncLocalStorage } = require('node:async_hooks');
const { STRUCTURED, mediaType } = require('./body.js');
const { decodeHeader } = require('./cloudevent.js');

const storage = new AsyncLocalStorage();

const isStructured = (req) => mediaType(req) === STRUCTURED;

const isEvent = (req) => ('ce-type' in req.headers && 'ce-source' in req.headers) || isStructured(req);

// run calls handle for a request.
const run = (req, handle) => storage.run(req, handle);

// request returns the one that is being answered, or undefined.
const request = () => storage.getStore();

// cause returns the id of the event that is being handled, or undefined.
function cause() {
  const req = storage.getStore();
  if (req === undefined || !isEvent(req)) return undefined;
  return isStructured(req) ? req.body?.id : decodeHeader(req.headers['ce-id'] ?? '');
}

module.exports = { cause, request, run };
