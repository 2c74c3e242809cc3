package apirules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	defaultCheckTimeout = 5 * time.Second
	maxCheckTimeout     = 60 * time.Second
	maxAuthorizers      = 64
)

// Authorizer is a service of the operator's that rules ask who is let in. Its lists of headers have names, or names with an asterisk at
// the beginning or at the end.
type Authorizer struct {
	Name string `json:"name"`
	// Service is its host, and Port its port.
	Service string `json:"service"`
	Port    int32  `json:"port"`
	// Path comes before that of the request.
	Path string `json:"path,omitempty"`
	// TimeoutSeconds is how long an answer may take; 0: 5 seconds.
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
	// IncludeRequestHeadersInCheck are those of the caller that it sees, beside Authorization.
	IncludeRequestHeadersInCheck []string `json:"includeRequestHeadersInCheck,omitempty"`
	// IncludeAdditionalHeadersInCheck are those that it sees in any case.
	IncludeAdditionalHeadersInCheck map[string]string `json:"includeAdditionalHeadersInCheck,omitempty"`
	// HeadersToUpstreamOnAllow are those of its answer that the backend gets in place of the caller's.
	HeadersToUpstreamOnAllow []string `json:"headersToUpstreamOnAllow,omitempty"`
	// HeadersToDownstreamOnAllow are those of its answer that the caller gets with the backend's.
	HeadersToDownstreamOnAllow []string `json:"headersToDownstreamOnAllow,omitempty"`
	// HeadersToDownstreamOnDeny are those of its answer that the caller gets; without any, all.
	HeadersToDownstreamOnDeny []string `json:"headersToDownstreamOnDeny,omitempty"`
}

// ParseAuthorizers reads a list of them as JSON.
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

// check finds what cannot be served.
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
