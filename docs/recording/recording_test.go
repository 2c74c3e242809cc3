package main

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/screen"
)

func cellsOf(lines ...string) [][]screen.Cell {
	cells := make([][]screen.Cell, len(lines))
	for y, text := range lines {
		for x, r := range text {
			cell := screen.Cell{Rune: r, Foreground: screen.Default, Background: screen.Default}
			if y == 1 && x < 4 {
				cell.Foreground, cell.Bold = 1, true
			}
			cells[y] = append(cells[y], cell)
		}
	}
	return cells
}

func TestAFilmIsDrawnWithEachLineOnce(t *testing.T) {
	t.Parallel()
	f := film{
		frames: []frame{
			{at: 0, cells: cellsOf("same line ", "fail  <&> ")},
			{at: 500 * time.Millisecond, cells: cellsOf("same line ", "other     ")},
		},
		length: 2 * time.Second,
	}
	picture := string(draw(f))
	require.Equal(t, picture, string(draw(f)), "the same film gives the same picture")
	require.Equal(t, 1, strings.Count(picture, ">same line<"))
	require.Equal(t, 2, strings.Count(picture, "<use href=\"#l0\""))
	require.Contains(t, picture, `<text x="0" y="13.5" textLength="33.6" lengthAdjust="spacingAndGlyphs" class="c1 b">fail</text>`)
	require.Contains(t, picture, `&lt;&amp;&gt;`)
	require.Contains(t, picture, "animation:film 2s infinite step-end")
	require.Contains(t, picture, "25%{transform:translateX(-84px)}")
	decoder := xml.NewDecoder(strings.NewReader(picture))
	for {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err, "it is XML")
	}
}

func TestAProgramIsRecordedAsItIsTypedTo(t *testing.T) {
	t.Parallel()
	steps, err := parse(`see:ready; type:go\r; see:got go; pause:200ms`)
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), "sh", "-c", `echo ready; read word; printf '\033[31mgot %s\033[0m\n' "$word"; exec sleep 600`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	recorded, err := record(ctx, command, steps)
	require.NoError(t, err)
	require.NotEmpty(t, recorded.frames)
	picture := string(draw(recorded))
	require.Contains(t, picture, `class="c1">got go<`)
	require.NotNil(t, command.ProcessState, "it does not outlive the recording")
}

func TestErrorOfAScriptNamesTheLine(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"see:a; wait":        `step " wait" of the script is none of`,
		"look:b":             `"look" is none of`,
		"see:a; pause:often": `step " pause:often" of the script: read the time`,
	} {
		_, err := parse(script)
		require.ErrorContains(t, err, want)
	}
}
