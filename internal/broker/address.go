package broker

import (
	"strings"
	"unicode"

	"github.com/rouse-run/rouse/internal/routing"
)

const (
	// oldPrefix marks types in Kyma's first format, which name their application
	// themselves.
	oldPrefix = "sap.kyma.custom"
	// oldSegments are application, object, operation and version.
	oldSegments = 4
	// maxSubject keeps subjects within what a server reads as one protocol line.
	// A longer one would cost everybody the connection.
	maxSubject = 1024
)

// address is where an event is stored and how its type is written there.
type address struct {
	subject      string
	wireType     string
	keepOriginal bool // the publisher's type travels as an extension
}

func addressOf(source, eventType string) (address, error) {
	if rest, ok := strings.CutPrefix(eventType, oldPrefix+"."); ok {
		return oldAddress(rest, eventType)
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

// oldAddress joins what lies between application and operation into one segment.
func oldAddress(rest, eventType string) (address, error) {
	segments := strings.Split(rest, ".")
	if len(segments) < oldSegments || routing.HasEmptySegment(rest) {
		return address{}, &InvalidEventError{
			Reason: "event type must have an application, an object, an operation and a version after its prefix: " + eventType,
		}
	}
	last := len(segments) - 1
	cleaned := []string{
		oldPrefix, alphanumeric(segments[0]), alphanumeric(strings.Join(segments[1:last-1], "")),
		alphanumeric(segments[last-1]), alphanumeric(segments[last]),
	}
	wireType := strings.Join(cleaned, ".")
	if routing.HasEmptySegment(wireType) {
		return address{}, &InvalidEventError{Reason: "event type cannot have empty segments after cleaning: " + wireType}
	}
	subject := routing.SubjectPrefix + "." + wireType
	return address{subject: subject, wireType: wireType}, checkSubject(subject)
}

func alphanumeric(segment string) string {
	return strings.Map(func(r rune) rune {
		if (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9') {
			return r
		}
		return -1
	}, segment)
}

// checkSubject refuses what the server would not store under its subject.
func checkSubject(subject string) error {
	if len(subject) > maxSubject {
		return &InvalidEventError{Reason: "event source and type are too long"}
	}
	if strings.ContainsFunc(subject, unicode.IsControl) {
		return &InvalidEventError{Reason: "event source and type cannot have control characters"}
	}
	return nil
}
