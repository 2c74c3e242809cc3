package expect

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Difference is an expectation that was not met, or something that no entry expects.
type Difference struct {
	// What names the thing, such as "emitted order.priced".
	What string
	// Line is that of the expectation, 0 for what is not expected.
	Line int
	// Lines describe the difference.
	Lines []string
}

// maxShown bounds the characters of a value in a difference.
const maxShown = 200

// Compare returns the differences between the expectations and a run, in the order of the file. A file without dead letters expects
// none.
func (f File) Compare(seen Observed) []Difference {
	found := f.Emitted.compare("emitted", emitted(seen.Emitted))
	found = append(found, f.Replies.compare("reply", replies(seen.Settled))...)
	dead := f.DeadLetters
	dead.Checked = true
	return append(found, dead.compare("dead letter", deadLetters(seen.Settled))...)
}

// compare pairs each entry with an observation of its own.
func (p Part) compare(what string, seen []observation) []Difference {
	if !p.Checked {
		return nil
	}
	of := p.pair(seen)
	used := map[int]bool{}
	for _, at := range of {
		used[at] = true
	}
	var found []Difference
	for i, entry := range p.Entries {
		if _, met := of[i]; met {
			continue
		}
		difference := Difference{What: what + " " + named(entry.Wanted), Line: entry.Line, Lines: []string{"expected, and there is none"}}
		if at, near := nearest(entry, seen, used); near {
			used[at] = true
			difference.Lines = mismatches("", entry.Wanted, seen[at])
		}
		found = append(found, difference)
	}
	for i := range seen {
		if !used[i] {
			found = append(found, Difference{What: what + " " + named(seen[i]), Lines: []string{"not expected" + withData(seen[i])}})
		}
	}
	return found
}

// pair returns the observation of each entry that has one. It finds a pairing of as many as possible: an entry that fits several
// observations leaves the one that another entry needs.
func (p Part) pair(seen []observation) map[int]int {
	entryOf := map[int]int{}
	var place func(entry int, tried map[int]bool) bool
	place = func(entry int, tried map[int]bool) bool {
		for at := range seen {
			if tried[at] || len(mismatches("", p.Entries[entry].Wanted, seen[at])) > 0 {
				continue
			}
			tried[at] = true
			if other, taken := entryOf[at]; !taken || place(other, tried) {
				entryOf[at] = entry
				return true
			}
		}
		return false
	}
	of := map[int]int{}
	for i := range p.Entries {
		place(i, map[int]bool{})
	}
	for at, entry := range entryOf {
		of[entry] = at
	}
	return of
}

// nearest returns the observation of the same type, id and Function, as far as the entry names them, that differs least.
func nearest(entry Entry, seen []observation, used map[int]bool) (at int, found bool) {
	least := 0
	for i := range seen {
		if used[i] || !sameKind(entry.Wanted, seen[i]) {
			continue
		}
		if n := len(mismatches("", entry.Wanted, seen[i])); !found || n < least {
			at, least, found = i, n, true
		}
	}
	return at, found
}

func sameKind(wanted map[string]any, seen observation) bool {
	for _, name := range []string{memberType, memberID, memberFunction} {
		if value, has := wanted[name]; has && len(differ(name, value, seen[name])) > 0 {
			return false
		}
	}
	return true
}

// mismatches returns a line for each member that is not as wanted. Those that are not wanted do not matter.
func mismatches(path string, wanted, seen map[string]any) []string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		at := path + name
		if value, has := seen[name]; has {
			lines = append(lines, differ(at, wanted[name], value)...)
		} else {
			lines = append(lines, fmt.Sprintf("%s: expected %s, and it is missing", at, shown(wanted[name])))
		}
	}
	return lines
}

// differ compares values. An object may have members that are not wanted; a list has exactly the wanted elements.
func differ(path string, wanted, seen any) []string {
	switch want := wanted.(type) {
	case map[string]any:
		if has, ok := seen.(map[string]any); ok {
			return mismatches(path+".", want, has)
		}
	case []any:
		if has, ok := seen.([]any); ok && len(has) == len(want) {
			var lines []string
			for i := range want {
				lines = append(lines, differ(path+"["+strconv.Itoa(i)+"]", want[i], has[i])...)
			}
			return lines
		}
	default:
		if same(path, wanted, seen) {
			return nil
		}
	}
	return []string{fmt.Sprintf("%s: expected %s, got %s", path, shown(wanted), shown(seen))}
}

// same compares values that are no objects and no lists. Numbers are equal by value, and a Function may be named without its namespace.
func same(path string, wanted, seen any) bool {
	switch want := wanted.(type) {
	case json.Number:
		has, ok := seen.(json.Number)
		return ok && (want == has || equalNumbers(want.String(), has.String()))
	case string:
		has, ok := seen.(string)
		short := path == memberFunction || path == memberSubscription
		return ok && (want == has || short && strings.HasSuffix(has, "/"+want))
	default:
		return wanted == seen
	}
}

// maxDigits bounds numbers that are compared by value: an exponent could make them take all memory.
const maxDigits = 40

func equalNumbers(a, b string) bool {
	if len(a) > maxDigits || len(b) > maxDigits {
		return false
	}
	if !strings.ContainsAny(a+b, "eE") {
		left, okLeft := new(big.Rat).SetString(a)
		right, okRight := new(big.Rat).SetString(b)
		return okLeft && okRight && left.Cmp(right) == 0
	}
	left, errLeft := strconv.ParseFloat(a, 64)
	right, errRight := strconv.ParseFloat(b, 64)
	return errLeft == nil && errRight == nil && left == right
}

// named names an entry or an observation by what identifies it.
func named(members map[string]any) string {
	var text strings.Builder
	add := func(before, name string) {
		if value, is := members[name].(string); is {
			if text.Len() > 0 {
				text.WriteString(" ")
			}
			text.WriteString(before + value)
		}
	}
	add("", memberType)
	add("", memberID)
	add("from ", memberSource)
	add("at ", memberFunction)
	if text.Len() == 0 {
		return shown(members)
	}
	return text.String()
}

// withData returns the data of an event, or the status of an answer.
func withData(seen observation) string {
	if data, has := seen["data"]; has {
		return ", with data " + shown(data)
	}
	if status, has := seen["status"]; has {
		return ", with status " + shown(status)
	}
	return ""
}

// shown returns a value as JSON, cut off where it is long.
func shown(value any) string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Sprint(value)
	}
	found := []rune(strings.TrimSpace(text.String()))
	if len(found) > maxShown {
		return string(found[:maxShown]) + "..."
	}
	return string(found)
}
