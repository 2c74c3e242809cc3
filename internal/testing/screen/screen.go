package screen

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"unicode/utf8"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
)

// Screen is a terminal.
type Screen struct {
	// Terminal is the terminal for a program inside this process.
	Terminal *os.File

	master  *os.File
	emulate vt10x.Terminal
	done    chan struct{} // closed when drawing has ended

	mutex   sync.Mutex
	changed chan struct{} // closed with the next change
	raw     []byte
}

// rawKept is the number of written bytes that Raw keeps.
const rawKept = 1 << 20

// Open opens a terminal of the given size. It must be closed.
func Open(columns, rows int) (*Screen, error) {
	master, terminal, err := pty.Open()
	if err != nil {
		return nil, fmt.Errorf("open a pseudo-terminal: %w", err)
	}
	s := &Screen{Terminal: terminal, master: master, done: make(chan struct{}), changed: make(chan struct{})}
	s.emulate = vt10x.New(vt10x.WithSize(columns, rows), vt10x.WithWriter(master))
	if err := s.setSize(columns, rows); err != nil {
		_ = master.Close()
		_ = terminal.Close()
		return nil, err
	}
	return s, nil
}

// Read starts reading the output.
func (s *Screen) Read() { go s.read() }

// Start runs command in the terminal as its controlling terminal, and starts reading its output.
func (s *Screen) Start(command *exec.Cmd) error {
	command.Stdin, command.Stdout, command.Stderr = s.Terminal, s.Terminal, s.Terminal
	command.SysProcAttr = newSession()
	if err := command.Start(); err != nil {
		return fmt.Errorf("start %s: %w", command.Path, err)
	}
	s.Read()
	return nil
}

func (s *Screen) read() {
	defer close(s.done)
	var buffer [32 << 10]byte
	var rest []byte // of an incomplete character
	for {
		n, err := s.master.Read(buffer[:])
		rest = append(rest, buffer[:n]...)
		whole := wholeRunes(rest)
		_, _ = s.emulate.Write(rest[:whole])
		rest = slices.Clone(rest[whole:])
		s.note(buffer[:n])
		if err != nil {
			return
		}
	}
}

// wholeRunes returns the number of bytes of data in complete characters.
func wholeRunes(data []byte) int {
	for back := 1; back <= min(len(data), utf8.UTFMax-1); back++ {
		if at := len(data) - back; utf8.RuneStart(data[at]) {
			if !utf8.FullRune(data[at:]) {
				return at
			}
			break
		}
	}
	return len(data)
}

func (s *Screen) note(data []byte) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.raw = append(s.raw, data...)
	if over := len(s.raw) - rawKept; over > 0 {
		s.raw = append(s.raw[:0], s.raw[over:]...)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// Type sends keys.
func (s *Screen) Type(keys string) error {
	if _, err := io.WriteString(s.master, keys); err != nil {
		return fmt.Errorf("type: %w", err)
	}
	return nil
}

// Resize changes the size and signals the program.
func (s *Screen) Resize(columns, rows int) error {
	s.emulate.Resize(columns, rows)
	return s.setSize(columns, rows)
}

func (s *Screen) setSize(columns, rows int) error {
	if err := pty.Setsize(s.master, &pty.Winsize{Rows: uint16(rows), Cols: uint16(columns)}); err != nil {
		return fmt.Errorf("set the size of the terminal: %w", err)
	}
	return nil
}

// Await waits until the text on the screen fits.
func (s *Screen) Await(ctx context.Context, fits func(text string) bool) error {
	for {
		s.mutex.Lock()
		changed := s.changed
		s.mutex.Unlock()
		text := s.Text()
		if fits(text) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w; the screen shows:\n%s", ctx.Err(), text)
		}
	}
}

// Text returns the text on the screen, without spaces at the ends of lines.
func (s *Screen) Text() string {
	var text strings.Builder
	for _, row := range s.Cells() {
		var line strings.Builder
		for _, cell := range row {
			line.WriteRune(cell.Rune)
		}
		text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return text.String()
}

// Raw returns the last written bytes, including control sequences.
func (s *Screen) Raw() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return string(s.raw)
}

// Close stops reading and closes the terminal.
func (s *Screen) Close() {
	_ = s.Terminal.Close()
	_ = s.master.Close()
	<-s.done
}

// Default is the colour of a cell without a colour.
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

// Cells returns the screen, row by row.
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

// Alternate reports whether a program uses the alternate screen.
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
		cell.Foreground -= 8 // the emulator brightens bold text
	}
	return cell
}

func colour(c vt10x.Color) int {
	if c >= vt10x.DefaultFG {
		return Default
	}
	return int(c)
}

// newSession makes the terminal the command's controlling terminal, so that it receives Ctrl-C and hang-ups.
func newSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Setctty: true}
}
