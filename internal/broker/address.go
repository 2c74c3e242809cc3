package broker

import (
	"strings"
	"unicode"

	"github.com/rouse-run/rouse/internal/routing"
)

// address is where an event is stored and how its type is written there.
type address struct {
	subject      string
	wireType     string
	keepOriginal bool // the publisher's type travels as an extension
}

func addressOf(source, eventType string) (address, error) {
	if routing.IsOldType(eventType) {
		clean, err := routing.CleanOldType(eventType)
		if err != nil {
			return address{}, &InvalidEventError{Reason: err.Error()}
		}
		subject := routing.SubjectPrefix + "." + clean
		return address{subject: subject, wireType: clean}, checkSubject(subject)
	}
	subject := routing.Subject(source, eventType, false)
	if routing.IsRedelivery(subject) {
		return address{}, &InvalidEventError{Reason: "event source is reserved: " + source}
	}
	if routing.HasEmptySegment(subject) {
		return address{}, &InvalidEventError{Reason: "event type cannot have empty segments after cleaning: " + subject}
	}
	return address{subject: subject, wireType: subject, keepOriginal: true}, checkSubject(subject)
}

// checkSubject refuses what the server would not store under its subject.
func checkSubject(subject string) error {
	if len(subject) > routing.MaxSubject {
		return &InvalidEventError{Reason: "event source and type are too long"}
	}
	if strings.ContainsFunc(subject, unicode.IsControl) {
		return &InvalidEventError{Reason: "event source and type cannot have control characters"}
	}
	return nil
}
