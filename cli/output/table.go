package output

import (
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// gap is what stands between two columns.
const gap = "   "

// Table is aligned columns. Rows are written by Flush, or at once when the widths are known before.
type Table struct {
	header []string
	rows   [][]string
	widths []int
}

// NewTable has columns of these names.
func NewTable(header ...string) *Table {
	t := &Table{header: header, widths: make([]int, len(header))}
	for i, name := range header {
		t.widths[i] = ansi.StringWidth(name)
	}
	return t
}

// AtLeast sets the smallest widths of the first columns, for rows that are written one by one.
func (t *Table) AtLeast(widths ...int) *Table {
	for i, width := range widths {
		t.widths[i] = max(t.widths[i], width)
	}
	return t
}

// Row adds one. Cells that are not Styled are cleaned.
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

// Header writes the header alone.
func (t *Table) Header(w io.Writer) error { return t.Flush(w) }

// WriteRow writes one row at once. What is wider than its column moves the rest of its line.
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
