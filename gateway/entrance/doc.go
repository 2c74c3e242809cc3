// Package entrance is where requests from outside of the cluster arrive: two listeners, HTTP and TLS, in front of a handler.
//
//	client --> share of its address --> TLS by server name --> bounds of a request --> headers of clients --> handler
//	              (listener.go)         (certificates.go)   (entrance.go, body.go)        (body.go)
//
// It builds on [daemon.Serve], which bounds connections, headers, reads and writes, and drains.
//
// Guarantees:
//   - Both listeners together have MaxConnections, of which the slowest are closed for further ones. An address has half of
//     them, and half of as many requests; a trusted proxy has no share, because it serves many clients.
//   - A body may take any time while it makes progress, and so may a response while it is read.
//   - A certificate is selected by the server name, an exact one before a wildcard; a client without a name, or with an unknown
//     one, gets the first. Folders are read every few seconds (hot reload): a valid pair replaces the previous one, an invalid
//     one is reported and replaces nothing, and a removed one is no longer served.
//   - Forwarding headers (Forwarded, X-Forwarded-*, X-Real-IP) are trusted only from trusted proxies. Rouse's own headers are
//     removed, in every spelling that backends may confuse with them.
//   - WebSocket is the only upgrade: a tunnel of HTTP/2 in a connection would bypass the handler.
package entrance
