package differential

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// request is what is sent to both, byte by byte.
type request struct {
	name string
	text string
	// rest is sent later, where it is anything.
	rest string
	// last says that the connection must be over behind the answer, without another one.
	last bool
}

// anyToken has no place in names.
var anyToken = regexp.MustCompile(`eyJ[\w-]+\.[\w.-]+`)

// corpus is what is exposed, and all requests.
type corpus struct {
	issuers  map[string]*issuer
	apiRules []apiRule
	requests []request

	note string // of the request that follows
}

func (c *corpus) expose(rules ...apiRule) { c.apiRules = append(c.apiRules, rules...) }

// noted has the next request with a note in its name, for what the name does not show.
func (c *corpus) noted(note string) *corpus {
	c.note = note
	return c
}

func (c *corpus) get(host, target string, headers ...string) {
	c.send("GET", host, target, "", headers...)
}

// send is an ordinary request with further headers, each as "Name: value".
func (c *corpus) send(method, host, target, body string, headers ...string) {
	lines := []string{method + " " + target + " HTTP/1.1", "Host: " + host}
	if body != "" || method == "POST" || method == "PUT" || method == "PATCH" {
		lines = append(lines, fmt.Sprintf("Content-Length: %d", len(body)))
	}
	lines = append(lines, headers...)
	if !slices.ContainsFunc(headers, func(h string) bool { return strings.HasPrefix(h, "Connection:") }) {
		lines = append(lines, "Connection: close")
	}
	name := method + " " + host + target
	switch {
	case c.note != "":
		name = c.note + ": " + name
	case len(headers) > 0:
		name += " with " + strings.Join(headers, ", ")
	}
	c.raw(name, strings.Join(lines, "\r\n")+"\r\n\r\n"+body)
}

func (c *corpus) raw(name, text string) {
	c.requests = append(c.requests, request{name: anyToken.ReplaceAllString(name, "TOKEN"), text: text})
	c.note = ""
}

func newCorpus(issuers map[string]*issuer) *corpus {
	c := &corpus{issuers: issuers}
	for _, area := range []func(*corpus){
		paths, encodings, order, hosts, methods, origins, headers, backends, tokens, tokenPlaces, manyIssuers, scopes, authorizers, malformed, bodies,
	} {
		area(c)
	}
	return c
}
