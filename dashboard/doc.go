// Package dashboard serves the dashboard: web pages about Functions, events and Subscriptions, and the HTTP API that they use.
//
//	browser --> pages (embedded)
//	        --> /api/v1 --> the home: State, Events, Lines, DeadLetters, Publisher
//
// It owns the pages, the routes below /api/v1, their JSON, and the streams of server-sent events. A home, such as local mode, provides
// the data and decides who is who.
//
// Guarantees:
//   - Pages are static files without inline code. Their policy allows scripts, styles and connections of their own origin alone, and no
//     markup made of text.
//   - Nothing of the API is read or changed before the user is known. Requests of pages of another origin are refused, and changes by a
//     user who may only read. A change is logged with the user's name.
//   - Bodies, answers, streams and the number of streams are bounded; a user holds no more streams than are left to others.
//   - A stream sends the state once and then what has changed. Of events that come faster than it sends, it sends some, their number and
//     exact counts by path.
//   - Values of environment variables and Secrets are in no answer.
package dashboard
