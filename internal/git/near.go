package git

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/rouse-run/rouse/internal/misspelling"
)

// plain is a name that may be shown. Others are a server's words.
var plain = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/+@#-]{0,99}$`)

const (
	shown = 5
	// misspelt is how many letters of a name may be wrong for another one to be meant.
	misspelt = 3
)

// hint names the branches and tags that look like the wanted one, or else some branches.
func (r References) hint(reference string) string {
	type candidate struct {
		name     string
		distance int
	}
	var near []candidate
	var all []string
	for full := range r.commits {
		name, isBranch := strings.CutPrefix(full, branches)
		if !isBranch {
			var isTag bool
			if name, isTag = strings.CutPrefix(full, tags); !isTag {
				continue
			}
		}
		if !plain.MatchString(name) {
			continue
		}
		if isBranch {
			all = append(all, name)
		}
		if d := distance(reference, name); d <= min(misspelt, len(reference)/2) {
			near = append(near, candidate{name, d})
		}
	}
	if len(near) == 0 {
		slices.Sort(all)
		return list(all)
	}
	slices.SortFunc(near, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	names := make([]string, len(near))
	for i := range near {
		names[i] = near[i].name
	}
	return list(slices.Compact(names))
}

func list(names []string) string {
	if len(names) == 0 {
		return ""
	}
	suffix := ""
	if len(names) > shown {
		names, suffix = names[:shown], ", ..."
	}
	return ", but " + strings.Join(names, ", ") + suffix
}

// distance is how many letters differ, without regard to case; of names that are far apart only that they are.
func distance(a, b string) int {
	if diff := len(a) - len(b); diff > misspelt || -diff > misspelt {
		return misspelt + 1
	}
	return misspelling.Distance(a, b)
}
