// Package admin is the HTTP API for operators: it lists, shows, redrives and
// purges dead letters, and reports what each Subscription has to do and what
// happened to events lately.
//
// It owns routes, authentication and the JSON of requests and answers. It
// guarantees:
//
//   - Nothing is answered or done without the bearer token of the token file, which
//     is read again for each request. Without a token in it every request is
//     refused.
//   - Redrive and purge do nothing unless the request says what to select.
//   - Every answer is JSON, errors included, or a line of JSON for each record of
//     an event, and neither answers of an error nor
//     logs hold data of events or the token.
//   - Few requests hold dead letters or pages at a time, and a few records of an event
//     each. Others wait for ten seconds, and are answered 503.
//   - A redrive or purge that is cut short says how far it came.
package admin
