// Package admin is the HTTP API for operators and tenants: it lists, shows, redrives and purges dead letters, delivers
// what waits for its next attempt, and reports the backlog of each Subscription and what happened to events lately.
//
// It owns the routes, the right that each request requires, and the JSON of requests and responses. Package identity
// authenticates and authorizes users.
//
// Guarantees:
//   - Nothing is read or changed before the user is authenticated and authorized, in the namespace that the request names, or
//     in all namespaces if it names none. Unauthorized users take no slots from authorized ones.
//   - A follower loses access within a minute after its right is revoked, and after an hour in any case.
//   - Redrive and purge do nothing unless the request has a selection, and are logged with the user's name.
//   - Every response is JSON, errors included, or a line of JSON for each record of an event. Neither error responses nor
//     logs contain data of events or a token.
//   - Only a few requests hold dead letters or pages concurrently, and a few records of events each. Others wait for up to ten
//     seconds and then get 503.
//   - A redrive or purge that is interrupted reports how far it came.
package admin
