package git

import (
	"cmp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

const (
	shown = 5
	// misspelt is how many letters of a name may be wrong for another one to be meant.
	misspelt = 3
	// maxHints is for how many references names are looked for that are like them.
	maxHints = 8
	maxShown = 100 // bytes of a name
)

// selection is what is kept of a list of references while it is read: the commits of those that are wanted, and a few names for
// messages.
type selection struct {
	wanted   map[string]bool   // full names
	commits  map[string]string // by full name
	near     []nearest
	branches names
}

func newSelection(references []string) *selection {
	s := &selection{wanted: map[string]bool{}, commits: map[string]string{}}
	for _, reference := range references {
		reference = strings.TrimSpace(reference)
		if IsCommit(reference) {
			continue
		}
		for _, name := range namesOf(reference) {
			s.wanted[name] = true
		}
		if len(s.near) < maxHints {
			s.near = append(s.near, nearest{reference: reference})
		}
	}
	return s
}

// see takes one line of the list. An annotated tag comes again with the commit that it points to, which counts and not the tag's
// own object.
func (s *selection) see(full, commit []byte) {
	name := string(full)
	base, _ := strings.CutSuffix(name, "^{}")
	if s.wanted[base] {
		s.commits[base] = string(commit)
	}
	short, isBranch := strings.CutPrefix(name, branches)
	if !isBranch {
		var isTag bool
		if short, isTag = strings.CutPrefix(name, tags); !isTag {
			return
		}
	}
	if !isPlain(short) {
		return
	}
	if isBranch {
		s.branches.add(candidate{name: short})
	}
	for i := range s.near {
		s.near[i].add(short)
	}
}

// references are what has come of it.
func (s *selection) references() References {
	found := References{commits: s.commits, hints: map[string]string{}, hint: s.branches.list()}
	for _, near := range s.near {
		if len(near.names) > 0 {
			found.hints[near.reference] = near.names.list()
		}
	}
	return found
}

// nearest are the names that look most like a reference.
type nearest struct {
	reference string
	names     names
}

func (n *nearest) add(name string) {
	if d := distance(n.reference, name); d <= min(misspelt, len(n.reference)/2) {
		n.names.add(candidate{name, d})
	}
}

type candidate struct {
	name     string
	distance int
}

// names are the first ones in order of distance and alphabet, one more than are shown.
type names []candidate

func (n *names) add(c candidate) {
	at, found := slices.BinarySearchFunc(*n, c, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	if found || at > shown {
		return
	}
	*n = slices.Insert(*n, at, c)
	*n = (*n)[:min(len(*n), shown+1)]
}

// list is part of a message.
func (n names) list() string {
	if len(n) == 0 {
		return ""
	}
	text := ", but "
	for i, c := range n {
		switch {
		case i == shown:
			return text + ", ..."
		case i > 0:
			text += ", "
		}
		text += c.name
	}
	return text
}

// isPlain reports whether a name may be shown. Others are a server's words.
func isPlain(name string) bool {
	if name == "" || len(name) > maxShown || strings.IndexByte("._/+@#-", name[0]) >= 0 {
		return false
	}
	for i := range len(name) {
		letter := name[i]
		switch {
		case letter >= 'a' && letter <= 'z', letter >= 'A' && letter <= 'Z', letter >= '0' && letter <= '9':
		case strings.IndexByte("._/+@#-", letter) < 0:
			return false
		}
	}
	return true
}

// distance is how many letters differ, without regard to case; of names that are far apart only that they are.
func distance(a, b string) int {
	if diff := len(a) - len(b); diff > misspelt || -diff > misspelt {
		return misspelt + 1
	}
	return levenshtein.ComputeDistance(strings.ToLower(a), strings.ToLower(b))
}
