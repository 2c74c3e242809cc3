// Package entrance is where requests of the outside world come in: two listeners, HTTP and TLS, before a handler that decides what
// becomes of them.
//
//	client --> share of its address --> TLS by the name asked for --> bounds of a request --> headers of strangers --> handler
//	           (listener.go, client.go)  (certificates.go, names.go)   (handler.go, body.go)     (headers.go)
//
// It stands on [daemon.Serve], which bounds connections and headers, reads and writes, and drains. It guarantees:
//   - both listeners together have MaxConnections, of which the slowest are closed for further ones. An address has half of them, and
//     half of as many requests; a proxy that is trusted has no share, as it comes for many;
//   - a body may take as long as it likes while something of it comes, and an answer while something of it is read;
//   - a certificate is found by the name that a client asks for, an exact one before a wildcard; who asks for no name, or an unknown
//     one, gets the first. Folders are read again every few seconds: a pair that is whole replaces the one before, one that is broken
//     is reported and replaces nothing, and one that is gone is served no more;
//   - what a client says about where a request came from (Forwarded, X-Forwarded-*, X-Real-IP) is believed only of proxies that are
//     trusted; no header of Rouse's own comes in, in no spelling that servers behind may take for it;
//   - nothing but WebSockets is upgraded to: a tunnel of HTTP/2 in a connection would lead around what the handler decides.
package entrance
