package routing

import (
	"strings"

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

// Interest is what all Subscriptions together take.
type Interest struct {
	subjects  map[string]bool
	wildcards []TypeMapping
	kinds     []EventKind // those without wildcards, in the order of the Subscriptions
}

// InterestOf reads what Subscriptions ask for.
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

// subjectOf is where an event is stored.
func subjectOf(event EventKind) string {
	if IsOldType(event.Type) {
		if clean, err := CleanOldType(event.Type); err == nil {
			return Subject("", clean, true)
		}
	}
	return Subject(event.Source, event.Type, false)
}

// Explain says for people that no Subscription takes an event, and what may have been meant. It is empty when one does.
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
