package view

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// longest is how much of one text is kept. A line of a log may be as long as its Function likes.
const longest = 2000

// clean makes a text of a Function or a publisher fit for a terminal: one line, of bounded length, of
// characters that are as wide as they seem and control nothing.
func clean(text string) string {
	if plainASCII(text) {
		return text[:min(len(text), longest)]
	}
	// What is cut here is far more than is kept, and bounds the work for what follows.
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

// cleanLines is clean for a text of several lines.
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

// harmless gives the character to show for r, or -1 for none.
func harmless(r rune) rune {
	switch {
	case r == '\t', r == '\n', r == '\r', unicode.In(r, unicode.Zl, unicode.Zp):
		return ' '
	case unicode.IsControl(r):
		return '·'
	case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Variation_Selector, r):
		// Directions, joiners and selectors: terminals do not agree on how wide they make a line.
		return -1
	default:
		return r
	}
}

// fit gives text in exactly width cells: cut with an ellipsis, or filled with spaces.
func fit(text string, width int) string {
	if width <= 0 {
		return ""
	}
	text = ansi.Truncate(text, width, "…")
	return text + strings.Repeat(" ", max(0, width-ansi.StringWidth(text)))
}

// fitRight is fit with the text at the right.
func fitRight(text string, width int) string {
	if width <= 0 {
		return ""
	}
	text = ansi.Truncate(text, width, "…")
	return strings.Repeat(" ", max(0, width-ansi.StringWidth(text))) + text
}
