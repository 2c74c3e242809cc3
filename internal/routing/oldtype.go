package routing

import (
	"fmt"
	"strings"
)

// OldPrefix begins event types in Kyma's first format, which name their application themselves:
// prefix.application.object.operation.version. Their subject does not depend on the source, and only exact matching
// can mean them.
const OldPrefix = "sap.kyma.custom"

// oldSegments are application, object, operation and version.
const oldSegments = 4

// IsOldType reports whether a type is in Kyma's first format.
func IsOldType(eventType string) bool { return strings.HasPrefix(eventType, OldPrefix+".") }

// CleanOldType brings what a publisher wrote in Kyma's first format into its final form: what lies between application
// and operation becomes one segment, and letters and digits are all that stays. Its errors are words for the publisher.
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

// OldType is how Kyma's first format calls the events of an application that have this name and version. Unlike in what
// publishers write there, a name may be one segment and a version more than one. ok is false when the format has no name
// for them.
func OldType(application, name, version string) (eventType string, ok bool) {
	eventType = oldType(application, name, CleanType(version))
	return eventType, !HasEmptySegment(eventType)
}

// NameInOldType is what a type in Kyma's first format says behind its application, if it is this one.
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

// alphanumeric joins the letters and digits of a text.
func alphanumeric(text string) string {
	return strings.Map(func(r rune) rune {
		if (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9') {
			return r
		}
		return -1
	}, text)
}
