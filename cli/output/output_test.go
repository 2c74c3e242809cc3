package output

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestColumnsAreAlignedByTheirVisibleWidth(t *testing.T) {
	t.Parallel()
	table := NewTable("NAME", "STATE", "NOTE")
	table.Row("pricing", Style{on: true}.Good("ready"), "fine")
	table.Row("価格", Style{on: true}.Bad("failing"), "moves\nthe \x1b[2Jcursor\u202e")
	table.Row("a", "", "")
	var out bytes.Buffer
	require.NoError(t, table.Flush(&out))
	require.Equal(t, "NAME      STATE     NOTE\n"+
		"pricing   \x1b[32mready\x1b[0m     fine\n"+
		"価格      \x1b[31mfailing\x1b[0m   moves the \ufffd[2Jcursor\ufffd\n"+
		"a\n", out.String())
}

func TestStreamedRowsKeepTheirColumns(t *testing.T) {
	t.Parallel()
	table := NewTable("A", "B").AtLeast(4)
	var out bytes.Buffer
	require.NoError(t, table.Header(&out))
	require.NoError(t, table.WriteRow(&out, "1", "2"))
	require.NoError(t, table.WriteRow(&out, "12345", "2"))
	require.Equal(t, "A      B\n1      2\n12345   2\n", out.String())
}

func TestThereAreNoColoursWithoutATerminal(t *testing.T) {
	t.Parallel()
	require.Equal(t, Styled("text"), StyleOf(&bytes.Buffer{}).Bad("text"))
}

func TestEachFormat(t *testing.T) {
	t.Parallel()
	value := []struct {
		Name string `json:"name"`
	}{{"a<b"}}
	for name, tc := range map[string]struct {
		write  func(*bytes.Buffer) error
		expect string
	}{
		"JSON":            {func(b *bytes.Buffer) error { return Write(b, JSON, value) }, "[\n  {\n    \"name\": \"a<b\"\n  }\n]\n"},
		"YAML":            {func(b *bytes.Buffer) error { return Write(b, YAML, value) }, "- name: a<b\n"},
		"a line of JSON":  {func(b *bytes.Buffer) error { return WriteOne(b, JSON, value) }, "[{\"name\":\"a<b\"}]\n"},
		"a YAML document": {func(b *bytes.Buffer) error { return WriteOne(b, YAML, value) }, "---\n- name: a<b\n"},
	} {
		var out bytes.Buffer
		require.NoError(t, tc.write(&out), name)
		require.Equal(t, tc.expect, out.String(), name)
	}
}

func TestUnsupportedFormatIsRejected(t *testing.T) {
	t.Parallel()
	choices := Choices{Allowed: []Format{JSON, Name}}
	require.EqualError(t, choices.Set("yaml"), "use one of json, name")
	require.NoError(t, choices.Set("name"))
	require.Equal(t, Name, choices.Chosen)
}

func TestProgressIsShownOnlyAfterADelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := NewProgress(&out, "waiting", ProgressPause)
		time.Sleep(ProgressPause / 2)
		p.Done()
		require.Empty(t, out.String())

		p = NewProgress(&out, "waiting for a", ProgressPause)
		time.Sleep(2*ProgressPause + ProgressPause/2)
		p.SetText("waiting for b")
		time.Sleep(2 * ProgressPause)
		p.Done()
		p.Done()
		require.Equal(t, "waiting for a\nwaiting for b\n", out.String())
	})
}

func TestProgressOnATerminalIsErased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newProgress(&out, "waiting", ProgressPause, true)
		time.Sleep(ProgressPause + ProgressPause/2)
		p.Done()
		require.Equal(t, "\r\x1b[Kwaiting (1 s)\r\x1b[K", out.String())
	})
}
