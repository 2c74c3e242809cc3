package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/rouse-run/rouse/eventbridge/journal"
)

// widestSource bounds the shown part of an event's source.
const widestSource = 24

// duration formats d within seven cells.
func duration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "<1 ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 100*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 100*time.Minute:
		return fmt.Sprintf("%.0f min", d.Minutes())
	default:
		return fmt.Sprintf("%.0f h", d.Hours())
	}
}

func count(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// counted returns a number with the noun in singular or plural.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + many
}

// sentence joins the parts that are not empty.
func sentence(parts ...string) string {
	there := parts[:0]
	for _, part := range parts {
		if part != "" {
			there = append(there, part)
		}
	}
	return strings.Join(there, ", ")
}

// naming omits the namespace while all Functions are in one namespace.
type naming struct{ namespace string }

func namingOf(functions []Function) naming {
	if len(functions) == 0 {
		return naming{}
	}
	namespace := functions[0].Namespace
	for _, function := range functions {
		if function.Namespace != namespace {
			return naming{}
		}
	}
	return naming{namespace: namespace}
}

func (n naming) of(namespace, name string) string {
	if name == "" {
		return "rouse"
	}
	if namespace == "" || namespace == n.namespace {
		return name
	}
	return namespace + "/" + name
}

// sink formats the sink of a record: namespace/name, or a host.
func (n naming) sink(sink string) string {
	namespace, name, found := strings.Cut(sink, "/")
	if !found {
		return sink
	}
	return n.of(namespace, name)
}

// route formats the source and the sink of a record.
func (n naming) route(r journal.Record) string {
	source := tail(r.Source, widestSource)
	switch {
	case r.Kind == journal.Filtered:
		return source + " → filtered by " + r.Subscription
	case unwanted(r):
		return source + " → nobody"
	case r.Sink == "":
		return source + " → ..."
	case r.DeadLetter:
		return source + " → " + n.sink(r.Sink) + " (dead letter)"
	default:
		return source + " → " + n.sink(r.Sink)
	}
}

// tail cuts a text at its beginning, because ids and sources differ at the end.
func tail(text string, width int) string {
	if over := ansi.StringWidth(text) - width; over > 0 && width > 0 {
		return ansi.TruncateLeft(text, over+1, "…")
	}
	return text
}

// longest bounds the length of a text. Log lines may have any length.
const longest = 2000

// clean sanitizes a text of a Function or a publisher for a terminal: one line of bounded length, with printable characters of known width.
func clean(text string) string {
	if plainASCII(text) {
		return text[:min(len(text), longest)]
	}
	// This first cut bounds the work below.
	if len(text) > 8*longest {
		text = text[:8*longest]
	}
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	var kept strings.Builder
	count := 0
	for _, r := range ansi.Strip(text) {
		if count == longest {
			break
		}
		if r = harmless(r); r >= 0 {
			kept.WriteRune(r)
			count++
		}
	}
	return kept.String()
}

// cleanLines sanitizes a text of several lines.
func cleanLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := range lines {
		lines[i] = clean(strings.TrimRight(lines[i], "\r"))
	}
	return strings.Join(lines[:min(len(lines), 50)], "\n")
}

func plainASCII(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// harmless returns the character to show for r, or -1 for none.
func harmless(r rune) rune {
	switch {
	case r == '\t', r == '\n', r == '\r', unicode.In(r, unicode.Zl, unicode.Zp):
		return ' '
	case unicode.IsControl(r):
		return '·'
	case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Variation_Selector, r):
		// Directions, joiners and selectors: terminals disagree about their width.
		return -1
	default:
		return r
	}
}

// fit returns text in exactly width cells: cut with an ellipsis, or padded with spaces.
func fit(text string, width int) string {
	if width <= 0 {
		return ""
	}
	text = ansi.Truncate(text, width, "…")
	return text + strings.Repeat(" ", max(0, width-ansi.StringWidth(text)))
}

// fitRight is like fit, with the text aligned to the right.
func fitRight(text string, width int) string {
	if width <= 0 {
		return ""
	}
	text = ansi.Truncate(text, width, "…")
	return strings.Repeat(" ", max(0, width-ansi.StringWidth(text))) + text
}
