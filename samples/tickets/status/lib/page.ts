import type { Known } from './tickets.ts'

const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }
const text = (value: unknown): string => String(value ?? '').replace(/[&<>"']/g, (character) => entities[character])

/** Writes a page in plain HTML, of which nothing comes from elsewhere. */
export function page(title: string, content: string): string {
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>${text(title)}</title>
<style>:root{color-scheme:light dark}body{font:1.1rem/1.5 system-ui,sans-serif;max-width:40rem;margin:2rem auto;padding:0 1rem}</style></head>
<body><main><h1>${text(title)}</h1>
${content}
</main></body></html>
`
}

/** Writes what is known of a ticket. */
export function ticketPage(id: string, ticket: Known): string {
  const steps: string[] = []
  if (ticket.title) steps.push(`Opened: ${text(ticket.title)}`)
  if (ticket.team) steps.push(`With the team ${text(ticket.team)}, ${text(ticket.priority)}`)
  if (ticket.due) steps.push(`An answer is due by <time>${text(ticket.due)}</time>`)
  if (ticket.announced) steps.push('The customer was told')
  if (ticket.refused) steps.push(`Refused: ${text(ticket.refused)}`)
  const state = ticket.refused ? 'refused' : ticket.team ? 'in work' : 'opened'
  return page(`Ticket ${id}: ${state}`, `<ol>${steps.map((step) => `<li>${step}</li>`).join('')}</ol>`)
}
