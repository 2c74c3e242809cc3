const MAX_TICKETS = 100

export interface Known {
  title?: string
  team?: string
  priority?: string
  due?: string
  announced?: boolean
  refused?: string
}

const tickets = new Map<string, Known>() // by id, the one that changed last at the end

/** Returns what is known of a ticket. */
export const ticketOf = (id: string): Known | undefined => tickets.get(id)

/** Keeps what the page shows, and no more. Events may come twice and in any order. */
export function remember(type: string | undefined, data: any, headers: Record<string, unknown>): void {
  const id = data?.id
  if (typeof id !== 'string' || !/^[A-Za-z0-9-]{1,64}$/.test(id)) return
  const ticket = tickets.get(id) ?? {}
  if (headers['ce-rousereason'] !== undefined) {
    ticket.refused = decoded(headers['ce-rouseexcerpt'] ?? headers['ce-rousemessage'])
  } else if (type === 'ticket.triaged') {
    Object.assign(ticket, { team: short(data.team), priority: short(data.priority) })
  } else if (type === 'ticket.announced') {
    ticket.announced = true
  } else if (type === 'ticket.scheduled') {
    ticket.due = short(data.due)
  } else if (type !== 'ticket.opened') {
    return
  }
  if (data.title !== undefined) ticket.title = short(data.title)
  tickets.delete(id)
  tickets.set(id, ticket)
  if (tickets.size > MAX_TICKETS) tickets.delete(tickets.keys().next().value as string)
}

const short = (value: unknown): string => String(value ?? '').slice(0, 200)

// decoded reads a header as CloudEvents write it: what is no visible ASCII is percent-encoded.
function decoded(text: unknown): string {
  try {
    return decodeURIComponent(short(text))
  } catch {
    return short(text)
  }
}
