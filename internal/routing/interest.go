package routing

import (
	"net/netip"
	"strings"

	"github.com/agnivade/levenshtein"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
)

// EventKind identifies the events that Subscriptions select. Source is empty where it is ignored.
type EventKind struct {
	Type   string
	Source string
}

// String returns a description for messages.
func (k EventKind) String() string {
	if k.Source == "" {
		return k.Type
	}
	return k.Type + " from " + k.Source
}

// Interest is the set of events that Subscriptions match.
type Interest struct {
	subjects  map[string]bool
	wildcards []TypeMapping
	kinds     []EventKind // without wildcards, in the order of the Subscriptions
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

// kindOf returns the kind of events that match a type of a Subscription.
func kindOf(source, eventType string, exact bool) EventKind {
	if !exact {
		return EventKind{Type: eventType, Source: source}
	}
	if first, rest, found := strings.Cut(eventType, "."); found && !IsOldType(eventType) {
		return EventKind{Type: rest, Source: first}
	}
	return EventKind{Type: eventType}
}

// Takes reports whether any Subscription matches an event, ignoring filters.
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

// Explain returns a message that no Subscription matches an event, with a suggestion. It is empty when a Subscription
// matches.
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
	// share is the divisor of a name's length that limits its typos: one character in four.
	share = 4
	// shortest is the minimum length of a name with typos.
	shortest = 3
	// longest is the maximum length of compared names.
	longest = 200
)

// Nearest returns the event that the publisher may have meant: the kind with the nearest type, and among those the one
// with the nearest source. It ignores case.
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

// distance is a number of edits in characters.
type distance struct{ kind, source int }

func (d distance) less(other distance) bool {
	return d.kind < other.kind || d.kind == other.kind && d.source < other.source
}

// distanceOf returns near only if the types are. The sources may differ completely: they are often made up.
func distanceOf(event, kind EventKind) (away distance, near bool) {
	if away.kind, near = between(event.Type, kind.Type); !near {
		return away, false
	}
	if kind.Source == "" {
		return away, true
	}
	if away.source, near = between(event.Source, kind.Source); !near {
		away.source = longest // further than any similar source
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
		return 0, false // no comparison is needed
	}
	characters = levenshtein.ComputeDistance(a, b)
	return characters, characters <= allowed
}

// maxBytes is the maximum length of a UTF-8 character.
const maxBytes = 4

func allowedIn(length int) int {
	if length < shortest {
		return 0
	}
	return max(1, length/share)
}

// NeverSink reports whether an address is one that no policy can allow: that of the caller itself, of its link, or of a
// cloud metadata service. It also applies to the addresses that a sink's name resolves to.
func NeverSink(address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	return !address.IsValid() || address.IsUnspecified() || address.IsLoopback() || address.IsMulticast() ||
		address.IsLinkLocalUnicast() || address.IsInterfaceLocalMulticast() || isMetadata(address)
}

// isMetadata reports the addresses of cloud metadata services that are not link-local.
func isMetadata(address netip.Addr) bool {
	switch address.String() {
	case "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254", "255.255.255.255":
		return true
	default:
		return address.Is4() && address.As4()[0] == 0 // this network
	}
}

// neverHost reports whether a name stands for such an address.
func neverHost(host string) bool {
	switch host {
	case "localhost", "metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal":
		return true
	default:
		return strings.HasSuffix(host, ".localhost")
	}
}
