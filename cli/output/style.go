package output

import (
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// Styled is text that may hold escape sequences of ours.
type Styled string

// Style colours text, or leaves it as it is.
type Style struct{ on bool }

// StyleOf is what suits w: colours on a terminal, unless the environment has NO_COLOR or a terminal without them.
func StyleOf(w io.Writer) Style {
	return Style{on: IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// Colored is a style that always colours.
func Colored() Style { return Style{on: true} }

// IsTerminal reports whether w is a terminal.
func IsTerminal(w any) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Bad is for what went wrong.
func (s Style) Bad(text string) Styled { return s.paint("31", text) }

// Good is for what went well.
func (s Style) Good(text string) Styled { return s.paint("32", text) }

// Busy is for what is under way.
func (s Style) Busy(text string) Styled { return s.paint("33", text) }

// Dim is for what matters less.
func (s Style) Dim(text string) Styled { return s.paint("2", text) }

// Name is for what a line is about.
func (s Style) Name(text string) Styled { return s.paint("36", text) }

// Colors is how many different ones Paint has.
const Colors = 6

// Paint gives things that belong together the same colour, by a number below Colors.
func (s Style) Paint(color int, text string) Styled {
	return s.paint([Colors]string{"36", "35", "34", "33", "32", "96"}[color%Colors], text)
}

func (s Style) paint(code, text string) Styled {
	text = Clean(text)
	if !s.on || text == "" {
		return Styled(text)
	}
	return Styled("\x1b[" + code + "m" + text + "\x1b[0m")
}

// Clean makes one harmless line of text that others wrote.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
