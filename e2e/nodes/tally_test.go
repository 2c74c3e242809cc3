//go:build e2e

package nodes

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// tally is what the last line of "make e2e-nodes" says, in the order in which it came to be.
var tally struct {
	sync.Mutex

	names  []string
	counts map[string]int
}

// count adds to what that line says by a name.
func count(name string, more int) {
	tally.Lock()
	defer tally.Unlock()
	if tally.counts == nil {
		tally.counts = map[string]int{}
	}
	if !slices.Contains(tally.names, name) {
		tally.names = append(tally.names, name)
	}
	tally.counts[name] += more
}

// TestMain hands what was counted to the script that runs these tests, when all of them passed.
func TestMain(m *testing.M) {
	code := m.Run()
	if file := os.Getenv("ROUSE_TALLY"); file != "" && code == 0 {
		code = write(file)
	}
	os.Exit(code)
}

func write(file string) int {
	var words strings.Builder
	for _, name := range tally.names {
		_, _ = fmt.Fprintf(&words, " %s=%d", name, tally.counts[name])
	}
	out, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = out.WriteString(words.String())
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "write what was counted:", err)
		return 1
	}
	return 0
}
