package forward

import (
	"bufio"
	"net"
	"net/http"
	"strings"
)

// OwnPrefix is that of the headers by which parts of Rouse know each other.
const OwnPrefix = "Rouse-"

// Writer writes an answer, and knows whether it has begun.
type Writer struct {
	http.ResponseWriter

	body *Body // of the request; nil: it has none
	last bool  // the connection ends with the answer
	code int
}

// NewWriter answers on w.
func NewWriter(w http.ResponseWriter) *Writer {
	return &Writer{ResponseWriter: w, last: w.Header().Get("Connection") == "close"}
}

// Await has the answer end the connection if it begins before the body of the request is over: what is left of that would be read
// as the next request.
func (w *Writer) Await(body *Body) { w.body = body }

// Code is the status of the answer; 0: none yet.
func (w *Writer) Code() int { return w.code }

// WriteHeader implements http.ResponseWriter.
func (w *Writer) WriteHeader(code int) {
	if code < http.StatusOK && code != http.StatusSwitchingProtocols {
		cleanInterim(w.Header())
		w.ResponseWriter.WriteHeader(code)
		return
	}
	if w.code != 0 {
		return
	}
	w.code = code
	if code != http.StatusSwitchingProtocols && (w.last || w.body != nil && w.body.http1 && !w.body.Whole()) {
		w.Header().Set("Connection", "close")
	}
	w.ResponseWriter.WriteHeader(code)
}

// cleanInterim leaves of an answer 1xx, which httputil.ReverseProxy forwards as it came, what a backend may say to a caller.
func cleanInterim(header http.Header) {
	RemoveOwn(header)
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Connection", "Te", "Trailer", "Upgrade"} {
		delete(header, name)
	}
}

// RemoveOwn takes away headers by which parts of Rouse know each other, also those that servers take for them.
func RemoveOwn(header http.Header) {
	for name := range header {
		if len(name) >= len(OwnPrefix) && strings.EqualFold(strings.ReplaceAll(name[:len(OwnPrefix)], "_", "-"), OwnPrefix) {
			delete(header, name)
		}
	}
}

// Write implements http.ResponseWriter.
func (w *Writer) Write(p []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(p)
}

func (w *Writer) begin() {
	if w.code == 0 {
		w.WriteHeader(http.StatusOK)
	}
}

// FlushError is what http.ResponseController asks for.
func (w *Writer) FlushError() error {
	w.begin()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack implements http.Hijacker. Only connections that are upgraded are taken over.
func (w *Writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, both, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.code = http.StatusSwitchingProtocols
	}
	return conn, both, err
}

// Unwrap has http.ResponseController find the rest.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// AbortUnlessAnswered ends a request without an answer: a handler that returns would answer it with 200.
func (w *Writer) AbortUnlessAnswered() {
	if w.code == 0 {
		panic(http.ErrAbortHandler)
	}
}
