package apirules

import (
	"maps"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/apirule"
)

// standing is how an APIRule stands: what was decided of it, and what the gateways say.
type standing struct {
	exposure    apirule.Exposure
	fingerprint string
	// gateways is how many answer.
	gateways int
	// behind are the addresses of those of them that serve it otherwise, or not yet.
	behind []string
	// problems are those that only gateways see.
	problems apirule.Problems
}

// table is how all APIRules stand. It is safe for concurrent use.
type table struct {
	routed func(*apirule.Exposure) bool // says whether an HTTPRoute leads to it

	mu         sync.Mutex
	decided    []apirule.Exposure
	prints     []string
	reports    map[string]apirule.Report // by address; nil until the gateways were asked
	standings  map[types.NamespacedName]standing
	namespaces map[string]bool // that have routed APIRules
	complete   chan struct{}   // is closed when both is known
	closed     bool
}

func newTable(routed func(*apirule.Exposure) bool) *table {
	return &table{routed: routed, complete: make(chan struct{})}
}

// decide takes over what all APIRules amount to. It returns those that stand otherwise now.
func (t *table) decide(all []apirule.Exposure) ([]types.NamespacedName, error) {
	prints := make([]string, len(all))
	for i := range all {
		fingerprint, err := all[i].Fingerprint()
		if err != nil {
			return nil, err
		}
		prints[i] = fingerprint
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.decided, t.prints = all, prints
	return t.update(), nil
}

// report takes over what the gateways that answer say. It returns the APIRules that stand otherwise now.
func (t *table) report(reports map[string]apirule.Report) []types.NamespacedName {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reports = reports
	return t.update()
}

// update computes all standings again, once both is known.
func (t *table) update() []types.NamespacedName {
	if t.reports == nil || t.prints == nil {
		return nil
	}
	before := t.standings
	t.standings, t.namespaces = make(map[types.NamespacedName]standing, len(t.decided)), map[string]bool{}
	var changed []types.NamespacedName
	for i := range t.decided {
		e := &t.decided[i]
		now := standingOf(e, t.prints[i], t.reports)
		t.standings[e.APIRule] = now
		if t.routed(e) {
			t.namespaces[e.APIRule.Namespace] = true
		}
		if was, known := before[e.APIRule]; !known || was.differs(&now) {
			changed = append(changed, e.APIRule)
		}
		delete(before, e.APIRule)
	}
	for gone := range before {
		changed = append(changed, gone)
	}
	if !t.closed {
		t.closed = true
		close(t.complete)
	}
	return changed
}

// differs compares what a status depends on; the fingerprint stands for the exposure.
func (s *standing) differs(other *standing) bool {
	return s.fingerprint != other.fingerprint || (s.gateways == 0) != (other.gateways == 0) ||
		!slices.Equal(s.behind, other.behind) || !reflect.DeepEqual(s.problems, other.problems)
}

// standingOf compares what was decided of an APIRule with what the gateways say.
func standingOf(e *apirule.Exposure, fingerprint string, reports map[string]apirule.Report) standing {
	s := standing{exposure: *e, fingerprint: fingerprint, gateways: len(reports)}
	name := e.APIRule.String()
	for address := range reports {
		loaded, known := reports[address].APIRules[name]
		if !known || loaded.Fingerprint != fingerprint {
			s.behind = append(s.behind, address)
			continue
		}
		for _, each := range loaded.Problems {
			problem := apirule.Problem{Attribute: each.Attribute, Message: each.Message, Closes: apirule.RuleAt(each.Rule)}
			if !slices.Contains(s.problems, problem) {
				s.problems = append(s.problems, problem)
			}
		}
	}
	slices.Sort(s.behind)
	slices.SortFunc(s.problems, byPlace)
	return s
}

// of is how an APIRule stands.
func (t *table) of(name types.NamespacedName) (standing, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, known := t.standings[name]
	return s, known
}

// isRouted reports whether HTTPRoutes of a namespace lead here.
func (t *table) isRouted(namespace string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.namespaces[namespace]
}

// routedNamespaces are those whose HTTPRoutes lead here.
func (t *table) routedNamespaces() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.namespaces))
}

// waits reports whether a gateway that answers has to load something yet.
func (t *table) waits() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name := range t.standings {
		if len(t.standings[name].behind) > 0 {
			return true
		}
	}
	return false
}
