package entrance

import (
	"crypto/tls"
	"errors"
	"strings"
)

// table finds certificates by name. It does not change.
type table struct {
	all   []*certificate // in the order of their folders
	names map[string][]*certificate
}

var errNoCertificate = errors.New("there is no certificate")

func newTable(all []*certificate) *table {
	t := &table{all: all, names: map[string][]*certificate{}}
	for _, each := range all {
		for _, name := range each.leaf.DNSNames {
			name = strings.ToLower(strings.TrimSuffix(name, "."))
			t.names[name] = append(t.names[name], each)
		}
	}
	return t
}

// find returns the certificate of the very name, or of a wildcard in place of its first label, or the first that there is. Of several
// it takes the one that is valid for longest, among those that the client understands.
func (t *table) find(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	_, parent, _ := strings.Cut(name, ".")
	for _, candidates := range [][]*certificate{t.names[name], t.names["*."+parent]} {
		if found := best(candidates, hello); found != nil {
			return &found.pair, nil
		}
	}
	if len(t.all) == 0 {
		return nil, errNoCertificate
	}
	return &t.all[0].pair, nil
}

func best(candidates []*certificate, hello *tls.ClientHelloInfo) *certificate {
	var found *certificate
	for _, each := range candidates {
		if found != nil && !each.leaf.NotAfter.After(found.leaf.NotAfter) {
			continue
		}
		if len(candidates) == 1 || hello.SupportsCertificate(&each.pair) == nil {
			found = each
		}
	}
	return found
}
