package apirules

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/gateway/forward"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/httplimit"
)

// maxHost is how long a host of requests may be.
const maxHost = 255

const wildcard = "*."

// host is an Exposure as requests need it. It does not change.
type host struct {
	apiRule     types.NamespacedName
	id          string // of the APIRule
	fingerprint string
	name        string // empty: nothing is served
	cors        *cors
	routes      []apirule.Route // of the rules, in their order
	rules       []rule
	problems    apirule.Problems
}

// enter takes a place for a request: one of its namespace, one of its APIRule, and of these one of its caller.
func (x *exchange) enter(h *host, r *http.Request) bool {
	from := forward.Of(r)
	ok, evicted := x.all.places.Take(&x.place, from,
		httplimit.Key{Name: h.apiRule.Namespace}, httplimit.Key{Name: h.id}, httplimit.Key{Name: h.id + " " + from.Key.Name, Unshared: from.Key.Unshared})
	x.all.metrics.evicted.Add(float64(evicted))
	return ok
}

// hostOf is the host that a request names, without its port, in lower case.
func hostOf(authority string) string {
	name := authority
	if colon := strings.LastIndexByte(name, ':'); colon >= 0 && !strings.HasSuffix(name, "]") {
		name = name[:colon]
	}
	if len(name) > maxHost {
		return ""
	}
	return strings.ToLower(name)
}
