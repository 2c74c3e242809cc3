// Signs a request by the library of each provider and sends it to its Door: once, once more as when the answer was lost, and once with
// another body. Reads {address, host, doors: [{scheme, path, secret, url}]} and prints the statuses of each.
import http from 'node:http'
import { text } from 'node:stream/consumers'
import { Webhooks } from '@octokit/webhooks'
import { Webhook } from 'standardwebhooks'
import Stripe from 'stripe'
import twilio from 'twilio'

const json = { 'content-type': 'application/json' }

function standard(secret, body) {
  const id = 'msg_' + Math.random().toString(36).slice(2)
  const now = new Date()
  return { 'webhook-id': id, 'webhook-timestamp': String(Math.floor(now / 1000)), 'webhook-signature': new Webhook(secret).sign(id, now, body) }
}

const signers = {
  GitHub: async ({ secret }, body) => ({
    ...json, 'x-github-event': 'push', 'x-github-delivery': crypto.randomUUID(), 'x-hub-signature-256': await new Webhooks({ secret }).sign(body)
  }),
  Stripe: async ({ secret }, body) => ({
    ...json, 'stripe-signature': new Stripe('sk_test').webhooks.generateTestHeaderString({ payload: body, secret })
  }),
  StandardWebhooks: async ({ secret }, body) => ({ ...json, ...standard(secret, body) }),
  GitLab: async ({ secret }, body) => ({ ...json, 'x-gitlab-event': 'Push Hook', ...standard(secret, body) }),
  Twilio: async ({ secret, url }, body) => ({
    'content-type': 'application/x-www-form-urlencoded', 'i-twilio-idempotency-token': crypto.randomUUID(),
    'x-twilio-signature': twilio.getExpectedTwilioSignature(secret, url, Object.fromEntries(new URLSearchParams(body)))
  })
}

const bodies = {
  Stripe: JSON.stringify({ id: 'evt_' + Date.now(), type: 'invoice.paid', data: { object: { id: 'in_1' } } }),
  Twilio: 'MessageSid=SM1&Body=Hello&From=%2B15550001'
}

function send(address, host, path, headers, body) {
  return new Promise((resolve, reject) => {
    const request = http.request(address + path, { method: 'POST', headers: { ...headers, host } }, response => {
      response.resume()
      response.on('end', () => resolve(response.statusCode))
    })
    request.on('error', reject)
    request.end(body)
  })
}

const { address, host, doors } = JSON.parse(await text(process.stdin))
const results = {}
for (const door of doors) {
  const body = bodies[door.scheme] ?? JSON.stringify({ at: Date.now(), scheme: door.scheme })
  const headers = await signers[door.scheme](door, body)
  results[door.scheme] = {
    first: await send(address, host, door.path, headers, body),
    again: await send(address, host, door.path, headers, body),
    changed: await send(address, host, door.path, headers, body.replace(/.$/, last => (last === '}' ? ' }' : last + '1')))
  }
}
console.log(JSON.stringify(results))
