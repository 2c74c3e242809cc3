package cloudevent

import "strings"

// IsTypePattern reports whether a text may select events by type: a * may only end it.
func IsTypePattern(pattern string) bool {
	return !strings.Contains(strings.TrimSuffix(pattern, "*"), "*")
}

// MatchesType reports whether a type is the pattern, or begins as a pattern that ends with a *.
func MatchesType(pattern, eventType string) bool {
	prefix, open := strings.CutSuffix(pattern, "*")
	return eventType == pattern || open && strings.HasPrefix(eventType, prefix)
}
