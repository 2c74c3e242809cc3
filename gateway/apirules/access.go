package apirules

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rouse-run/rouse/gateway/forward"
	"github.com/rouse-run/rouse/internal/endpoint"
	"github.com/rouse-run/rouse/internal/httplimit"
)

const (
	defaultCheckTimeout = 5 * time.Second
	maxCheckTimeout     = 60 * time.Second
	maxAuthorizers      = 64
)

// Authorizer is an external authorizer that the operator configures and rules refer to. Its lists contain header names,
// or names with an asterisk at the beginning or the end.
type Authorizer struct {
	Name string `json:"name"`
	// Service is its host, and Port its port.
	Service string `json:"service"`
	Port    int32  `json:"port"`
	// Path is prepended to the request's path.
	Path string `json:"path,omitempty"`
	// TimeoutSeconds bounds the wait for a response; 0: 5 seconds.
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
	// IncludeRequestHeadersInCheck are the caller's headers that it gets in addition to Authorization.
	IncludeRequestHeadersInCheck []string `json:"includeRequestHeadersInCheck,omitempty"`
	// IncludeAdditionalHeadersInCheck are headers that it always gets.
	IncludeAdditionalHeadersInCheck map[string]string `json:"includeAdditionalHeadersInCheck,omitempty"`
	// HeadersToUpstreamOnAllow are headers of its response that replace the caller's in the request to the backend.
	HeadersToUpstreamOnAllow []string `json:"headersToUpstreamOnAllow,omitempty"`
	// HeadersToDownstreamOnAllow are headers of its response that are added to the backend's response.
	HeadersToDownstreamOnAllow []string `json:"headersToDownstreamOnAllow,omitempty"`
	// HeadersToDownstreamOnDeny are headers of its response that the caller gets; if empty, all.
	HeadersToDownstreamOnDeny []string `json:"headersToDownstreamOnDeny,omitempty"`
}

// ParseAuthorizers decodes a list of authorizers from JSON.
func ParseAuthorizers(text []byte) ([]Authorizer, error) {
	var all []Authorizer
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&all); err != nil {
		return nil, fmt.Errorf("authorizers: read the list: %w", err)
	}
	if decoder.More() {
		return nil, errors.New("authorizers: there is more than one list")
	}
	if len(all) > maxAuthorizers {
		return nil, fmt.Errorf("authorizers: there are %d, at most %d are supported", len(all), maxAuthorizers)
	}
	var problems []error
	known := map[string]bool{}
	for i := range all {
		if known[all[i].Name] {
			problems = append(problems, fmt.Errorf("authorizers[%d].name: %q is there twice", i, all[i].Name))
		}
		known[all[i].Name] = true
		for _, err := range all[i].check() {
			problems = append(problems, fmt.Errorf("authorizers[%d].%w", i, err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return all, nil
}

// check returns what cannot be served.
func (a *Authorizer) check() []error {
	problems := a.checkHeaders()
	note := func(format string, values ...any) { problems = append(problems, fmt.Errorf(format, values...)) }
	if a.Name == "" {
		note("name: is empty: write the one that rules use")
	}
	if _, err := url.Parse("http://" + a.address()); err != nil || a.Service == "" || strings.ContainsAny(a.Service, "/?#@ ") {
		note("service: %q is no host: write it as authorizer.namespace.svc", a.Service)
	}
	if a.Port < 1 || a.Port > 65535 {
		note("port: must be between 1 and 65535, is %d", a.Port)
	}
	if prefix, ok := normalPath(&url.URL{RawPath: a.Path}); a.Path != "" && (!ok || prefix != a.Path) {
		note("path: %q is no path: write it as /check", a.Path)
	}
	if a.TimeoutSeconds < 0 || a.timeout() > maxCheckTimeout {
		note("timeoutSeconds: must be between 1 and %d, is %d", int(maxCheckTimeout.Seconds()), a.TimeoutSeconds)
	}
	return problems
}

func (a *Authorizer) checkHeaders() []error {
	var problems []error
	for name, value := range a.IncludeAdditionalHeadersInCheck {
		if !isToken(name) || !isHeaderValue(value) {
			problems = append(problems, fmt.Errorf("includeAdditionalHeadersInCheck: %q has characters that no header may have", name))
		}
	}
	for field, names := range map[string][]string{
		"includeRequestHeadersInCheck": a.IncludeRequestHeadersInCheck, "headersToUpstreamOnAllow": a.HeadersToUpstreamOnAllow,
		"headersToDownstreamOnAllow": a.HeadersToDownstreamOnAllow, "headersToDownstreamOnDeny": a.HeadersToDownstreamOnDeny,
	} {
		if _, err := newHeaderList(names); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", field, err))
		}
	}
	return problems
}

func (a *Authorizer) address() string { return net.JoinHostPort(a.Service, strconv.Itoa(int(a.Port))) }

func (a *Authorizer) timeout() time.Duration {
	if a.TimeoutSeconds == 0 {
		return defaultCheckTimeout
	}
	return time.Duration(a.TimeoutSeconds) * time.Second
}

const (
	// checkBodyBytes bounds the response of an authorizer. A larger one denies.
	checkBodyBytes = 64 << 10
	// checkConnections bounds the concurrent requests to one authorizer. Further ones wait until their timeout.
	checkConnections = 256
)

const severalCredentials = "Found multiple Authorization headers"

var errNoAnswer = errors.New("the authorizer's response is invalid or too large")

// authorizer is a client of an Authorizer. It is safe for concurrent use.
type authorizer struct {
	Authorizer

	transport                                 *http.Transport
	include, upstream, downstream, onlyOnDeny headerList
}

// authorizersOf returns clients of valid authorizers by name.
func authorizersOf(all []Authorizer) map[string]*authorizer {
	made := make(map[string]*authorizer, len(all))
	for i := range all {
		a := &authorizer{Authorizer: all[i], transport: &http.Transport{
			DialContext:            httplimit.CountHeads((&net.Dialer{Timeout: all[i].timeout()}).DialContext), // the operator chose the address
			DisableCompression:     true,
			MaxConnsPerHost:        checkConnections,
			MaxIdleConnsPerHost:    checkConnections,
			IdleConnTimeout:        endpoint.IdleTimeout,
			MaxResponseHeaderBytes: httplimit.MaxHeadBytes,
		}}
		a.include, _ = newHeaderList(a.IncludeRequestHeadersInCheck)
		a.upstream, _ = newHeaderList(a.HeadersToUpstreamOnAllow)
		a.downstream, _ = newHeaderList(a.HeadersToDownstreamOnAllow)
		a.onlyOnDeny, _ = newHeaderList(a.HeadersToDownstreamOnDeny)
		made[a.Name] = a
	}
	return made
}

// admits decides whether a request may proceed, and removes headers that a backend could trust although nothing has
// checked them. It responds to a request that may not.
func (to *rule) admits(x *exchange, out *http.Request) bool {
	given := http.Header{}
	if !to.authorize(x, out, given) {
		return false
	}
	if to.tokens == nil {
		return true
	}
	result := to.tokens.Check(out)
	if result.Allowed {
		for _, name := range result.Unchecked {
			if given[name] == nil {
				delete(out.Header, name)
			}
		}
		return true
	}
	switch result.Status {
	case http.StatusUnauthorized:
		x.outcome = unauthorized
	case http.StatusServiceUnavailable:
		x.outcome = overload
	default:
		x.outcome = denied
	}
	result.Write(x.w)
	return false
}

// authorize calls all authorizers, and records the headers that they set for the backend.
func (to *rule) authorize(x *exchange, out *http.Request, given http.Header) bool {
	if len(to.authorizers) > 0 && len(out.Header["Authorization"]) > 1 { // authorizers and backends could read different values
		x.refuse(unauthorized, http.StatusUnauthorized, severalCredentials)
		return false
	}
	for _, each := range to.authorizers {
		each.join(out.Header)
	}
	for _, each := range to.authorizers {
		if !each.admits(x, out, given) {
			return false
		}
	}
	return true
}

// join merges the values of a header (RFC 9110, 5.3) in what the authorizer gets: the backend could read another value
// than it did.
func (a *authorizer) join(header http.Header) {
	for name, values := range header {
		if len(values) < 2 || !a.include.has(name) {
			continue
		}
		separator := ", "
		if name == "Cookie" {
			separator = "; "
		}
		header[name] = []string{strings.Join(values, separator)}
	}
}

// admits calls the authorizer. A request that it does not allow with 200 in time is denied. It records the headers set
// for the backend.
func (a *authorizer) admits(x *exchange, out *http.Request, given http.Header) bool {
	ctx, cancel := context.WithTimeout(out.Context(), a.timeout())
	defer cancel()
	says, err := a.ask(ctx, out)
	switch {
	case err != nil || says.status >= http.StatusInternalServerError: // the authorizer is broken
		x.refuse(denied, http.StatusForbidden, "")
		return false
	case says.status != http.StatusOK:
		a.deny(x, says)
		return false
	}
	a.change(x, out, says.header, given)
	return true
}

// ruling is the response of an authorizer.
type ruling struct {
	status int
	header http.Header
	text   []byte
}

// ask sends the head of a request. An incomplete response is an error.
func (a *authorizer) ask(ctx context.Context, out *http.Request) (ruling, error) {
	var head httplimit.HeadAccount
	answer, err := forward.RoundTrip(a.transport, a.question(out).WithContext(head.With(ctx)), &head)
	if err != nil {
		return ruling{}, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode < http.StatusOK { // protocol switch
		return ruling{}, errNoAnswer
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, checkBodyBytes+1))
	if len(text) > checkBodyBytes {
		err = errNoAnswer
	}
	removeHops(answer.Header)
	forward.RemoveOwn(answer.Header)
	return ruling{answer.StatusCode, answer.Header, text}, err
}

func (a *authorizer) question(out *http.Request) *http.Request {
	header := http.Header{}
	for name, values := range out.Header {
		if (name == "Authorization" || a.include.has(name)) && !isFixed(name) {
			header[name] = values
		}
	}
	if a.include.has(forward.HeaderForwardedFor) {
		forward.AddCaller(header, out.RemoteAddr)
	}
	for name, value := range a.IncludeAdditionalHeadersInCheck {
		header.Set(name, value)
	}
	if header["User-Agent"] == nil {
		header["User-Agent"] = nil // otherwise net/http sets its own
	}
	return &http.Request{
		Method: out.Method, Host: out.Host, Header: header, URL: a.urlFor(out), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
}

func (a *authorizer) urlFor(out *http.Request) *url.URL {
	path := a.Path + out.URL.EscapedPath()
	at := withPath(out.URL, path)
	at.Scheme, at.Host = "http", a.address()
	return at
}

// deny responds as the authorizer did.
func (a *authorizer) deny(x *exchange, says ruling) {
	x.outcome = denied
	always := map[string]bool{"Content-Type": true, "Location": true, "Www-Authenticate": true}
	for name, values := range says.header {
		if len(a.HeadersToDownstreamOnDeny) == 0 || always[name] || a.onlyOnDeny.has(name) {
			x.w.Header()[name] = values
		}
	}
	for _, name := range fixed {
		x.w.Header().Del(name)
	}
	x.w.WriteHeader(says.status)
	_, _ = x.w.Write(says.text)
}

// change sets the headers of an allowing authorizer for the backend and for the caller.
func (a *authorizer) change(x *exchange, out *http.Request, answer, given http.Header) {
	a.forget(out.Header)
	for name, values := range answer {
		if a.upstream.has(name) && !isFixed(name) {
			out.Header[name], given[name] = values, values
		}
		if a.downstream.has(name) && !isFixed(name) {
			if x.w.add == nil {
				x.w.add = http.Header{}
			}
			replace(x.w.add, http.Header{name: values})
		}
	}
}

// forget removes the caller's values of headers that the authorizer sets. Authorization and Cookie have a meaning
// without it, and stay.
func (a *authorizer) forget(header http.Header) {
	for name := range header {
		if plain := http.CanonicalHeaderKey(dashes(name)); a.upstream.has(plain) && plain != "Authorization" && plain != "Cookie" {
			delete(header, name)
		}
	}
}
