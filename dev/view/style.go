package view

import (
	"hash/fnv"
	"io"

	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"
)

// style holds the colours: the sixteen of the terminal's own theme, none where NO_COLOR or the terminal asks for none.
type style struct {
	plain, bold, dim, title, focused, chosen lipgloss.Style
	good, busy, warn, bad, info              lipgloss.Style
	names                                    []lipgloss.Style
}

// newStyle asks environment what out can show.
func newStyle(out io.Writer, environment termenv.Environ) style {
	r := lipgloss.NewRenderer(out, termenv.WithEnvironment(environment))
	// What the background is would be asked of the terminal, and none of these colours needs to know.
	r.SetHasDarkBackground(true)
	base := r.NewStyle()
	colour := func(c string) lipgloss.Style { return base.Foreground(lipgloss.Color(c)) }
	return style{
		plain: base, bold: base.Bold(true), dim: colour("8"), title: base.Bold(true),
		focused: colour("6").Bold(true), chosen: base.Reverse(true),
		good: colour("2"), busy: colour("6"), warn: colour("3"), bad: colour("1").Bold(true), info: colour("6"),
		names: []lipgloss.Style{colour("4"), colour("5"), colour("6"), colour("2"), colour("3"), colour("12"), colour("13")},
	}
}

// name gives the colour of a Function, always the same.
func (s style) name(name string) lipgloss.Style {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(name))
	return s.names[sum.Sum32()%uint32(len(s.names))]
}

// phase gives the glyph and the colour of a phase.
func (s style) phase(phase string) (string, lipgloss.Style) {
	switch phase {
	case "ready":
		return "●", s.good
	case "waking":
		return "◐", s.warn
	case "preparing", "reloading":
		return "◌", s.busy
	case "failing":
		return "✗", s.bad
	default:
		return "○", s.dim
	}
}
