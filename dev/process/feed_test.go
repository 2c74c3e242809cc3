package process

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

var (
	pricing   = types.NamespacedName{Namespace: "orders", Name: "pricing"}
	invoicing = types.NamespacedName{Namespace: "orders", Name: "invoicing"}
	all       = types.NamespacedName{}
)

func addLines(f *Feed, fn types.NamespacedName, texts ...string) {
	for _, text := range texts {
		f.Add(Line{Namespace: fn.Namespace, Function: fn.Name, Stream: Stdout, Text: text})
	}
}

func texts(lines []Line) []string {
	found := make([]string, 0, len(lines))
	for _, line := range lines {
		found = append(found, line.Text)
	}
	return found
}

func TestRecentHasTheLastLinesInOrder(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		of   types.NamespacedName
		n    int
		want []string
	}{
		"of one Function":             {of: pricing, n: 9, want: []string{"p2", "p3", "p4"}},
		"fewer than available":        {of: pricing, n: 2, want: []string{"p3", "p4"}},
		"of all, as they came":        {of: all, n: 9, want: []string{"p2", "i1", "p3", "p4"}},
		"none for a count of zero":    {of: all, n: 0, want: []string{}},
		"none for a negative count":   {of: all, n: -1, want: []string{}},
		"none of an unknown Function": {of: types.NamespacedName{Namespace: "a", Name: "b"}, n: 9, want: []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := NewFeed(3)
			addLines(f, pricing, "p1", "p2")
			addLines(f, invoicing, "i1")
			addLines(f, pricing, "p3", "p4")
			require.Equal(t, tc.want, texts(f.Recent(tc.of, tc.n)))
		})
	}
}

func TestLoudFunctionDropsNoLinesOfOthers(t *testing.T) {
	t.Parallel()
	f := NewFeed(10)
	addLines(f, invoicing, "quiet")
	for i := range 1000 {
		addLines(f, pricing, strconv.Itoa(i))
	}
	require.Equal(t, []string{"quiet"}, texts(f.Recent(invoicing, 10)))
	require.Len(t, f.Recent(all, 1000), 11)
}

func TestLinesOfAForgottenFunctionAreDropped(t *testing.T) {
	t.Parallel()
	f := NewFeed(10)
	addLines(f, pricing, "p")
	addLines(f, invoicing, "i")
	f.Forget(pricing)
	require.Equal(t, []string{"i"}, texts(f.Recent(all, 10)))
}

func TestALineHasATimeAndLowerCaseNames(t *testing.T) {
	t.Parallel()
	f := NewFeed(1)
	f.Add(Line{Namespace: "orders", Function: "pricing", Replica: "pricing-1", Stream: Stderr, Text: "x"})
	require.False(t, f.Recent(all, 1)[0].Time.IsZero())
	written, err := json.Marshal(Line{Namespace: "orders", Function: "pricing", Replica: "pricing-1", Stream: Stderr, Text: "x"})
	require.NoError(t, err)
	require.JSONEq(t, `{"time":"0001-01-01T00:00:00Z","namespace":"orders","function":"pricing","replica":"pricing-1",
		"stream":"stderr","text":"x"}`, string(written))
}

// follow collects a follower's lines until the end of the test.
func follow(t *testing.T, f *Feed, fn types.NamespacedName, tail int) <-chan Line {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	lines, done := make(chan Line, 1000), make(chan struct{})
	go func() {
		defer close(done)
		f.Follow(ctx, fn, tail, func(line Line) { lines <- line })
	}()
	t.Cleanup(func() { cancel(); <-done })
	return lines
}

func next(t *testing.T, lines <-chan Line) string {
	t.Helper()
	select {
	case line := <-lines:
		return line.Text
	case <-time.After(time.Minute):
		require.Fail(t, "no line came")
		return ""
	}
}

func TestFollowerGetsTheTailAndThenNewLines(t *testing.T) {
	t.Parallel()
	f := NewFeed(10)
	addLines(f, pricing, "p1", "p2", "p3")
	lines := follow(t, f, pricing, 2)
	require.Equal(t, "p2", next(t, lines))
	require.Equal(t, "p3", next(t, lines))
	addLines(f, invoicing, "not asked for")
	addLines(f, pricing, "p4")
	require.Equal(t, "p4", next(t, lines))
}

func TestAFollowerOfAllGetsEachLineOnceInOrder(t *testing.T) {
	t.Parallel()
	const each = 500
	f := NewFeed(each)
	lines := follow(t, f, all, 2*each) // it may start after some were added
	var writers sync.WaitGroup
	for _, fn := range []types.NamespacedName{pricing, invoicing} {
		writers.Go(func() {
			for i := range each {
				addLines(f, fn, fmt.Sprintf("%s %d", fn.Name, i))
			}
		})
	}
	got := map[string]bool{}
	for len(got) < 2*each {
		text := next(t, lines)
		require.False(t, got[text], "%s came twice", text)
		got[text] = true
	}
	writers.Wait()
}

func TestSlowFollowerGetsANoticeOfMissingLines(t *testing.T) {
	t.Parallel()
	f := NewFeed(2)
	addLines(f, pricing, "first")
	var got []string
	ctx, cancel := context.WithCancel(t.Context())
	f.Follow(ctx, pricing, 1, func(line Line) {
		got = append(got, line.Text)
		switch line.Text {
		case "first": // while it is being handled, more lines arrive than are kept
			addLines(f, pricing, "lost 1", "lost 2", "kept 1", "kept 2")
		case "kept 2":
			cancel()
		}
	})
	require.Equal(t, []string{"first", "lines are missing here: they came faster than they were read", "kept 1", "kept 2"}, got)
}
