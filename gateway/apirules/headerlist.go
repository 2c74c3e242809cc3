package apirules

import (
	"fmt"
	"net/http"
	"strings"
)

// maxListed is how many headers a list of an authorizer may have.
const maxListed = 64

// headerList is a list of headers.
type headerList struct {
	exact              map[string]bool // in canonical form
	prefixes, suffixes []string        // in small letters
}

func newHeaderList(names []string) (headerList, error) {
	list := headerList{exact: map[string]bool{}}
	if len(names) > maxListed {
		return list, fmt.Errorf("has %d names, at most %d are supported", len(names), maxListed)
	}
	for _, name := range names {
		prefix, isPrefix := strings.CutSuffix(name, "*")
		suffix, isSuffix := strings.CutPrefix(name, "*")
		switch {
		case isPrefix && isToken(prefix) && !strings.Contains(prefix, "*"):
			list.prefixes = append(list.prefixes, strings.ToLower(prefix))
		case isSuffix && isToken(suffix) && !strings.Contains(suffix, "*"):
			list.suffixes = append(list.suffixes, strings.ToLower(suffix))
		case isToken(name) && !strings.Contains(name, "*"):
			list.exact[http.CanonicalHeaderKey(name)] = true
		default:
			return list, fmt.Errorf("%q is no name of a header, nor the beginning or the end of one with an asterisk", name)
		}
	}
	return list, nil
}

func (l headerList) has(name string) bool {
	if l.exact[name] {
		return true
	}
	lower := strings.ToLower(name)
	for _, prefix := range l.prefixes {
		if strings.HasPrefix(lower, prefix) {
			return true
		}
	}
	for _, suffix := range l.suffixes {
		if strings.HasSuffix(lower, suffix) {
			return true
		}
	}
	return false
}
