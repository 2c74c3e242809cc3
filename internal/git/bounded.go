package git

import (
	"io"
	"net/http"
	"strings"
)

// bounded limits what go-git holds in memory: the text of an error and the references. A pack goes to disk.
type bounded struct {
	inner http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b *bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.inner.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	all := response.Body
	switch {
	case response.StatusCode >= http.StatusMultipleChoices:
		response.Body = body{Reader: io.LimitReader(all, complaintSize), close: all.Close}
	case strings.HasSuffix(request.URL.Path, "/info/refs"):
		response.Body = body{Reader: newListing(all, selectionOf(request.Context())), close: all.Close}
	}
	return response, nil
}

type body struct {
	io.Reader

	close func() error
}

// Close implements io.Closer.
func (b body) Close() error { return b.close() }
