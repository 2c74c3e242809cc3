import { createHmac, timingSafeEqual } from 'node:crypto'

/** Reports whether the key of a link is the ticket's. The notifier makes them with the same Secret. */
export function fits(ticket: string, key: unknown): boolean {
  const want = createHmac('sha256', process.env.LINKS_KEY as string).update(ticket).digest('hex').slice(0, 32)
  return typeof key === 'string' && key.length === want.length && timingSafeEqual(Buffer.from(key), Buffer.from(want))
}
