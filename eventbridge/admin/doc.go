// Package admin is the HTTP API for operators and tenants: it lists, shows, redrives and
// purges dead letters, and reports what each Subscription has to do and what
// happened to events lately.
//
// It owns routes, the right that each request needs, and the JSON of requests and answers. Whose a request is, and who has a right,
// says package authorization. It guarantees:
//
//   - Nothing is read, answered or done before the user is known and has the right to it, in the namespace that the request names, or in
//     all if it names none. Who has no right takes no slot of those who have.
//   - A follower loses what it follows within a minute after its right, and after an hour in any case.
//   - Redrive and purge do nothing unless the request says what to select, and are logged with the user's name.
//   - Every answer is JSON, errors included, or a line of JSON for each record of
//     an event, and neither answers of an error nor
//     logs hold data of events or a token.
//   - Few requests hold dead letters or pages at a time, and a few records of an event
//     each. Others wait for ten seconds, and are answered 503.
//   - A redrive or purge that is cut short says how far it came.
package admin
