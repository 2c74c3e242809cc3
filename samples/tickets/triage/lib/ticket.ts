/** A ticket as the help desk sends it. */
export interface Ticket {
  id: string
  product: string
  title: string
  customer: string
  /** A time of RFC 3339. */
  opened: string
}

const names = ['id', 'product', 'title', 'customer', 'opened'] as const

/** Says why data are no ticket; undefined if they are one. */
export function problemOf(data: unknown): string | undefined {
  if (typeof data !== 'object' || data === null) return 'the data is no ticket'
  const ticket = data as Record<string, unknown>
  for (const name of names) {
    const value = ticket[name]
    if (typeof value !== 'string' || value === '' || value.length > 200) return `the ticket's ${name} has to be a text of 1 to 200 characters`
  }
  if (!/^[A-Za-z0-9-]{1,64}$/.test(ticket.id as string)) return 'the id has to be 1 to 64 letters, digits and hyphens'
  if (Number.isNaN(Date.parse(ticket.opened as string))) return 'the time of opening is none'
  return undefined
}
