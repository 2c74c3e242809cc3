package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"
)

// Format is the value of -o; the zero value is text for people.
type Format string

// The formats.
const (
	Text Format = ""
	JSON Format = "json"
	YAML Format = "yaml"
	Name Format = "name"
)

// Choices are the formats that a command supports besides Text.
type Choices struct {
	Chosen  Format
	Allowed []Format
}

// String implements pflag.Value.
func (c *Choices) String() string { return string(c.Chosen) }

// Type implements pflag.Value.
func (c *Choices) Type() string { return "format" }

// Set implements pflag.Value.
func (c *Choices) Set(text string) error {
	if !slices.Contains(c.Allowed, Format(text)) {
		return fmt.Errorf("use one of %s", c.Names())
	}
	c.Chosen = Format(text)
	return nil
}

// Names returns the formats as a list for people.
func (c *Choices) Names() string {
	names := make([]string, 0, len(c.Allowed))
	for _, f := range c.Allowed {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

// Write writes a value as JSON or YAML. The value's json tags count for both.
func Write(w io.Writer, format Format, value any) error {
	text, err := encode(value, "  ")
	if err == nil && format == YAML {
		text, err = yaml.JSONToYAML(text)
	}
	if err != nil {
		return fmt.Errorf("write as %s: %w", format, err)
	}
	_, err = w.Write(text)
	return err
}

// WriteOne writes one value of a stream: a line of JSON, or a YAML document.
func WriteOne(w io.Writer, format Format, value any) error {
	if format == YAML {
		if _, err := io.WriteString(w, "---\n"); err != nil {
			return err
		}
		return Write(w, YAML, value)
	}
	text, err := encode(value, "")
	if err != nil {
		return fmt.Errorf("write as %s: %w", format, err)
	}
	_, err = w.Write(text)
	return err
}

// encode does not escape < and >, because no browser reads the output.
func encode(value any, indent string) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	err := encoder.Encode(value)
	return text.Bytes(), err
}

// Styled is text that may contain escape sequences of this package.
type Styled string

// Style colours text, or leaves it unchanged.
type Style struct{ on bool }

// StyleOf returns the style for w: with colours on a terminal, unless the environment sets NO_COLOR or the terminal has none.
func StyleOf(w io.Writer) Style {
	return Style{on: IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w any) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Bad marks failures.
func (s Style) Bad(text string) Styled { return s.paint("31", text) }

// Good marks success.
func (s Style) Good(text string) Styled { return s.paint("32", text) }

// Busy marks work in progress.
func (s Style) Busy(text string) Styled { return s.paint("33", text) }

// Dim marks minor details.
func (s Style) Dim(text string) Styled { return s.paint("2", text) }

// Name marks the subject of a line.
func (s Style) Name(text string) Styled { return s.paint("36", text) }

// Colors is the number of colours of Paint.
const Colors = 6

// Paint colours text by a number below Colors, the same for things that belong together.
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

// Clean sanitizes untrusted text to one harmless line.
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

// gap separates two columns.
const gap = "   "

// Table aligns columns. Flush writes the rows; WriteRow writes one at once with known widths.
type Table struct {
	header []string
	rows   [][]string
	widths []int
}

// NewTable returns a Table with the columns.
func NewTable(header ...string) *Table {
	t := &Table{header: header, widths: make([]int, len(header))}
	for i, name := range header {
		t.widths[i] = ansi.StringWidth(name)
	}
	return t
}

// AtLeast sets the minimum widths of the first columns, for WriteRow.
func (t *Table) AtLeast(widths ...int) *Table {
	for i, width := range widths {
		t.widths[i] = max(t.widths[i], width)
	}
	return t
}

// Row adds a row. Cells that are not Styled are cleaned.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = textOf(cell)
		t.widths[i] = max(t.widths[i], ansi.StringWidth(row[i]))
	}
	t.rows = append(t.rows, row)
}

// Flush writes the header and all rows.
func (t *Table) Flush(w io.Writer) error {
	var text strings.Builder
	t.line(&text, t.header)
	for _, row := range t.rows {
		t.line(&text, row)
	}
	t.rows = nil
	_, err := io.WriteString(w, text.String())
	return err
}

// Header writes the header only.
func (t *Table) Header(w io.Writer) error { return t.Flush(w) }

// WriteRow writes a row at once. A cell that is wider than its column shifts the rest of the line.
func (t *Table) WriteRow(w io.Writer, cells ...any) error {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = textOf(cell)
	}
	var text strings.Builder
	t.line(&text, row)
	_, err := io.WriteString(w, text.String())
	return err
}

func (t *Table) line(text *strings.Builder, cells []string) {
	var line strings.Builder
	for i, cell := range cells {
		line.WriteString(cell)
		if i < len(cells)-1 {
			line.WriteString(strings.Repeat(" ", max(0, t.widths[i]-ansi.StringWidth(cell))) + gap)
		}
	}
	text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
}

func textOf(cell any) string {
	if styled, ok := cell.(Styled); ok {
		return string(styled)
	}
	return Clean(fmt.Sprint(cell))
}

// FlushRows writes the rows without a header.
func (t *Table) FlushRows(w io.Writer) error {
	var text strings.Builder
	for _, row := range t.rows {
		t.line(&text, row)
	}
	t.rows = nil
	_, err := io.WriteString(w, text.String())
	return err
}

// ProgressPause is the usual time until a command says what it waits for.
const ProgressPause = time.Second

// Progress shows what the command waits for, once that takes longer than a pause, and again after each further one.
type Progress struct {
	w        io.Writer
	terminal bool
	pause    time.Duration

	mu     sync.Mutex
	text   string
	shown  string // the last written text
	open   bool   // the line on the terminal is unfinished
	begun  time.Time
	done   chan struct{}
	ended  chan struct{}
	closed bool
}

// NewProgress shows text while the caller waits. The caller has to call Done.
func NewProgress(w io.Writer, text string, pause time.Duration) *Progress {
	return newProgress(w, text, pause, IsTerminal(w))
}

func newProgress(w io.Writer, text string, pause time.Duration, terminal bool) *Progress {
	p := &Progress{
		w: w, terminal: terminal, pause: pause, text: text, begun: time.Now(), done: make(chan struct{}), ended: make(chan struct{}),
	}
	go p.run()
	return p
}

// SetText replaces the text.
func (p *Progress) SetText(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
}

// Done stops the progress, and clears the line on a terminal.
func (p *Progress) Done() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	p.mu.Unlock()
	close(p.done)
	<-p.ended
}

func (p *Progress) run() {
	defer close(p.ended)
	ticker := time.NewTicker(p.pause)
	defer ticker.Stop()
	for {
		select {
		case <-p.done:
			if p.open {
				p.write("\r\x1b[K")
			}
			return
		case <-ticker.C:
			p.show()
		}
	}
}

func (p *Progress) show() {
	p.mu.Lock()
	text := Clean(p.text)
	p.mu.Unlock()
	switch {
	case text == "":
	case p.terminal:
		p.open = true
		p.write(fmt.Sprintf("\r\x1b[K%s (%d s)", text, int(time.Since(p.begun).Seconds())))
	case text != p.shown:
		p.write(text + "\n")
	}
	p.shown = text
}

func (p *Progress) write(text string) { _, _ = io.WriteString(p.w, text) } // progress that cannot be written is not an error
