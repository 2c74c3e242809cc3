package journal

import (
	"slices"
	"strings"
	"time"
)

// Query picks records. What is empty picks all.
type Query struct {
	ID           string
	Trace        string
	Cause        string
	Source       string
	Type         string // or its beginning and a *: order.*
	Namespace    string
	Subscription string
	Kinds        []Kind
	Since        time.Time // and later
	Limit        int       // the last ones of those that are remembered; 0: all
}

// Matches reports whether a record is one that is asked for. Skipped always is: it says that some may be missing.
func (q Query) Matches(r Record) bool {
	return r.Kind == Skipped || q.matches(&r)
}

func (q *Query) matches(r *Record) bool {
	return is(q.ID, r.ID) && is(q.Trace, r.Trace) && is(q.Cause, r.Cause) && is(q.Source, r.Source) &&
		q.matchesType(r.Type) &&
		(q.Namespace == "" || q.Namespace == r.Namespace) && (q.Subscription == "" || q.Subscription == r.Subscription) &&
		(len(q.Kinds) == 0 || slices.Contains(q.Kinds, r.Kind)) &&
		!r.Time.Before(q.Since)
}

func (q *Query) matchesType(name string) bool {
	prefix, wild := strings.CutSuffix(q.Type, "*")
	return is(q.Type, name) || wild && strings.HasPrefix(name, prefix)
}

// is compares with what is kept of a text.
func is(wanted, text string) bool { return wanted == "" || cut(wanted) == text }
