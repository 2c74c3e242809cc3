// Calls a handler in a test as the runtime calls it, with an event as the runtime makes it, and records what the handler did.
'use strict'

const { AsyncLocalStorage } = require('node:async_hooks')
const { randomUUID } = require('node:crypto')
const { format } = require('node:util')

// The result of the call that runs.
const current = new AsyncLocalStorage()

const print = console.log
console.log = (...args) => {
  const result = current.getStore()
  if (result) result.logged.push(format(...args))
  else print(...args)
}

// event returns an event with its attributes. Data go through JSON, as on their way to a Function; bytes stay bytes.
exports.event = function ({ type, source, data, id = '1', time = '2026-01-01T00:00:00.000Z', ...attributes }) {
  const bytes = ArrayBuffer.isView(data)
  const content = data === undefined ? {} : { datacontenttype: bytes ? 'application/octet-stream' : 'application/json' }
  return {
    specversion: '1.0', id, time, type, source, ...content, ...attributes,
    ...(data !== undefined && { data: bytes ? data : JSON.parse(JSON.stringify(data)) }),
  }
}

// begin returns an empty result: status, headers and body of the answer, the events that were emitted, and the lines that were logged.
function begin(received) {
  return { status: 200, headers: {}, body: undefined, emitted: [], logged: [], received }
}

// emit records an event with the attributes that the runtime gives it, and refuses what the runtime refuses.
async function emit(result, type, source, data, attributes = {}) {
  for (const [name, value] of [['type', type], ['source', source]]) {
    if (typeof value !== 'string' || value === '') {
      throw new TypeError(`cannot emit a CloudEvent: ${name} must be a non-empty string`)
    }
  }
  const invalid = Object.keys(attributes ?? {}).find((name) => !/^[a-z0-9]+$/.test(name))
  if (invalid !== undefined) {
    throw new TypeError(`cannot emit a CloudEvent: attribute "${invalid}" may have lower-case letters and digits only`)
  }
  const rousehops = String((Number.parseInt(result.received.rousehops, 10) || 0) + 1)
  result.emitted.push({
    specversion: '1.0', id: randomUUID(), time: new Date().toISOString(), ...payload(data),
    rousecause: result.received.id, ...attributes, rousehops, type, source,
  })
  return { status: 204, statusText: 'No Content', headers: {}, data: '' }
}

function payload(data) {
  if (data === undefined || data === null) return {}
  if (ArrayBuffer.isView(data)) {
    const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength)
    return { datacontenttype: 'application/octet-stream', data_base64: bytes.toString('base64') }
  }
  if (typeof data === 'string') return { datacontenttype: 'text/plain', data }
  return { datacontenttype: 'application/json', data: JSON.parse(JSON.stringify(data)) }
}

// response is what handlers use of Express's.
function response(result, ended = () => {}) {
  const end = (body) => {
    if (body !== undefined) result.body = body
    ended()
    return res
  }
  const set = (name, value) => {
    if (typeof name === 'object') Object.entries(name).forEach(([each, its]) => set(each, its))
    else result.headers[name.toLowerCase()] = value
    return res
  }
  const status = (code) => {
    result.status = code
    return res
  }
  const res = {
    get statusCode() { return result.status },
    set statusCode(code) { result.status = code },
    get: (name) => result.headers[name.toLowerCase()],
    type: (type) => set('content-type', type),
    sendStatus: (code) => status(code).end(),
    set, header: set, setHeader: set, status, end, send: end, json: end,
  }
  return res
}

const KEYS = ['type', 'source', 'eventtypeversion', 'specversion', 'id', 'time', 'datacontenttype']

// functionEvent is the first argument of a handler.
function functionEvent(result) {
  const { received } = result
  const res = response(result)
  const event = { extensions: { request: { headers: {}, body: received.data }, response: res } }
  for (const key of KEYS) event[`ce-${key}`] = received[key]
  return Object.assign(event, {
    data: received.data,
    setResponseHeader: (name, value) => res.set(name, value),
    setResponseContentType: (type) => res.type(type),
    setResponseStatus: (status) => res.status(status),
    emitCloudEvent: (...emitted) => emit(result, ...emitted),
    publishCloudEvent: ({ type, source, data, specversion, ...attributes }) => emit(result, type, source, data, attributes),
    buildResponseCloudEvent: (id, type, data) => ({
      type, source: event['ce-source'], eventtypeversion: event['ce-eventtypeversion'] ?? '', specversion: event['ce-specversion'], id, data,
    }),
  })
}

// call calls main with an event, and returns the result. An error of main is the call's.
exports.call = async function (main, event) {
  const result = begin(event)
  const context = { 'function-name': 'x', runtime: 'nodejs22', namespace: 'tickets', timeout: 180, 'body-size-limit': 1 }
  const callback = (body, status, headers) => {
    if (headers) Object.assign(result.headers, headers)
    if (status) result.status = status
    result.body = body
  }
  const value = await current.run(result, () => main(functionEvent(result), context, callback))
  if (value !== undefined) result.body = value
  return result
}
