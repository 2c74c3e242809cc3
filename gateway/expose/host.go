package expose

import (
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/apirule"
)

// maxHost is how long a host of requests may be.
const maxHost = 255

const wildcard = "*."

// host is an Exposure as requests need it. It does not change.
type host struct {
	apiRule     types.NamespacedName
	fingerprint string
	name        string // empty: nothing is served
	cors        *cors
	routes      []apirule.Route // of the rules, in their order
	rules       []rule
	problems    apirule.Problems

	running atomic.Int64 // requests
}

// enter counts a request, until leave. It is false when already so many run.
func (h *host) enter(limit int) bool {
	if h.running.Add(1) > int64(limit) {
		h.leave()
		return false
	}
	return true
}

func (h *host) leave() { h.running.Add(-1) }

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
