package conversion

import (
	"regexp"
	"strings"

	"github.com/rouse-run/rouse/internal/apirule"
)

// everySuffix are the ends of regular expressions that stand for any characters.
var everySuffix = []string{"(.*)", ".*"}

// literal is a path in which no character means anything to a regular expression but the dot, which stands for itself in practice.
var literal = regexp.MustCompile(`^(/([A-Za-z0-9._~!&',;=:@-]|%[0-9a-fA-F]{2})*)+$`)

// unescape takes the backslashes from characters that have a meaning.
var unescape = strings.NewReplacer(`\.`, `.`, `\-`, `-`, `\/`, `/`)

// pathsOf are those of v2 that stand for a regular expression, in their order. They are none when there are no such paths.
func pathsOf(old string) []string {
	if _, err := apirule.ParsePattern(old); err == nil && (old == "/*" || strings.Contains(old, "{")) {
		return []string{old} // it was written with the operators of v2
	}
	stem, every := unescape.Replace(old), false
	for _, suffix := range everySuffix {
		if cut, found := strings.CutSuffix(old, suffix); found {
			stem, every = unescape.Replace(cut), true
			break
		}
	}
	switch {
	case !literal.MatchString(stem):
		return nil
	case !every:
		return []string{stem}
	case stem == "/":
		return []string{"/*"}
	case strings.HasSuffix(stem, "/"):
		return []string{stem + "{**}"}
	default:
		return []string{stem, stem + "/{**}"}
	}
}
