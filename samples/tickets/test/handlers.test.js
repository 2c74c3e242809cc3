// The handlers in TypeScript, called as the runtime calls them. They need Node.js 22.18 or newer, which runs TypeScript by itself.
const test = require('node:test')
const assert = require('node:assert')
const { call, event } = require('./rouse-testing.js')

process.env.LINKS_KEY = 'a-key'
const skip = process.features.typescript ? false : 'this Node.js runs no TypeScript by itself'
const ticket = { id: 't-1', product: 'shop', title: 'The checkout is down', customer: 'ada@example.com', opened: '2026-11-27T15:30:00Z' }
const opened = (data) => event({ type: 'ticket.opened', source: 'desk', data })

test('a ticket gets its team and its priority', { skip }, async () => {
  const { main } = require('../triage/handler.ts')
  const { status, emitted: [triaged] } = await call(main, opened(ticket))
  assert.equal(status, 200)
  assert.equal(triaged.id, 't-1.triaged')
  assert.deepEqual([triaged.type, triaged.data.team, triaged.data.priority], ['ticket.triaged', 'commerce', 'urgent'])
  const { emitted: [other] } = await call(main, opened({ ...ticket, product: 'constructor', title: 'A question' }))
  assert.deepEqual([other.data.team, other.data.priority], ['first-level', 'normal'])
})

test('what is no ticket is refused with the reason, and emits nothing', { skip }, async () => {
  const { main } = require('../triage/handler.ts')
  for (const [reason, data] of [
    ['no ticket', undefined], ['no ticket', 'text'], ['customer', { ...ticket, customer: '' }], ['title', { ...ticket, title: 'a'.repeat(201) }],
    ['the id', { ...ticket, id: '../x' }], ['time', { ...ticket, opened: 'today' }],
  ]) {
    const { status, body, emitted } = await call(main, opened(data))
    assert.equal(status, 400)
    assert.ok(body.includes(reason), body)
    assert.deepEqual(emitted, [])
  }
})

// request calls the status page.
function request({ method = 'GET', path = '/', query = {}, headers = {}, type, data }) {
  const { main } = require('../status/handler.ts')
  const answer = { status: 200, headers: {} }
  answer.body = main({
    data, 'ce-type': type, extensions: { request: { method, path, query, headers } },
    setResponseStatus: (status) => { answer.status = status },
    setResponseHeader: (name, value) => { answer.headers[name] = value },
    setResponseContentType: () => {},
  })
  return answer
}

test('the page shows what happened to a ticket, to those with its link alone', { skip }, () => {
  const key = require('node:crypto').createHmac('sha256', 'a-key').update('t-1').digest('hex').slice(0, 32)
  for (const [type, data, headers] of [
    ['ticket.opened', { ...ticket, title: '<b>down</b>' }], ['ticket.triaged', { id: 't-1', team: 'commerce', priority: 'urgent' }],
    ['ticket.scheduled', { id: 't-1', due: '2026-11-27T19:30:00Z' }], ['ticket.announced', { id: 't-1' }],
    ['ticket.triaged', { id: 't-1' }, { 'ce-rousereason': 'SinkRejected', 'ce-rouseexcerpt': 'no%20%22address%22' }],
  ]) request({ method: 'POST', type, data, headers })
  const { status, body, headers } = request({ path: '/tickets/t-1', query: { key } })
  assert.equal(status, 200)
  for (const part of ['Ticket t-1: refused', '&lt;b&gt;down', 'commerce, urgent', '2026-11-27T19:30:00Z', 'was told', 'no &quot;address&quot;']) assert.ok(body.includes(part), `${part} in ${body}`)
  assert.equal(headers['Cache-Control'], 'no-store')
  for (const [path, query] of [['/tickets/t-1', {}], ['/tickets/t-1', { key: 'x'.repeat(32) }], ['/tickets/t-2', { key }], ['/', { key }], ['/tickets/t-1', { key: [key] }]]) {
    assert.equal(request({ path, query }).status, 404)
  }
})
