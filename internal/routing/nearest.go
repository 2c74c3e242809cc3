package routing

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

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
