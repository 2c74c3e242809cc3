package apirules

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/rouse-run/rouse/gateway/forward"
	"github.com/rouse-run/rouse/internal/httplimit"
)

const (
	// checkBodyBytes bounds the answer of an authorizer. A larger one denies.
	checkBodyBytes = 64 << 10
	// checkConnections is how many questions one authorizer gets at a time. Further ones wait, as long as each may take.
	checkConnections = 256
)

const severalCredentials = "Found multiple Authorization headers"

var errNoAnswer = errors.New("it is no answer, or too large")

// authorizer asks an Authorizer. It may be used by many at a time.
type authorizer struct {
	Authorizer

	transport                                 *http.Transport
	include, upstream, downstream, onlyOnDeny headerList
}

// authorizersOf makes those that ParseAuthorizers has accepted, by their names.
func authorizersOf(all []Authorizer) map[string]*authorizer {
	made := make(map[string]*authorizer, len(all))
	for i := range all {
		a := &authorizer{Authorizer: all[i], transport: &http.Transport{
			DialContext:            httplimit.CountHeads((&net.Dialer{Timeout: all[i].timeout()}).DialContext), // the operator's: its address is not judged
			DisableCompression:     true,
			MaxConnsPerHost:        checkConnections,
			MaxIdleConnsPerHost:    checkConnections,
			IdleConnTimeout:        forward.IdleConnTimeout,
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

// admits decides whether a request may go on, and takes away what a backend could believe and nobody has checked. It has answered one
// that may not.
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

// authorize asks all authorizers, and notes the headers that they have given the backend.
func (to *rule) authorize(x *exchange, out *http.Request, given http.Header) bool {
	if len(to.authorizers) > 0 && len(out.Header["Authorization"]) > 1 { // authorizers and backends could read different ones
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

// join makes one value of several (RFC 9110, 5.3) in what the authorizer sees: the backend could read another one of them than it did.
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

// admits asks the authorizer. What it does not allow in time, with 200, is denied. It notes the headers that it has given the backend.
func (a *authorizer) admits(x *exchange, out *http.Request, given http.Header) bool {
	ctx, cancel := context.WithTimeout(out.Context(), a.timeout())
	defer cancel()
	says, err := a.ask(ctx, out)
	switch {
	case err != nil || says.status >= http.StatusInternalServerError: // it is broken
		x.refuse(denied, http.StatusForbidden, "")
		return false
	case says.status != http.StatusOK:
		a.deny(x, says)
		return false
	}
	a.change(x, out, says.header, given)
	return true
}

// ruling is the answer of an authorizer.
type ruling struct {
	status int
	header http.Header
	text   []byte
}

// ask sends the head of a request. An answer that is not whole is an error.
func (a *authorizer) ask(ctx context.Context, out *http.Request) (ruling, error) {
	var head httplimit.HeadAccount
	answer, err := forward.RoundTrip(a.transport, a.question(out).WithContext(head.With(ctx)), &head)
	if err != nil {
		return ruling{}, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode < http.StatusOK { // another protocol
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
	if a.include.has(headerForwardedFor) {
		addHop(header, out.RemoteAddr)
	}
	for name, value := range a.IncludeAdditionalHeadersInCheck {
		header.Set(name, value)
	}
	if header["User-Agent"] == nil {
		header["User-Agent"] = nil // or net/http names itself
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

// deny answers as the authorizer does.
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

// change gives the backend and the caller what an authorizer that allows has for them.
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

// forget takes away what a caller says in the authorizer's place. Authorization and Cookie mean something without it, and stay.
func (a *authorizer) forget(header http.Header) {
	for name := range header {
		if plain := http.CanonicalHeaderKey(dashes(name)); a.upstream.has(plain) && plain != "Authorization" && plain != "Cookie" {
			delete(header, name)
		}
	}
}
