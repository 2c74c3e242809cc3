// Reads a CloudEvent, binary or structured, from a request whose body is parsed.
//
// A Function starts mostly for an event, and loading the cloudevents package
// would add a third to the time from start to handler. So the two forms are read
// here, and the package is loaded only for a handler that uses a CloudEvent
// object.
'use strict';

const { STRUCTURED, mediaType } = require('./body.js');

const REQUIRED = ['id', 'source', 'type'];
const VERSIONS = ['1.0', '0.3'];

class MalformedEventError extends Error {
  constructor(message) {
    super(message);
    this.name = 'MalformedEventError';
    this.status = 400;
    this.expose = true;
  }
}

// Loaded by the first event that needs an id.
const randomUUID = () => require('node:crypto').randomUUID();

// Header values are percent-encoded in the HTTP binding.
function decodeHeader(value) {
  if (!value.includes('%')) return value;
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}

function fromHeaders(req) {
  const event = {};
  for (const name of Object.keys(req.headers)) {
    if (name.startsWith('ce-')) {
      event[name.slice(3)] = decodeHeader(req.headers[name]);
    }
  }
  event.datacontenttype = req.headers['content-type'];
  event.data = req.body;
  return event;
}

function fromBody(body) {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new MalformedEventError('malformed CloudEvent: the body is not a JSON object');
  }
  const { data_base64: encoded, ...event } = body;
  if (typeof encoded === 'string') {
    event.data = Buffer.from(encoded, 'base64');
  }
  event.id ??= randomUUID();
  return event;
}

// parse returns the event's attributes and data, or null when the request is not a CloudEvent.
function parse(req) {
  const structured = mediaType(req) === STRUCTURED;
  if (!structured && !(req.headers['ce-type'] && req.headers['ce-source'])) {
    return null;
  }
  const event = structured ? fromBody(req.body) : fromHeaders(req);
  for (const name of REQUIRED) {
    if (typeof event[name] !== 'string' || event[name] === '') {
      throw new MalformedEventError(`malformed CloudEvent: attribute "${name}" is missing`);
    }
  }
  event.specversion ??= '1.0';
  if (!VERSIONS.includes(event.specversion)) {
    const version = typeof event.specversion === 'string' ? event.specversion.slice(0, 20) : typeof event.specversion;
    throw new MalformedEventError(`malformed CloudEvent: specversion "${version}" is unknown; it has to be 1.0`);
  }
  event.time ??= new Date().toISOString();
  return event;
}

// toCloudEvent returns the event as an object of the cloudevents package, or null for a request without a valid event.
function toCloudEvent(req) {
  try {
    const event = parse(req);
    if (!event) return null;
    const { CloudEvent } = require('cloudevents');
    return new CloudEvent(event, false);
  } catch {
    return null;
  }
}

// The extensions that identify a chain of events and limit its length.
const CAUSE = 'rousecause';
const HOPS = 'rousehops';
const MOST_HOPS = 1_000_000;

// chained returns the extensions of events that the handler of an event emits: the event's id, and the number of events
// before.
function chained(id, hops) {
  const known = typeof hops === 'string' || typeof hops === 'number'; // JSON may contain an object without a text form
  const before = known ? Math.min(Math.max(Number.parseInt(hops, 10) || 0, 0), MOST_HOPS) : 0;
  return { ...(id && { [CAUSE]: id }), [HOPS]: String(before + 1) };
}

// build returns the event that a handler emits, with defaults for missing attributes. chain is the result of chained if
// an event is being handled; the handler cannot shorten the chain.
function build(type, source, data, attributes = {}, chain = undefined) {
  for (const [name, value] of [['type', type], ['source', source]]) {
    if (typeof value !== 'string' || value === '') {
      throw new TypeError(`cannot emit a CloudEvent: ${name} must be a non-empty string`);
    }
  }
  const invalid = Object.keys(attributes ?? {}).find((name) => !/^[a-z0-9]+$/.test(name));
  if (invalid !== undefined) {
    throw new TypeError(`cannot emit a CloudEvent: attribute "${invalid}" may have lower-case letters and digits only`);
  }
  return {
    specversion: '1.0',
    id: randomUUID(),
    time: new Date().toISOString(),
    ...payload(data),
    ...chain,
    ...attributes,
    ...(chain && { [HOPS]: chain[HOPS] }),
    type,
    source,
  };
}

function payload(data) {
  if (data === undefined || data === null) return {};
  if (ArrayBuffer.isView(data)) {
    const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    return { datacontenttype: 'application/octet-stream', data_base64: bytes.toString('base64') };
  }
  return { datacontenttype: typeof data === 'string' ? 'text/plain' : 'application/json', data };
}

module.exports = { STRUCTURED, build, chained, decodeHeader, parse, toCloudEvent };
