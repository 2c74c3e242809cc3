export type Priority = 'urgent' | 'normal'

const teams: Record<string, string> = { shop: 'commerce', invoices: 'finance', login: 'identity' }
const urgent = /\b(down|outage|data loss|cannot log in)\b/i

/** Says who answers a ticket, and how soon. */
export function teamOf(product: string, title: string): { team: string; priority: Priority } {
  return { team: Object.hasOwn(teams, product) ? teams[product] : 'first-level', priority: urgent.test(title) ? 'urgent' : 'normal' }
}
