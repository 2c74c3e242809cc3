package screen

import (
	"syscall"

	"github.com/hinshun/vt10x"
)

// Default is the colour of a cell that has none of its own.
const Default = -1

// Modes of the emulator.
const (
	underline = 1 << 1
	bold      = 1 << 2
	italic    = 1 << 4
)

// Cell is one character of the screen. Colours are the terminal's 256, or Default.
type Cell struct {
	Rune                    rune
	Foreground, Background  int
	Bold, Underline, Italic bool
}

// Cells is what is on the screen, row by row.
func (s *Screen) Cells() [][]Cell {
	s.emulate.Lock()
	defer s.emulate.Unlock()
	columns, rows := s.emulate.Size()
	cells := make([][]Cell, rows)
	for y := range cells {
		cells[y] = make([]Cell, columns)
		for x := range cells[y] {
			cells[y][x] = cellOf(s.emulate.Cell(x, y))
		}
	}
	return cells
}

// Alternate reports whether a program has the screen to itself.
func (s *Screen) Alternate() bool {
	s.emulate.Lock()
	defer s.emulate.Unlock()
	return s.emulate.Mode()&vt10x.ModeAltScreen != 0
}

// Cursor reports whether the cursor is visible.
func (s *Screen) Cursor() bool {
	s.emulate.Lock()
	defer s.emulate.Unlock()
	return s.emulate.CursorVisible()
}

func cellOf(glyph vt10x.Glyph) Cell {
	cell := Cell{
		Rune: glyph.Char, Foreground: colour(glyph.FG), Background: colour(glyph.BG),
		Bold: glyph.Mode&bold != 0, Underline: glyph.Mode&underline != 0, Italic: glyph.Mode&italic != 0,
	}
	if cell.Rune == 0 {
		cell.Rune = ' '
	}
	if cell.Bold && cell.Foreground >= 8 && cell.Foreground < 16 {
		cell.Foreground -= 8 // the emulator brightens what is bold
	}
	return cell
}

func colour(c vt10x.Color) int {
	if c >= vt10x.DefaultFG {
		return Default
	}
	return int(c)
}

// newSession gives a command the terminal as its own, so that Ctrl-C and hang-ups reach it.
func newSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Setctty: true}
}
