package door

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"mime"
	"net/url"
	"slices"
	"strings"
)

// mostFields bounds the fields of a form, which are sorted.
const mostFields = 512

// twilioFields returns what is signed after the URL: the sorted fields of a form with their values, or nothing where the query has the
// hash of the body.
func twilioFields(r *Request) ([]byte, error) {
	query, err := url.ParseQuery(r.Query)
	if err != nil {
		return nil, ErrMalformed
	}
	if hashes, bound := query["bodySHA256"]; bound {
		sum := sha256.Sum256(r.Body)
		want, err := hex.DecodeString(hashes[0])
		if err != nil || len(hashes) != 1 || subtle.ConstantTimeCompare(want, sum[:]) != 1 {
			return nil, ErrSignature
		}
		return nil, nil
	}
	fields, ok := formOf(r)
	if !ok {
		return nil, ErrMalformed
	}
	var text bytes.Buffer
	for _, name := range sortedNames(fields) {
		values := slices.Compact(slices.Sorted(slices.Values(fields[name])))
		for _, value := range values {
			text.WriteString(name)
			text.WriteString(value)
		}
	}
	return text.Bytes(), nil
}

func sortedNames(fields url.Values) []string {
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// formOf returns the fields of a body that is a form.
func formOf(r *Request) (url.Values, bool) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if len(r.Body) == 0 {
		return nil, true
	}
	if err != nil || media != "application/x-www-form-urlencoded" || bytes.Count(r.Body, []byte{'&'}) >= mostFields {
		return nil, false
	}
	fields, err := url.ParseQuery(string(r.Body))
	return fields, err == nil
}

// twilioAddresses returns the URL as it may have been signed: with the query of the request, and with its port or without.
func twilioAddresses(public, query string) []string {
	base, _, _ := strings.Cut(public, "?")
	if query != "" {
		base += "?" + query
	}
	parsed, err := url.Parse(base)
	if err != nil {
		return []string{base}
	}
	scheme, rest, _ := strings.Cut(base, "://")
	after := rest[min(len(parsed.Host), len(rest)):]
	host := parsed.Hostname()
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	port := parsed.Port()
	if port == "" {
		port = map[string]string{"http": "80"}[scheme]
		if port == "" {
			port = "443"
		}
		return []string{base, scheme + "://" + host + ":" + port + after}
	}
	return []string{base, scheme + "://" + host + after}
}
