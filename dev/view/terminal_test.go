package view

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/testing/screen"
)

var update = flag.Bool("update", false, "rewrite the golden screens")

// testTimeout is the timeout for a terminal's output on a slow machine.
const testTimeout = time.Minute

// script is a Source that returns a batch and then blocks.
type script struct {
	batch

	published chan struct{}
}

func scripted(b batch) *script { return &script{batch: b, published: make(chan struct{}, 10)} }

func (s *script) FollowState(ctx context.Context, handle func(State)) {
	handle(*s.state)
	<-ctx.Done()
}

func (s *script) FollowEvents(ctx context.Context, handle func(journal.Record)) {
	for _, r := range s.events {
		handle(r)
	}
	<-ctx.Done()
}

func (s *script) FollowLines(ctx context.Context, handle func(process.Line)) {
	for _, l := range s.lines {
		handle(l)
	}
	<-ctx.Done()
}

func (s *script) Republish(context.Context) (string, error) {
	s.published <- struct{}{}
	return "published 3 events \x1b[31magain", nil
}

// shown runs the view in a terminal until the end of the test, and returns Terminal's result.
type shown struct {
	*screen.Screen

	ended  chan error
	cancel context.CancelFunc
}

func show(t *testing.T, columns, rows int, source Source, env ...string) *shown {
	t.Helper()
	s, err := screen.Open(columns, rows)
	require.NoError(t, err)
	s.Read()
	ctx, cancel := context.WithCancel(t.Context())
	view := &shown{Screen: s, ended: make(chan error, 1), cancel: cancel}
	var group errgroup.Group
	group.Go(func() error {
		view.ended <- seen(env...).run(ctx, source, s.Terminal, s.Terminal)
		return nil
	})
	t.Cleanup(func() {
		cancel()
		_ = group.Wait()
		s.Close()
	})
	return view
}

func seen(env ...string) live {
	return live{environment: append(environment{"TERM=xterm-256color"}, env...), location: time.UTC}
}

func (s *shown) await(t *testing.T, fits func(text string) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	require.NoError(t, s.Await(ctx, fits))
}

func (s *shown) awaitText(t *testing.T, parts ...string) {
	t.Helper()
	s.await(t, func(text string) bool {
		for _, part := range parts {
			if !strings.Contains(text, part) {
				return false
			}
		}
		return true
	})
}

func (s *shown) press(t *testing.T, keys string) {
	t.Helper()
	require.NoError(t, s.Type(keys))
}

func (s *shown) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-s.ended:
		return err
	case <-time.After(testTimeout):
		t.Fatalf("the view does not end; the screen shows:\n%s", s.Text())
		return nil
	}
}

// golden waits until the screen equals a file.
func (s *shown) golden(t *testing.T, name string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		time.Sleep(10 * frame) // only to write the files: the last frame is not known in advance
		require.NoError(t, os.MkdirAll("testdata", 0o750))
		require.NoError(t, os.WriteFile(file, []byte(s.Text()), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if s.Await(ctx, func(text string) bool { return text == string(want) }) != nil {
		require.Equal(t, string(want), s.Text())
	}
}

func TestViewMatchesTheGoldenScreens(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		columns, rows int
		keys          []string
	}{
		"events-80x24":    {columns: 80, rows: 24},
		"events-120x40":   {columns: 120, rows: 40},
		"logs-80x24":      {columns: 80, rows: 24, keys: []string{"\t"}},
		"logs-of-one":     {columns: 80, rows: 24, keys: []string{"\x1b[Z", "\x1b[B", "\r"}},
		"problems-80x24":  {columns: 80, rows: 24, keys: []string{"\t", "\t"}},
		"problems-120x40": {columns: 120, rows: 40, keys: []string{"\t", "\t"}},
		"help-80x24":      {columns: 80, rows: 24, keys: []string{"?"}},
		"tiny-30x8":       {columns: 30, rows: 8},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := show(t, tc.columns, tc.rows, scripted(orders()))
			s.awaitText(t, "1 pricing") // keys choose among the Functions, which come apart from the events
			for _, key := range tc.keys {
				s.press(t, key)
			}
			s.golden(t, name)
			s.press(t, "q")
			require.NoError(t, s.end(t))
		})
	}
}

func TestKeysWorkInATerminal(t *testing.T) {
	t.Parallel()
	source := scripted(orders())
	s := show(t, 80, 24, source)
	s.awaitText(t, "1 pricing", "order.invoiced")
	s.press(t, "p")
	s.awaitText(t, "published 3 events again")
	require.Len(t, source.published, 1)
	s.press(t, "2")
	s.awaitText(t, "Logs of invoicing", "19 percent of 1130 is 214.7")
	require.NotContains(t, s.Text(), "published 3 events again", "a key must clear the previous note")
	s.press(t, "\x1b[Z\x1b[Z") // back to the Functions
	s.press(t, "c?")           // no effect without events; keys may arrive together
	s.awaitText(t, "Any key goes back")
	s.press(t, "x")
	s.awaitText(t, "order.invoiced")
	s.press(t, "\x03")
	require.NoError(t, s.end(t))
}

func TestTheViewFollowsTheSizeOfTheTerminal(t *testing.T) {
	t.Parallel()
	// The kernel signals the process that owns the terminal.
	s, err := screen.Open(80, 24)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	child := childView(t, s)
	view := &shown{Screen: s}
	view.awaitText(t, "order.invoiced")
	require.NotContains(t, s.Text(), "14:03:24.794")
	require.NoError(t, s.Resize(120, 40))
	view.golden(t, "events-120x40")
	require.NoError(t, s.Resize(80, 24))
	view.golden(t, "events-80x24")
	require.NoError(t, s.Type("q"))
	require.NoError(t, child.Wait())
}

func TestTerminalIsRestoredAtTheEnd(t *testing.T) {
	t.Parallel()
	tests := map[string]func(s *screen.Screen, child *exec.Cmd) error{
		"the key to quit":     func(s *screen.Screen, _ *exec.Cmd) error { return s.Type("q") },
		"Ctrl-C":              func(s *screen.Screen, _ *exec.Cmd) error { return s.Type("\x03") },
		"SIGTERM":             func(_ *screen.Screen, child *exec.Cmd) error { return child.Process.Signal(syscall.SIGTERM) },
		"SIGINT from outside": func(_ *screen.Screen, child *exec.Cmd) error { return child.Process.Signal(syscall.SIGINT) },
	}
	for name, stop := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := screen.Open(80, 24)
			require.NoError(t, err)
			t.Cleanup(s.Close)
			child := childView(t, s)
			view := &shown{Screen: s}
			view.awaitText(t, "order.invoiced")
			require.True(t, s.Alternate())
			require.False(t, s.Cursor())
			require.NoError(t, stop(s, child))
			require.NoError(t, child.Wait(), s.Raw())
			view.await(t, func(string) bool { return !s.Alternate() && s.Cursor() })
			view.awaitText(t, "before\n", "afterwards\n")
			require.NotContains(t, s.Text(), "order.invoiced")
			require.Greater(t, strings.LastIndex(s.Raw(), "\x1b[?2004l"), strings.LastIndex(s.Raw(), "\x1b[?2004h"), "pastes are as before")
		})
	}
}

// childView runs the view in a separate process that owns the terminal: TestMain runs it.
func childView(t *testing.T, s *screen.Screen) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	child := exec.CommandContext(t.Context(), self)
	child.Env = append(os.Environ(), childVariable+"=1")
	require.NoError(t, s.Start(child))
	return child
}

const childVariable = "ROUSE_VIEW_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(runChild())
	}
	os.Exit(m.Run())
}

func runChild() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	_, _ = fmt.Fprintln(os.Stdout, "before")
	if err := seen().run(ctx, scripted(orders()), os.Stdin, os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stdout, err)
		return 1
	}
	_, _ = fmt.Fprintln(os.Stdout, "afterwards")
	return 0
}

func TestTheEndOfTheContextEndsTheView(t *testing.T) {
	t.Parallel()
	s := show(t, 80, 24, scripted(orders()))
	s.awaitText(t, "order.invoiced")
	s.cancel()
	require.NoError(t, s.end(t))
	s.await(t, func(string) bool { return !s.Alternate() && s.Cursor() })
}

func TestColoursStandOutWhereTheTerminalHasThem(t *testing.T) {
	t.Parallel()
	colours := func(s *screen.Screen) map[int]bool {
		found := map[int]bool{}
		for _, row := range s.Cells() {
			for _, cell := range row {
				found[cell.Foreground] = true
			}
		}
		return found
	}
	s := show(t, 80, 24, scripted(orders()))
	s.awaitText(t, "1 pricing", "dead letter after 1 attempt")
	require.Subset(t, colours(s.Screen), map[int]bool{1: true, 2: true, 3: true}, "red, green and yellow")
	for y, line := range strings.Split(s.Text(), "\n") {
		if x := strings.Index(line, "dead letter after"); x >= 0 {
			require.Equal(t, 1, s.Cells()[y][x].Foreground, "a dead letter is red")
		}
	}
	plain := show(t, 80, 24, scripted(orders()), "NO_COLOR=1")
	plain.awaitText(t, "dead letter after 1 attempt")
	require.Equal(t, map[int]bool{screen.Default: true}, colours(plain.Screen))
}

func TestDumbTerminalGetsPlainLines(t *testing.T) {
	t.Parallel()
	s := show(t, 120, 40, scripted(orders()), "TERM=dumb")
	s.awaitText(t, "14:03:24.794 event", "14:03:24.895 retry")
	require.NotContains(t, s.Raw(), "\x1b")
	s.cancel()
	require.NoError(t, s.end(t))
}

func TestFloodOfEventsDoesNotDelayKeys(t *testing.T) {
	t.Parallel()
	s := show(t, 80, 24, &flood{script: scripted(orders())})
	s.awaitText(t, "flood", "not shown")
	s.press(t, "?")
	s.awaitText(t, "Any key goes back")
	s.press(t, "q")
	require.NoError(t, s.end(t))
}

// flood is a Source without pauses.
type flood struct{ *script }

func (f *flood) FollowEvents(ctx context.Context, handle func(journal.Record)) {
	for i := 0; ctx.Err() == nil; i++ {
		handle(journal.Record{Time: begin(0), Kind: journal.Stored, ID: strconv.Itoa(i), Source: "flood", Type: "flood"})
	}
}

func TestOutputOtherThanATerminalGetsPlainLines(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	out := &signalled{text: "order.invoiced", found: cancel}
	require.NoError(t, Terminal(ctx, scripted(orders()), strings.NewReader(""), out))
	require.NotContains(t, out.written.String(), "\x1b")
}

// signalled calls found once the text has been written to it.
type signalled struct {
	written bytes.Buffer
	text    string
	found   func()
}

func (s *signalled) Write(data []byte) (int, error) {
	n, err := s.written.Write(data)
	if strings.Contains(s.written.String(), s.text) {
		s.found()
	}
	return n, err
}
