// Package control is the HTTP API of a running local mode: it reports how its Functions and
// Subscriptions are, and what the Functions print.
//
//	GET /v1/functions                                       {"functions": [...]}
//	GET /v1/subscriptions                                   {"subscriptions": [...]}
//	GET /v1/functions/{namespace}/{name}/log?tail=&follow=  a line of JSON for each line
//
// It owns routes, authentication and the JSON of answers. It guarantees:
//   - nothing is answered without the bearer token;
//   - only requests that name a loopback address as their host are answered, so that no page in a browser reaches it
//     under a name that resolves to this machine;
//   - every answer is JSON, errors included.
package control
