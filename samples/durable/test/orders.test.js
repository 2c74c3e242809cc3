// The Function between Restate's server and its SDK, of which a stand-in records what it gets.
const test = require('node:test')
const assert = require('node:assert')
const { readFileSync } = require('node:fs')
const path = require('node:path')

// load runs the source of the manifest with a stand-in for the SDK.
function load(fetch) {
  const lines = readFileSync(path.join(__dirname, '..', 'orders.yaml'), 'utf8').split('\n')
  const start = lines.findIndex((line) => line.trim() === 'source: |') + 1
  const indent = lines[start].search(/\S/)
  const length = lines.slice(start).findIndex((line) => line !== '' && line.search(/\S/) < indent)
  const source = lines.slice(start, start + length).map((line) => line.slice(indent)).join('\n')
  const bound = []
  const sdk = {
    workflow: (definition) => definition,
    endpoint: () => ({ bind: (definition) => { bound.push(definition); return { handler: () => ({ fetch }) } } }),
  }
  const module = { exports: {} }
  new Function('module', 'exports', 'require', source)(module, module.exports, () => sdk)
  return { main: module.exports.main, order: bound[0] }
}

function response() {
  const sent = { headers: {} }
  return Object.assign(sent, {
    status: (code) => { sent.code = code },
    setHeader: (name, value) => { sent.headers[name] = value },
    end: (body) => { sent.body = body },
  })
}

test('each step is done once, around the wait', async () => {
  const steps = []
  const ctx = {
    key: 'order-7',
    run: (name, step) => { steps.push(name); return step() },
    sleep: (duration) => { steps.push(duration) },
  }
  const result = await load().order.handlers.run(ctx, { days: 30 })
  assert.deepStrictEqual(steps, ['reserve the goods', { days: 30, seconds: 0 }, 'ship them'])
  assert.deepStrictEqual(result, { order: 'order-7', parcel: 'parcel for the reservation of order-7' })
})

test('the bytes of a call reach the SDK, and its answer the caller', async () => {
  const calls = []
  const { main } = load(async (request) => {
    calls.push({ url: request.url, method: request.method, type: request.headers.get('content-type'), body: Buffer.from(await request.arrayBuffer()) })
    return new Response(new Uint8Array([0, 255, 7]), { status: 201, headers: { 'content-type': 'application/vnd.restate' } })
  })
  const res = response()
  const body = Buffer.from([1, 0, 254])
  await main({ originalUrl: '/invoke/order/run', method: 'POST', headers: { 'content-type': 'application/octet-stream' }, body }, res)
  assert.deepStrictEqual(calls, [{ url: 'http://orders/invoke/order/run', method: 'POST', type: 'application/octet-stream', body }])
  assert.strictEqual(res.code, 201)
  assert.strictEqual(res.headers['content-type'], 'application/vnd.restate')
  assert.deepStrictEqual(res.body, Buffer.from([0, 255, 7]))
})

test('a discovery has no body', async () => {
  const { main } = load(async (request) => Response.json({ method: request.method, body: request.body }))
  const res = response()
  await main({ originalUrl: '/discover', method: 'GET', headers: {}, body: undefined }, res)
  assert.deepStrictEqual(JSON.parse(res.body), { method: 'GET', body: null })
})
