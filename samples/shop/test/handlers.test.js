// The Node.js handlers of the shop, called as the runtime calls them.
const test = require('node:test')
const assert = require('node:assert')
const { readFileSync } = require('node:fs')
const path = require('node:path')

// load takes the handler out of a manifest: the block below "source: |".
function load(manifest) {
  const lines = readFileSync(path.join(__dirname, '..', manifest), 'utf8').split('\n')
  const start = lines.findIndex((line) => line.trim() === 'source: |') + 1
  const indent = lines[start].search(/\S/)
  const length = lines.slice(start).findIndex((line) => line !== '' && line.search(/\S/) < indent)
  const source = lines.slice(start, length < 0 ? undefined : start + length).map((line) => line.slice(indent)).join('\n')
  const module = { exports: {} }
  new Function('module', 'exports', 'require', source)(module, module.exports, require)
  return module.exports.main
}

// call runs a handler on one request.
async function call(t, handler, request, emit = async () => {}) {
  const result = { status: 200, headers: {}, emitted: [] }
  t.mock.method(console, 'log', () => {})
  t.mock.method(console, 'error', () => {})
  result.body = await handler({
    data: request.data,
    'ce-type': request.type,
    extensions: { request: { method: request.method, path: request.path, headers: request.headers ?? {} } },
    setResponseStatus: (status) => { result.status = status },
    setResponseHeader: (name, value) => { result.headers[name] = value },
    setResponseContentType: (type) => { result.type = type },
    emitCloudEvent: (...event) => { result.emitted.push(event); return emit() },
  }, {})
  return result
}

const lines = [{ product: 'tea', quantity: 2 }]
const order = (t, data, emit) => call(t, load('shop.yaml'), { method: 'POST', path: '/orders', data }, emit)

test('an order becomes an event, and its page is named', async (t) => {
  const { status, headers, body, emitted } = await order(t, { id: 'o-1', lines: [{ product: 'tea', quantity: 2, price: 0 }], admin: true })
  assert.equal(status, 202)
  assert.equal(headers.Location, '/orders/o-1')
  assert.deepEqual(body, { order: 'o-1', event: 'o-1.received', status: '/orders/o-1' })
  assert.deepEqual(emitted, [['order.received', 'shop', { id: 'o-1', lines }, { id: 'o-1.received' }]], 'what the caller adds is left out')
})

test('an order without an id gets one that nobody can guess', async (t) => {
  const first = await order(t, { lines })
  const second = await order(t, { lines })
  assert.match(first.body.order, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
  assert.notEqual(first.body.order, second.body.order)
})

test('what is no order is refused with the reason, and emits nothing', async (t) => {
  for (const [reason, data] of [
    ['as JSON', undefined], ['as JSON', 'text'], ['as JSON', null],
    ['the id', { id: '../x', lines }], ['the id', { id: 7, lines }], ['the id', { id: 'a'.repeat(65), lines }],
    ['lines', {}], ['lines', { lines: [] }], ['lines', { lines: Array(51).fill(lines[0]) }],
    ['the product', { lines: [null] }], ['the product', { lines: [{ product: '', quantity: 1 }] }], ['the product', { lines: [{ product: 'a'.repeat(81), quantity: 1 }] }],
    ['the quantity', { lines: [{ product: 'tea', quantity: 0.5 }] }], ['the quantity', { lines: [{ product: 'tea', quantity: 1001 }] }],
  ]) {
    const { status, body, emitted } = await order(t, data)
    assert.equal(status, 400)
    assert.ok(body.error.includes(reason), body.error)
    assert.deepEqual(emitted, [])
    t.mock.restoreAll()
  }
})

test('the entrance has one path and one method', async (t) => {
  const handler = load('shop.yaml')
  const elsewhere = await call(t, handler, { method: 'POST', path: '/', data: { lines } })
  assert.equal(elsewhere.status, 404)
  const reading = await call(t, handler, { method: 'GET', path: '/orders' })
  assert.equal(reading.status, 405)
  assert.equal(reading.headers.Allow, 'POST')
})

test('an order that cannot be stored is answered with the id to send it again with', async (t) => {
  const { status, headers, body } = await order(t, { lines }, async () => { throw new Error('publisher answered 429') })
  assert.equal(status, 503)
  assert.equal(headers['Retry-After'], '5')
  assert.match(body.error, /send it again with the id [0-9a-f-]{36}$/)
})

// page gives a new status page events and returns what it then shows of an order.
async function page(t, events, path = '/orders/o-1', method = 'GET') {
  const handler = load('status.yaml')
  for (const [type, data, headers] of events) {
    const { status } = await call(t, handler, { method: 'POST', path: '/', type, data, headers })
    assert.equal(status, 200)
    t.mock.restoreAll()
  }
  return call(t, handler, { method, path })
}

const received = ['order.received', { id: 'o-1', lines }]
const priced = ['order.priced', { id: 'o-1', lines: [{ ...lines[0], price: 280, amount: 560 }], net: 560 }]
const invoiced = ['order.invoiced', { id: 'o-1', invoice: 'INV-o-1', net: 560, tax: 107, gross: 667 }]

test('the page follows an order from event to event', async (t) => {
  for (const [events, heading, parts] of [
    [[received], 'Order o-1: received', ['Received at', '<td>tea</td><td>2</td><td>not known yet</td>']],
    [[received, priced], 'Order o-1: priced', ['5.60 € without tax', '<td>5.60 €</td>']],
    [[received, priced, invoiced], 'Order o-1: invoiced', ['as INV-o-1: 6.67 € with tax']],
    [[invoiced, priced, priced, received], 'Order o-1: invoiced', ['5.60 € without tax', '<td>5.60 €</td>', '6.67 € with tax']],
  ]) {
    const { status, body } = await page(t, events)
    assert.equal(status, 200)
    for (const part of [`<h1>${heading}</h1>`, `<title>${heading}</title>`, ...parts]) assert.ok(body.includes(part), `${part} in ${body}`)
    t.mock.restoreAll()
  }
})

test('the page of a refused order has the reason', async (t) => {
  const { body } = await page(t, [received, ['order.received', received[1], {
    'ce-rousereason': 'SinkRejected', 'ce-rouseexcerpt': 'order%20o-1:%20unknown%20product%20%22%3Cb%3E%22',
  }]])
  assert.ok(body.includes('<h1>Order o-1: refused</h1>'), body)
  assert.ok(body.includes('order o-1: unknown product &quot;&lt;b&gt;&quot;.'), body)
  const { body: bare } = await page(t, [['order.received', received[1], { 'ce-rousereason': 'Expired', 'ce-rousemessage': '100%' }]])
  assert.ok(bare.includes('100%'), bare)
  assert.ok(bare.includes('<td>tea</td>'), 'a dead letter may come before the event')
})

test('what was published cannot write into the page', async (t) => {
  const { body, headers } = await page(t, [
    ['order.received', { id: 'o-1', lines: [{ product: '<script>alert(1)</script>', quantity: '"><img>' }, null] }],
    ['order.priced', { id: 'o-1', lines: 'all', net: '<b>' }], ['order.invoiced', { id: 'o-1', invoice: '<i>', gross: {} }],
  ])
  assert.ok(!/<script|<img|<b>|<i>/.test(body), body)
  assert.equal(headers['Content-Security-Policy'], "default-src 'none'; style-src 'unsafe-inline'")
  assert.equal(headers['Cache-Control'], 'no-store')
})

test('the page is readable for all: a language, a title, headings, captions, and nothing from elsewhere', async (t) => {
  const { body, type } = await page(t, [received])
  assert.equal(type, 'html')
  for (const part of ['<html lang="en">', '<meta name="viewport"', '<main>', '<caption>', 'scope="col"', '<time datetime="']) assert.ok(body.includes(part), part)
  assert.ok(!/(src|href)="(?!\/orders\/)/.test(body), body)
})

test('an order that is not known is told apart from none, with where to look', async (t) => {
  const { status, body } = await page(t, [received], '/orders/o-2')
  assert.equal(status, 404)
  assert.ok(body.includes('rouse trace o-2.received'), body)
  for (const path of ['/', '/orders/', '/orders/a/b', '/orders/%3Cb%3E', `/orders/${'a'.repeat(65)}`]) {
    t.mock.restoreAll()
    const none = await page(t, [received], path)
    assert.equal(none.status, 404)
    assert.ok(none.body.includes('<h1>No such page</h1>'), path)
  }
})

test('only a POST is an event: a reader cannot pass for one', async (t) => {
  const handler = load('status.yaml')
  await call(t, handler, { method: 'GET', path: '/', type: 'order.received', data: received[1] })
  t.mock.restoreAll()
  const { status } = await call(t, handler, { method: 'GET', path: '/orders/o-1' })
  assert.equal(status, 404)
})

test('what is no event of an order changes nothing', async (t) => {
  const odd = [['order.shipped', { id: 'o-1' }], ['order.received', 'text'], ['order.received', { id: '' }], [undefined, undefined], ['order.received', { id: 'a'.repeat(65) }]]
  assert.equal((await page(t, odd)).status, 404)
})

test('the last hundred orders are remembered', async (t) => {
  const events = Array.from({ length: 101 }, (_, i) => ['order.received', { id: `o-${i}`, lines }])
  events.splice(100, 0, ['order.priced', { id: 'o-0', lines, net: 1 }]) // o-1 is the oldest now
  assert.equal((await page(t, events, '/orders/o-1')).status, 404)
  t.mock.restoreAll()
  assert.equal((await page(t, events, '/orders/o-0')).status, 200)
  t.mock.restoreAll()
  assert.equal((await page(t, events, '/orders/o-100')).status, 200)
})
