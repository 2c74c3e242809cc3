package apirules

import (
	"bufio"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/rouse-run/rouse/gateway/forward"
)

// response writes an answer, and changes its headers on the way: those of CORS are the gateway's alone.
type response struct {
	*forward.Writer

	cors     *origin     // that may read it, or nil
	varies   bool        // by the origin: there is a policy
	add      http.Header // of authorizers
	upgraded func()      // called when the connection is no longer one of HTTP
}

// WriteHeader implements http.ResponseWriter.
func (r *response) WriteHeader(code int) {
	header := r.Header()
	last := code >= http.StatusOK || code == http.StatusSwitchingProtocols
	if last && r.Code() != 0 {
		return
	}
	if last {
		replace(header, r.add)
	}
	removeCORS(header)
	if last {
		r.cors.mark(header)
	}
	if last && r.varies && !slices.ContainsFunc(header["Vary"], namesOrigin) { // or a cache gives one origin the answer to another
		header["Vary"] = append(header["Vary"], "Origin")
	}
	r.Writer.WriteHeader(code)
}

// namesOrigin reports whether a value of Vary covers the origin.
func namesOrigin(vary string) bool {
	for name := range strings.SplitSeq(vary, ",") {
		if name = strings.TrimSpace(name); name == "*" || strings.EqualFold(name, "Origin") {
			return true
		}
	}
	return false
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
	if r.Code() == 0 {
		r.WriteHeader(http.StatusOK)
	}
	return r.Writer.Write(p)
}

// FlushError is what http.ResponseController asks for.
func (r *response) FlushError() error {
	if r.Code() == 0 {
		r.WriteHeader(http.StatusOK)
	}
	return r.Writer.FlushError()
}

// Hijack implements http.Hijacker. Only connections that are upgraded are taken over.
func (r *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, both, err := r.Writer.Hijack()
	if err == nil {
		r.upgraded()
	}
	return conn, both, err
}
