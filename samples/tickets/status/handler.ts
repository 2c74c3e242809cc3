import type { Event } from 'rouse'
import { fits } from './lib/links.ts'
import { page, ticketPage } from './lib/page.ts'
import { remember, ticketOf } from './lib/tickets.ts'

// Gets the events of tickets by POST, and shows them at GET /tickets/<id>?key=<key>.
export function main(event: Event): string | undefined {
  const { method, path, query, headers } = event.extensions.request
  if (method === 'POST') {
    remember(event['ce-type'], event.data, headers)
    return undefined
  }
  event.setResponseHeader('Cache-Control', 'no-store')
  event.setResponseHeader('Referrer-Policy', 'no-referrer')
  event.setResponseHeader('Content-Security-Policy', "default-src 'none'; style-src 'unsafe-inline'")
  event.setResponseHeader('X-Content-Type-Options', 'nosniff')
  event.setResponseContentType('html')
  const id = /^\/tickets\/([A-Za-z0-9-]{1,64})$/.exec(path)?.[1]
  const ticket = id !== undefined && fits(id, query?.key) ? ticketOf(id) : undefined
  if (id === undefined || ticket === undefined) {
    event.setResponseStatus(404) // who has no link learns nothing, not even which tickets there are
    return page('No such page', '<p>Open the link that you got. This page forgets when it sleeps.</p>')
  }
  return ticketPage(id, ticket)
}
