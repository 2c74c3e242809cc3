package routing

import (
	"net/netip"
	"strings"

	"github.com/agnivade/levenshtein"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
)

// EventKind is what an event is as Subscriptions see it. Source is empty where it does not count.
type EventKind struct {
	Type   string
	Source string
}

// String names it for people.
func (k EventKind) String() string {
	if k.Source == "" {
		return k.Type
	}
	return k.Type + " from " + k.Source
}

// Interest holds the events that all Subscriptions together take.
type Interest struct {
	subjects  map[string]bool
	wildcards []TypeMapping
	kinds     []EventKind // those without wildcards, in the order of the Subscriptions
}

// InterestOf returns the interest of Subscriptions.
func InterestOf(specs []eventingv1alpha2.SubscriptionSpec) Interest {
	s := Interest{subjects: map[string]bool{}}
	for i := range specs {
		spec := &specs[i]
		exact := spec.TypeMatching == eventingv1alpha2.TypeMatchingExact
		for _, eventType := range spec.Types {
			subject := Subject(spec.Source, eventType, exact)
			if exact && strings.ContainsAny(subject, "*>") {
				s.wildcards = append(s.wildcards, TypeMapping{Subject: subject})
				continue
			}
			s.kinds = append(s.kinds, kindOf(spec.Source, eventType, exact))
			s.subjects[subject] = true
		}
	}
	return s
}

// kindOf is how an event has to be published for a type of a Subscription.
func kindOf(source, eventType string, exact bool) EventKind {
	if !exact {
		return EventKind{Type: eventType, Source: source}
	}
	if first, rest, found := strings.Cut(eventType, "."); found && !IsOldType(eventType) {
		return EventKind{Type: rest, Source: first}
	}
	return EventKind{Type: eventType}
}

// Takes reports whether an event comes to any Subscription, filters aside.
func (s Interest) Takes(event EventKind) bool {
	subject := subjectOf(event)
	if s.subjects[subject] {
		return true
	}
	for _, wildcard := range s.wildcards {
		if wildcard.Matches(subject) {
			return true
		}
	}
	return false
}

// subjectOf returns the subject of an event.
func subjectOf(event EventKind) string {
	if IsOldType(event.Type) {
		if clean, err := CleanOldType(event.Type); err == nil {
			return Subject("", clean, true)
		}
	}
	return Subject(event.Source, event.Type, false)
}

// Explain returns a message that no Subscription takes an event, with the event that may have been meant. It is empty when one does.
func (s Interest) Explain(event EventKind) string {
	if s.Takes(event) {
		return ""
	}
	const none = "no Subscription takes it"
	if meant, ok := s.Nearest(event); ok {
		return none + "; did you mean " + meant.String() + "?"
	}
	return none
}

const (
	// share of a name that may be wrong: one character in four.
	share = 4
	// shortest is the length from which on a name may have a wrong character at all.
	shortest = 3
	// longest is the length up to which names are compared.
	longest = 200
)

// Nearest is what the publisher of an event may have meant: the kind with the nearest type, and of those the one with
// the nearest source. Upper and lower case count as the same.
func (s Interest) Nearest(event EventKind) (nearest EventKind, ok bool) {
	var least distance
	for _, kind := range s.kinds {
		away, near := distanceOf(event, kind)
		if near && (!ok || away.less(least)) {
			nearest, least, ok = kind, away, true
		}
	}
	return nearest, ok
}

// distance is in characters.
type distance struct{ kind, source int }

func (d distance) less(other distance) bool {
	return d.kind < other.kind || d.kind == other.kind && d.source < other.source
}

// distanceOf is near only if the types are. A source may be wrong altogether: it is often made up.
func distanceOf(event, kind EventKind) (away distance, near bool) {
	if away.kind, near = between(event.Type, kind.Type); !near {
		return away, false
	}
	if kind.Source == "" {
		return away, true
	}
	if away.source, near = between(event.Source, kind.Source); !near {
		away.source = longest // further than any that is near
	}
	return away, true
}

func between(a, b string) (characters int, near bool) {
	if len(a) > longest || len(b) > longest {
		return 0, a == b
	}
	a, b = strings.ToLower(a), strings.ToLower(b)
	allowed := allowedIn(min(len(a), len(b)))
	if max(len(a), len(b))-min(len(a), len(b)) > allowed*maxBytes {
		return 0, false // which needs no comparison
	}
	characters = levenshtein.ComputeDistance(a, b)
	return characters, characters <= allowed
}

// maxBytes is what one character may take.
const maxBytes = 4

func allowedIn(length int) int {
	if length < shortest {
		return 0
	}
	return max(1, length/share)
}

// NeverSink reports whether an address is one that no policy can allow: that of the caller itself, of its link, or
// of the service that gives a machine its credentials. It is also asked of what a sink's name resolves to.
func NeverSink(address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	return !address.IsValid() || address.IsUnspecified() || address.IsLoopback() || address.IsMulticast() ||
		address.IsLinkLocalUnicast() || address.IsInterfaceLocalMulticast() || isMetadata(address)
}

// isMetadata knows the addresses of cloud metadata that are not link-local.
func isMetadata(address netip.Addr) bool {
	switch address.String() {
	case "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254", "255.255.255.255":
		return true
	default:
		return address.Is4() && address.As4()[0] == 0 // this network
	}
}

// neverHost reports whether a name is one for such an address.
func neverHost(host string) bool {
	switch host {
	case "localhost", "metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal":
		return true
	default:
		return strings.HasSuffix(host, ".localhost")
	}
}
