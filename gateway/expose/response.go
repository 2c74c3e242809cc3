package expose

import (
	"bufio"
	"net"
	"net/http"
	"slices"
)

// response writes an answer, and changes its headers on the way: those of CORS are the gateway's alone.
type response struct {
	http.ResponseWriter

	cors     *origin     // that may read it, or nil
	add      http.Header // of authorizers
	upgraded func()      // called when the connection is no longer one of HTTP
	code     int         // 0: none yet
}

// WriteHeader implements http.ResponseWriter.
func (r *response) WriteHeader(code int) {
	header := r.Header()
	last := code >= http.StatusOK || code == http.StatusSwitchingProtocols
	switch {
	case last && r.code != 0:
		return
	case last:
		r.code = code
		replace(header, r.add)
	}
	removeCORS(header)
	if last {
		r.cors.mark(header)
	}
	r.ResponseWriter.WriteHeader(code)
}

// replace gives an answer headers in place of its own. Cookies add up: each sender has its own.
func replace(header, with http.Header) {
	for name, values := range with {
		if name == "Set-Cookie" {
			values = slices.Concat(header[name], values)
		}
		header[name] = values
	}
}

// Write implements http.ResponseWriter.
func (r *response) Write(p []byte) (int, error) {
	if r.code == 0 {
		r.WriteHeader(http.StatusOK)
	}
	return r.ResponseWriter.Write(p)
}

// FlushError is what http.ResponseController asks for.
func (r *response) FlushError() error {
	if r.code == 0 {
		r.WriteHeader(http.StatusOK)
	}
	return http.NewResponseController(r.ResponseWriter).Flush()
}

// Hijack implements http.Hijacker. Only connections that are upgraded are taken over.
func (r *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, both, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil {
		r.code = http.StatusSwitchingProtocols
		r.upgraded()
	}
	return conn, both, err
}

// Unwrap has http.ResponseController find the rest.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }
