import type { Event } from 'rouse'
import { teamOf } from './lib/teams.ts'
import { problemOf, type Ticket } from './lib/ticket.ts'

// Enriches a ticket with the team that answers it and its priority. An event may come a second time: what is emitted has an id that
// follows from the ticket's, so that the second copy is stored once.
export async function main(event: Event<Ticket>): Promise<string | undefined> {
  const problem = problemOf(event.data)
  if (problem !== undefined) {
    event.setResponseStatus(400) // no retry can mend it: a dead letter
    return problem
  }
  const { id, product, title, customer, opened } = event.data as Ticket
  const { team, priority } = teamOf(product, title)
  console.log(JSON.stringify({ ticket: id, team, priority }))
  await event.emitCloudEvent('ticket.triaged', 'support', { id, title, customer, opened, team, priority }, { id: `${id}.triaged` })
  return undefined
}
