package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/rouse-run/rouse/internal/testing/screen"
)

// The picture in its own units: a cell, the margin around all cells, and the bar above them.
const (
	cellWidth  = 8.4
	cellHeight = 18.0
	margin     = 14.0
	bar        = 30.0
	baseline   = 13.5
)

// palette is the sixteen colours on a dark ground.
func palette() [16]string {
	return [16]string{
		"#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4",
		"#768390", "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#ffffff",
	}
}

// draw makes the picture of a film. Each line that was ever seen is in it once; the frames, one beside the
// other, refer to their lines, and the whole strip is moved past a window.
func draw(f film) []byte {
	if len(f.frames) == 0 {
		return nil
	}
	width := float64(len(f.frames[0].cells[0])) * cellWidth
	height := float64(len(f.frames[0].cells)) * cellHeight
	lines := map[string]int{}
	var defined, strip bytes.Buffer
	for i, shot := range f.frames {
		fmt.Fprintf(&strip, "<g transform=\"translate(%s,0)\">", number(float64(i)*width))
		for y, row := range shot.cells {
			text := line(row)
			if text == "" {
				continue
			}
			id, known := lines[text]
			if !known {
				id = len(lines)
				lines[text] = id
				fmt.Fprintf(&defined, "<g id=\"l%d\">%s</g>\n", id, text)
			}
			fmt.Fprintf(&strip, "<use href=\"#l%d\" y=\"%s\"/>", id, number(float64(y)*cellHeight))
		}
		strip.WriteString("</g>\n")
	}
	var out bytes.Buffer
	whole, tall := width+2*margin, height+margin+bar
	fmt.Fprintf(&out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %s %s\" width=\"%s\" height=\"%s\">\n",
		number(whole), number(tall), number(whole), number(tall))
	out.WriteString("<title>rouse dev in a terminal</title>\n<style>\n" + styles() + motion(f, width) + "</style>\n<defs>\n")
	out.Write(defined.Bytes())
	fmt.Fprintf(&out, "</defs>\n<rect width=\"%s\" height=\"%s\" rx=\"8\" fill=\"#0d1117\"/>\n", number(whole), number(tall))
	for i, colour := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&out, "<circle cx=\"%d\" cy=\"15\" r=\"5\" fill=\"%s\"/>", 20+i*18, colour)
	}
	fmt.Fprintf(&out, "\n<svg x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\"><g class=\"film\">\n", number(margin), number(bar), number(width), number(height))
	out.Write(strip.Bytes())
	out.WriteString("</g></svg>\n</svg>\n")
	return out.Bytes()
}

func styles() string {
	var css strings.Builder
	css.WriteString("text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace;" +
		"fill:#d1d7e0;white-space:pre}\n.b{font-weight:bold}.i{font-style:italic}.u{text-decoration:underline}\n")
	for i, colour := range palette() {
		fmt.Fprintf(&css, ".c%d{fill:%s}", i, colour)
	}
	css.WriteString("\n")
	return css.String()
}

// motion moves the strip from frame to frame at the times of the film. Where nothing may move, the fullest frame stands.
func motion(f film, width float64) string {
	var css strings.Builder
	fmt.Fprintf(&css, ".film{transform:translateX(%spx);animation:film %ss infinite step-end}\n",
		number(-float64(fullest(f))*width), number(f.length.Seconds()))
	css.WriteString("@media (prefers-reduced-motion:reduce){.film{animation:none}}\n@keyframes film{\n")
	for i, shot := range f.frames {
		fmt.Fprintf(&css, "%s%%{transform:translateX(%spx)}\n", number(100*shot.at.Seconds()/f.length.Seconds()), number(-float64(i)*width))
	}
	css.WriteString("}\n")
	return css.String()
}

func fullest(f film) int {
	best, most := 0, -1
	for i, shot := range f.frames {
		filled := 0
		for _, row := range shot.cells {
			for _, cell := range row {
				if cell.Rune != ' ' {
					filled++
				}
			}
		}
		if filled > most {
			best, most = i, filled
		}
	}
	return best
}

// number writes a length as short as it can be.
func number(n float64) string {
	text := strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.3f", n), "0"), ".")
	if text == "-0" {
		return "0"
	}
	return text
}

// line draws a row of the screen: its texts, each in one style and stretched to the cells that it takes.
func line(row []screen.Cell) string {
	var out strings.Builder
	for from := 0; from < len(row); {
		to := from + 1
		for to < len(row) && style(row[to]) == style(row[from]) && !wideGap(row, to) {
			to++
		}
		span(&out, row, from, to)
		from = to
	}
	return out.String()
}

// wideGap reports whether two spaces begin or end at x. Texts are split there.
func wideGap(row []screen.Cell, x int) bool {
	space := func(x int) bool { return x >= 0 && x < len(row) && row[x].Rune == ' ' }
	begins := !space(x-1) && space(x) && space(x+1)
	ends := space(x-2) && space(x-1) && !space(x)
	return begins || ends
}

func style(cell screen.Cell) screen.Cell {
	cell.Rune = 0
	return cell
}

func span(out *strings.Builder, row []screen.Cell, from, to int) {
	if background := row[from].Background; background != screen.Default {
		fmt.Fprintf(out, "<rect class=\"c%d\" x=\"%s\" width=\"%s\" height=\"%s\"/>",
			background%16, number(float64(from)*cellWidth), number(float64(to-from)*cellWidth), number(cellHeight))
	}
	var text strings.Builder
	for x := from; x < to; x++ {
		text.WriteRune(row[x].Rune)
	}
	trimmed := strings.TrimRight(text.String(), " ")
	if trimmed == "" {
		return
	}
	length := len([]rune(trimmed))
	fmt.Fprintf(out, "<text x=\"%s\" y=\"%s\" textLength=\"%s\" lengthAdjust=\"spacingAndGlyphs\"%s>%s</text>",
		number(float64(from)*cellWidth), number(baseline), number(float64(length)*cellWidth), classes(row[from]), escape(trimmed))
}

func classes(cell screen.Cell) string {
	var names []string
	if cell.Foreground != screen.Default {
		names = append(names, fmt.Sprintf("c%d", cell.Foreground%16))
	}
	for _, has := range []struct {
		name string
		is   bool
	}{{"b", cell.Bold}, {"i", cell.Italic}, {"u", cell.Underline}} {
		if has.is {
			names = append(names, has.name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " class=\"" + strings.Join(names, " ") + "\""
}

func escape(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "\"", "&quot;").Replace(text)
}
