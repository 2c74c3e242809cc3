package apirules

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/apirule"
)

// table is all that is served at a time. It does not change.
type table struct {
	exact    map[string]*host
	wildcard map[string]*host // by what follows the asterisk and its dot
	loaded   map[types.NamespacedName]*host
}

func newTable() *table {
	return &table{exact: map[string]*host{}, wildcard: map[string]*host{}, loaded: map[types.NamespacedName]*host{}}
}

// compileAll takes over what did not change, validators with what they know of tokens and counts of requests included.
func (e *Exposed) compileAll(exposures []apirule.Exposure, before *table) *table {
	next := newTable()
	for i := range exposures {
		each := &exposures[i]
		fingerprint, err := each.Fingerprint()
		if err != nil { // it cannot be told, so it must not be served
			e.deps.Log.Error(err, "cannot load an APIRule", "namespace", each.APIRule.Namespace, "apirule", each.APIRule.Name)
			continue
		}
		compiled := before.loaded[each.APIRule]
		if compiled == nil || compiled.fingerprint != fingerprint {
			compiled = e.compile(each, fingerprint)
		}
		next.add(compiled)
	}
	return next
}

func (t *table) add(h *host) {
	t.loaded[h.apiRule] = h
	names, name := t.exact, h.name
	if rest, ok := strings.CutPrefix(name, wildcard); ok {
		names, name = t.wildcard, rest
	}
	if _, taken := names[name]; name != "" && !taken {
		names[name] = h
	}
}

func (t *table) hosts() int { return len(t.exact) + len(t.wildcard) }

// find returns what serves a host: the most specific one, and no other.
func (t *table) find(name string) *host {
	if h := t.exact[name]; h != nil {
		return h
	}
	for {
		_, rest, found := strings.Cut(name, ".")
		if !found {
			return nil
		}
		if h := t.wildcard[rest]; h != nil && len(name) > len(rest)+1 {
			return h
		}
		name = rest
	}
}

// uris lists where the keys of issuers are, by the namespaces of those who name them.
func (t *table) uris() map[string][]string {
	all := map[string][]string{}
	for _, h := range t.loaded {
		for i := range h.rules {
			all[h.apiRule.Namespace] = append(all[h.apiRule.Namespace], h.rules[i].keyURIs...)
		}
	}
	for namespace, uris := range all {
		slices.Sort(uris)
		all[namespace] = slices.Compact(uris)
	}
	return all
}
