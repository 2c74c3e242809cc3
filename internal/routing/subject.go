package routing

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// SubjectPrefix is the first token of every event subject.
const SubjectPrefix = "kyma"

// MaxSubject keeps subjects within the length of a NATS protocol line. A longer one would close the connection of all
// publishers.
const MaxSubject = 1024

// redeliverySource takes the place of the source in redelivery subjects. No event of a publisher may have it.
const redeliverySource = "rouse-redelivery"

// RedeliverySubject returns the subject of events that are redelivered to one consumer alone.
func RedeliverySubject(consumer string) string {
	return SubjectPrefix + "." + redeliverySource + "." + consumer
}

// IsRedelivery reports whether a subject is a redelivery subject.
func IsRedelivery(subject string) bool {
	return strings.HasPrefix(subject, SubjectPrefix+"."+redeliverySource+".")
}

// DeadLetterPrefix is the prefix of the subjects of dead letters.
const DeadLetterPrefix = "rouse.deadletter"

// DeadLetterSubject returns the subject of a Subscription's dead letters.
func DeadLetterSubject(subscription types.NamespacedName) string {
	return DeadLetterPrefix + "." + subscription.Namespace + "." + subscription.Name
}

// ErrInvalidSubject means that a source and an event type do not form a valid NATS subject, for example because a
// segment is empty.
var ErrInvalidSubject = errors.New("invalid subject")

// unclean lists the characters that are removed from types. A source also loses its dots, so that it is a single token.
const unclean = "\t\n\f\r >*/\\"

// CleanSource removes characters that a single subject token cannot contain.
func CleanSource(source string) string {
	return remove(source, unclean+".")
}

// CleanType removes characters that subject tokens cannot contain and keeps the dots between them. It never merges
// segments: see HasEmptySegment.
func CleanType(eventType string) string {
	return remove(eventType, unclean)
}

// Subject returns the subject of events of a type from a source. With exact the type is used unchanged, including
// wildcards, and the source is ignored.
func Subject(source, eventType string, exact bool) string {
	if exact {
		return SubjectPrefix + "." + eventType
	}
	return SubjectPrefix + "." + CleanSource(source) + "." + CleanType(eventType)
}

// HasEmptySegment reports whether one of the dot-separated segments is empty. NATS rejects such a subject, so events
// and Subscriptions that lead to one have to be rejected as well.
func HasEmptySegment(subject string) bool {
	for segment := range strings.SplitSeq(subject, ".") {
		if segment == "" {
			return true
		}
	}
	return false
}

func remove(s, characters string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(characters, r) {
			return -1
		}
		return r
	}, s)
}

// checkFilter returns an error for a subject that JetStream does not accept as a filter.
func checkFilter(subject string) error {
	switch {
	case len(subject) > MaxSubject:
		return fmt.Errorf("%w: source and type are longer than NATS reads", ErrInvalidSubject)
	case HasEmptySegment(subject):
		return fmt.Errorf("%w %q: empty segment", ErrInvalidSubject, subject)
	case strings.ContainsAny(subject, "\t\n\f\r \x00"):
		return fmt.Errorf("%w %q: white space", ErrInvalidSubject, subject)
	case strings.Contains(strings.TrimSuffix(subject, ">"), ">"):
		return fmt.Errorf("%w %q: the wildcard > must come last", ErrInvalidSubject, subject)
	case hasPartialWildcard(subject):
		return fmt.Errorf("%w %q: the wildcard * must be a whole segment", ErrInvalidSubject, subject)
	default:
		return nil
	}
}

// hasPartialWildcard reports whether a segment contains a * and other characters. No event has such a subject, but the
// server treats some as a wildcard when it compares filters.
func hasPartialWildcard(subject string) bool {
	for segment := range strings.SplitSeq(subject, ".") {
		if segment != "*" && strings.Contains(segment, "*") {
			return true
		}
	}
	return false
}

// filters removes duplicates and keeps the order. It also removes subjects that a wildcard among the others covers,
// because JetStream rejects overlapping filters.
func filters(subjects []string) []string {
	kept := make([]string, 0, len(subjects))
	for i, subject := range subjects {
		covered := false
		for j, other := range subjects {
			if i == j || !covers(other, subject) {
				continue
			}
			covered = covered || j < i || !covers(subject, other)
		}
		if !covered {
			kept = append(kept, subject)
		}
	}
	return kept
}

// covers reports whether a matches every subject that b matches.
func covers(a, b string) bool {
	if a == b {
		return true
	}
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i, token := range as {
		switch {
		case token == ">":
			return len(bs) > i
		case i >= len(bs) || bs[i] == ">":
			return false
		case token != "*" && token != bs[i]:
			return false
		}
	}
	return len(as) == len(bs)
}

// Matches reports whether events of the subject have the type.
func (t TypeMapping) Matches(subject string) bool { return covers(t.Subject, subject) }

// OldPrefix is the prefix of event types in Kyma's first format, which contain the application:
// prefix.application.object.operation.version. Their subject does not depend on the source, and only exact matching can
// select them.
const OldPrefix = "sap.kyma.custom"

// oldSegments is the number of segments: application, object, operation and version.
const oldSegments = 4

// IsOldType reports whether a type is in Kyma's first format.
func IsOldType(eventType string) bool { return strings.HasPrefix(eventType, OldPrefix+".") }

// CleanOldType converts a publisher's type in Kyma's first format to its final form: the part between application and
// operation becomes one segment, and only letters and digits remain. Its errors are for the publisher.
func CleanOldType(eventType string) (string, error) {
	rest := strings.TrimPrefix(eventType, OldPrefix+".")
	segments := strings.Split(rest, ".")
	if len(segments) < oldSegments || HasEmptySegment(rest) {
		return "", fmt.Errorf("event type must have an application, an object, an operation and a version after its prefix: %s", eventType)
	}
	last := len(segments) - 1
	clean := oldType(segments[0], strings.Join(segments[1:last], "."), alphanumeric(segments[last]))
	if HasEmptySegment(clean) {
		return "", fmt.Errorf("event type cannot have empty segments after cleaning: %s", clean)
	}
	return clean, nil
}

// OldType returns the type in Kyma's first format of an application's events with this name and version. In contrast to
// publishers' types in that format, a name may have one segment and a version several. ok is false when the format
// cannot represent them.
func OldType(application, name, version string) (eventType string, ok bool) {
	eventType = oldType(application, name, CleanType(version))
	return eventType, !HasEmptySegment(eventType)
}

// NameInOldType returns the part of a type in Kyma's first format after the application, if it is this one.
func NameInOldType(application, eventType string) (nameAndVersion string, ok bool) {
	for _, name := range []string{application, alphanumeric(application)} {
		if rest, found := strings.CutPrefix(eventType, OldPrefix+"."+name+"."); found {
			return rest, true
		}
	}
	return "", false
}

func oldType(application, name, version string) string {
	operation := name
	object := ""
	if dot := strings.LastIndexByte(name, '.'); dot >= 0 {
		object, operation = alphanumeric(name[:dot])+".", name[dot+1:]
	}
	return OldPrefix + "." + alphanumeric(application) + "." + object + alphanumeric(operation) + "." + version
}

// alphanumeric returns only the letters and digits of a text.
func alphanumeric(text string) string {
	return strings.Map(func(r rune) rune {
		if (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9') {
			return r
		}
		return -1
	}, text)
}
