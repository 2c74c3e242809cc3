package git

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// route sends requests directly, with a guard over every connection, or through the installation's proxy, which may be
// anywhere: then the guard is over the host that the proxy is asked for.
type route struct {
	client          *Client
	proxy           func(*http.Request) (*url.URL, error)
	direct, proxied http.RoundTripper
}

func (c *Client) route(settings *http.Transport, proxy func(*http.Request) (*url.URL, error)) *route {
	direct, proxied := settings.Clone(), settings.Clone()
	direct.DialContext = c.dialer().DialContext
	proxied.Proxy, proxied.DialContext = proxy, (&net.Dialer{Timeout: dialTimeout}).DialContext
	return &route{client: c, proxy: proxy, direct: direct, proxied: proxied}
}

// RoundTrip implements http.RoundTripper.
func (r *route) RoundTrip(request *http.Request) (*http.Response, error) {
	through, err := r.proxy(request)
	if err != nil {
		return nil, err
	}
	chosen := r.direct
	if through != nil {
		if err := r.client.checkHost(request.Context(), request.URL.Hostname()); err != nil {
			return nil, err
		}
		chosen = r.proxied
	}
	response, err := chosen.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = r.client.bounded(request, response)
	return response, nil
}

// bounded limits what go-git holds in memory: the text of an error and the references. A pack goes to disk.
func (c *Client) bounded(request *http.Request, response *http.Response) io.ReadCloser {
	all := response.Body
	switch {
	case response.StatusCode >= http.StatusMultipleChoices:
		return body{Reader: io.LimitReader(all, complaintSize), close: all.Close}
	case strings.HasSuffix(request.URL.Path, "/info/refs"):
		list := c.listing(request.Context(), all)
		return body{Reader: list, close: func() error {
			list.Close()
			return all.Close()
		}}
	default:
		return all
	}
}

type body struct {
	io.Reader

	close func() error
}

// Close implements io.Closer.
func (b body) Close() error { return b.close() }
