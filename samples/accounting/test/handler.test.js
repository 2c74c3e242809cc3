// The handler of the sample, called as the runtime calls it, beside an API on loopback.
const test = require('node:test')
const assert = require('node:assert')
const http = require('node:http')
const { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } = require('node:fs')
const { tmpdir } = require('node:os')
const path = require('node:path')

// load takes the handler out of the manifest: the block below "source: |".
function load() {
  const lines = readFileSync(path.join(__dirname, '..', 'accounting.yaml'), 'utf8').split('\n')
  const start = lines.findIndex((line) => line.trim() === 'source: |') + 1
  const indent = lines[start].search(/\S/)
  const length = lines.slice(start).findIndex((line) => line !== '' && line.search(/\S/) < indent)
  const source = lines.slice(start, start + length).map((line) => line.slice(indent)).join('\n')
  const module = { exports: {} }
  new Function('module', 'exports', 'require', source)(module, module.exports, require)
  return module.exports.main
}

// api serves one status, and returns what it was asked.
async function api(t, status, headers = {}) {
  const requests = []
  const server = http.createServer((req, res) => {
    const chunks = []
    req.on('data', (chunk) => chunks.push(chunk)).on('end', () => {
      requests.push({ headers: req.headers, body: Buffer.concat(chunks).toString() })
      res.writeHead(status, headers).end('{}')
    })
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => { server.closeAllConnections(); server.close() })
  process.env.ACCOUNTING_URL = `http://127.0.0.1:${server.address().port}/v1/entries`
  return requests
}

function key(t, value) {
  const root = mkdtempSync(path.join(tmpdir(), 'bindings-'))
  t.after(() => rmSync(root, { recursive: true }))
  mkdirSync(path.join(root, 'accounting'))
  process.env.SERVICE_BINDING_ROOT = root
  const write = (text) => writeFileSync(path.join(root, 'accounting', 'key'), text)
  write(value)
  return write
}

async function call(handler, data) {
  const result = { status: 200, headers: {} }
  result.body = await handler({
    data,
    'ce-id': 'order-1.invoiced',
    setResponseStatus: (status) => { result.status = status },
    setResponseHeader: (name, value) => { result.headers[name] = value },
  }, {})
  return result
}

const invoice = { id: 'order-1', invoice: 'INV-order-1', gross: 1333 }

test('an invoice is booked with the key of the Secret and under the id of the event', async (t) => {
  const requests = await api(t, 201)
  const rotate = key(t, 'first\n')
  const handler = load()

  assert.deepEqual(await call(handler, invoice), { status: 200, headers: {}, body: undefined })
  assert.equal(requests[0].headers.authorization, 'Bearer first')
  assert.equal(requests[0].headers['idempotency-key'], 'order-1.invoiced')
  assert.deepEqual(JSON.parse(requests[0].body), { order: 'order-1', invoice: 'INV-order-1', gross: 1333 })

  rotate('second')
  await call(handler, invoice)
  assert.equal(requests[1].headers.authorization, 'Bearer second')
})

for (const [answered, status] of [[429, 503], [500, 503], [401, 503], [403, 503], [404, 400], [422, 400]]) {
  test(`the status ${answered} of the API becomes ${status}, without the key in the answer`, async (t) => {
    await api(t, answered, answered === 429 ? { 'retry-after': '7' } : {})
    key(t, 'hidden')
    const result = await call(load(), invoice)
    assert.equal(result.status, status)
    assert.match(result.body, new RegExp(`returned ${answered}`))
    assert.doesNotMatch(result.body, /hidden/)
    assert.equal(result.headers['Retry-After'], answered === 429 ? '7' : undefined)
  })
}

test('the key follows no redirect: the call fails and the event is retried', async (t) => {
  await api(t, 307, { location: 'http://127.0.0.1:1/' })
  key(t, 'k')
  await assert.rejects(call(load(), invoice))
})

test('an event without an invoice is a dead letter and calls nothing', async (t) => {
  const requests = await api(t, 201)
  for (const data of [undefined, 'text', {}, { invoice: 'I' }, { invoice: 'I', gross: 1.5 }]) {
    assert.equal((await call(load(), data)).status, 400)
  }
  assert.equal(requests.length, 0)
})
