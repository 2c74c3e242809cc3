package interest

import (
	"strings"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/routing"
)

// Kind is what an event is as Subscriptions see it. Source is empty where it does not count.
type Kind struct {
	Type   string
	Source string
}

// String names it for people.
func (k Kind) String() string {
	if k.Source == "" {
		return k.Type
	}
	return k.Type + " from " + k.Source
}

// Set is what all Subscriptions together take.
type Set struct {
	subjects  map[string]bool
	wildcards []routing.TypeMapping
	kinds     []Kind // those without wildcards, in the order of the Subscriptions
}

// New reads what Subscriptions ask for.
func New(specs []eventingv1alpha2.SubscriptionSpec) Set {
	s := Set{subjects: map[string]bool{}}
	for i := range specs {
		spec := &specs[i]
		exact := spec.TypeMatching == eventingv1alpha2.TypeMatchingExact
		for _, eventType := range spec.Types {
			subject := routing.Subject(spec.Source, eventType, exact)
			if exact && strings.ContainsAny(subject, "*>") {
				s.wildcards = append(s.wildcards, routing.TypeMapping{Subject: subject})
				continue
			}
			s.kinds = append(s.kinds, kindOf(spec.Source, eventType, exact))
			s.subjects[subject] = true
		}
	}
	return s
}

// kindOf is how an event has to be published for a type of a Subscription.
func kindOf(source, eventType string, exact bool) Kind {
	if !exact {
		return Kind{Type: eventType, Source: source}
	}
	if first, rest, found := strings.Cut(eventType, "."); found && !routing.IsOldType(eventType) {
		return Kind{Type: rest, Source: first}
	}
	return Kind{Type: eventType}
}

// Takes reports whether an event comes to any Subscription, filters aside.
func (s Set) Takes(event Kind) bool {
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
func subjectOf(event Kind) string {
	if routing.IsOldType(event.Type) {
		if clean, err := routing.CleanOldType(event.Type); err == nil {
			return routing.Subject("", clean, true)
		}
	}
	return routing.Subject(event.Source, event.Type, false)
}

// Explain says for people that no Subscription takes an event, and what may have been meant. It is empty when one does.
func (s Set) Explain(event Kind) string {
	if s.Takes(event) {
		return ""
	}
	const none = "no Subscription takes it"
	if meant, ok := s.Nearest(event); ok {
		return none + "; did you mean " + meant.String() + "?"
	}
	return none
}
