package jwt

import (
	"net/http"
	"net/url"
	"strings"
)

// place is where a token may be: in a header after the prefix, or else in a query parameter.
type place struct {
	header, prefix  string
	param           string
	authentications []int // whose tokens may be here, as indexes
}

func (p place) same(other place) bool {
	return p.header == other.header && p.prefix == other.prefix && p.param == other.param
}

// find returns a token and the index of its place. It counts to two: with several tokens none of them counts, as the gateway
// and a backend could read different ones.
func find(request *http.Request, places []place) (raw string, at, count int) {
	var query url.Values
	if request.URL.RawQuery != "" {
		query = request.URL.Query()
	}
	for i, p := range places {
		values := query[p.param]
		if p.header != "" {
			values = request.Header[p.header]
		}
		for _, value := range values {
			rest, there := strings.CutPrefix(value, p.prefix)
			if !there {
				continue
			}
			if count++; count > 1 {
				return "", 0, count
			}
			raw, at = rest, i
			if p.header != "" {
				raw = strings.Trim(rest, " ")
			}
		}
	}
	return raw, at, count
}
