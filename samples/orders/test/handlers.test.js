// The Node.js handlers of the order chain, called as the runtime calls them.
const test = require('node:test')
const assert = require('node:assert')
const { readFileSync } = require('node:fs')
const path = require('node:path')

const root = path.join(__dirname, '..')

// load takes the handler out of a manifest: the block below "source: |".
function load(manifest) {
  const lines = readFileSync(path.join(root, manifest), 'utf8').split('\n')
  const start = lines.findIndex((line) => line.trim() === 'source: |') + 1
  const indent = lines[start].search(/\S/)
  const length = lines.slice(start).findIndex((line) => line !== '' && line.search(/\S/) < indent)
  const source = lines.slice(start, start + length).map((line) => line.slice(indent)).join('\n')
  const module = { exports: {} }
  new Function('module', 'exports', 'require', source)(module, module.exports, require)
  return module.exports.main
}

// call runs a handler on one event and returns what it answered, emitted and logged.
async function call(t, handler, type, data, emit = async () => {}) {
  const result = { status: 200, emitted: [], logged: [] }
  t.mock.method(console, 'log', (line) => result.logged.push(JSON.parse(line)))
  result.body = await handler({
    data,
    'ce-type': type,
    'ce-id': 'order-1001.received',
    setResponseStatus: (status) => { result.status = status },
    emitCloudEvent: (...event) => { result.emitted.push(event); return emit() },
  }, {})
  return result
}

const sample = (name) => JSON.parse(readFileSync(path.join(root, 'events', name), 'utf8'))

test('an order is priced line by line and in total', async (t) => {
  const { data, type } = sample('order-received.json')
  const result = await call(t, load('pricing.yaml'), type, data)

  assert.equal(result.status, 200)
  assert.deepEqual(result.emitted, [['order.priced', 'pricing', {
    id: 'order-1001',
    lines: [
      { product: 'coffee', quantity: 2, price: 350, amount: 700 },
      { product: 'cake', quantity: 1, price: 420, amount: 420 },
    ],
    net: 1120,
  }, { id: 'order-1001.priced' }]])
  assert.equal(result.logged.length, 1)
  assert.equal(result.logged[0].event, 'order.received')
  assert.equal(result.logged[0].order, 'order-1001')
  assert.ok(!Number.isNaN(Date.parse(result.logged[0].at)))
})

test('an order with an unknown product is refused with the reason, and emits nothing', async (t) => {
  const cases = {
    'unknown product "unicorn"': sample('order-unknown-product.json').data,
    'the order has no id': { lines: [{ product: 'tea', quantity: 1 }] },
    'has no lines': { id: 'o', lines: [] },
    'quantity of tea is not a whole number above 0': { id: 'o', lines: [{ product: 'tea', quantity: 0.5 }] },
    'unknown product undefined': { id: 'o', lines: [null] },
  }
  for (const [reason, order] of [...Object.entries(cases), ['the order has no id', undefined], ['the order has no id', 'text']]) {
    const result = await call(t, load('pricing.yaml'), 'order.received', order)
    assert.equal(result.status, 400, reason)
    assert.ok(result.body.includes(reason), result.body)
    assert.deepEqual(result.emitted, [])
    assert.equal(result.logged.length, 1)
    t.mock.restoreAll()
  }
})

test('an event that cannot be published fails the call, so that the order is delivered again', async (t) => {
  const { data, type } = sample('order-received.json')
  const refuse = async () => { throw new Error('503') }
  await assert.rejects(call(t, load('pricing.yaml'), type, data, refuse), /503/)
})

test('an invoice is recorded in one line', async (t) => {
  const invoice = { id: 'order-1001', invoice: 'INV-order-1001', net: 1120, tax: 213, gross: 1333 }
  const { status, logged } = await call(t, load('recorder.yaml'), 'order.invoiced', invoice)

  assert.equal(status, 200)
  const [{ at, ...line }] = logged
  assert.ok(!Number.isNaN(Date.parse(at)))
  assert.deepEqual(line, { event: 'order.invoiced', order: 'order-1001', invoice: 'INV-order-1001', net: 1120, tax: 213, gross: 1333 })
})

test('what is no invoice is refused', async (t) => {
  const { status, body } = await call(t, load('recorder.yaml'), 'order.invoiced', { id: 'order-1001' })
  assert.equal(status, 400)
  assert.equal(body, 'order order-1001: not an invoice')
})
