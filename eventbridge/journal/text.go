package journal

import "strings"

// MaxText is how many bytes of an id, a source or a type are kept.
const MaxText = 512

// own replaces the texts of an event by cut copies that keep nothing else alive. They share one allocation.
func (r *Record) own() {
	texts := [...]*string{&r.ID, &r.Source, &r.Type, &r.Cause, &r.Trace}
	size := 0
	for _, text := range texts {
		*text = cut(*text)
		size += len(*text)
	}
	if size == 0 {
		return
	}
	var all strings.Builder
	all.Grow(size)
	for _, text := range texts {
		all.WriteString(*text)
	}
	rest := all.String()
	for _, text := range texts {
		*text, rest = rest[:len(*text)], rest[len(*text):]
	}
}

func cut(text string) string {
	if len(text) <= MaxText {
		return text
	}
	return strings.ToValidUTF8(text[:MaxText], "")
}
