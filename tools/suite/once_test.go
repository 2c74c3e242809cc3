package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestOnceSkipsTargetsThatSucceededWithTheSameDependencies(t *testing.T) {
	root := repository(t, map[string]string{
		"Makefile":              "licenses: ; @echo ran\nvulncheck: ; @echo not checked\nbroken: ; @exit 1\n",
		"go.mod":                "module " + module + "\n\ngo 1.26\n",
		"go.sum":                "",
		"cmd/a/main.go":         "package main\n\nfunc main() {}\n",
		"runtimes/doc.go":       "package runtimes\n",
		"tools/supply/allow.go": "package supply\n",
	})
	t.Setenv("ROUSE_CACHE", t.TempDir())
	for _, c := range []struct {
		target, name, text string
		code               int
		skips              bool
	}{
		{"licenses", "", "", 0, false},
		{"licenses", "", "", 0, true},
		{"licenses", "go.sum", "\n", 0, false},
		{"licenses", "", "", 0, true},
		{"licenses", "cmd/a/main.go", "package main\n\nimport _ \"net\"\n\nfunc main() {}\n", 0, false},
		{"licenses", "tools/supply/allow.go", "package supply // another\n", 0, false},
		{"vulncheck", "", "", 0, false},
		{"vulncheck", "", "", 0, false},
		{"broken", "", "", 1, false},
		{"broken", "", "", 1, false},
	} {
		if c.name != "" {
			if err := os.WriteFile(filepath.Join(root, c.name), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		code := run(t.Context(), []string{"-C", root, "once", c.target}, &out)
		if code != c.code || strings.Contains(out.String(), "skipped") != c.skips {
			t.Errorf("%+v: the exit code is %d:\n%s", c, code, out.String())
		}
	}
}

// number returns the number in a file, or 0 while it does not exist.
func number(path string) int {
	text, _ := os.ReadFile(path)
	found, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return found
}

// zombie reports whether a process has ended and awaits its parent, which may be an init that does not reap.
func zombie(process int) bool {
	text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(process), "stat"))
	return strings.Contains(string(text), ") Z ")
}
