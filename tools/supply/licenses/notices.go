package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const heading = `THIRD-PARTY NOTICES

Rouse is licensed under the Apache License 2.0. Its binaries contain the modules below, unchanged, each under its own licence. Their
sources are at the path and version that are named: https://pkg.go.dev/PATH@VERSION
`

// notices returns the text that accompanies the binaries.
func notices(all []component) string {
	var text strings.Builder
	text.WriteString(heading)
	text.WriteString("\n")
	for _, one := range all {
		fmt.Fprintf(&text, "%s %s: %s\n", one.path, one.version, strings.Join(one.ids(), ", "))
	}
	const line = "================================================================================"
	for _, one := range all {
		fmt.Fprintf(&text, "\n%s\n%s %s\n%s\n", line, one.path, one.version, line)
		for _, read := range one.files {
			fmt.Fprintf(&text, "\n--- %s\n\n%s\n", read.name, strings.TrimRight(strings.ReplaceAll(read.text, "\r\n", "\n"), "\n"))
		}
	}
	return text.String()
}

// counts returns the number of modules per licence.
func counts(all []component) string {
	by := map[string]int{}
	for _, one := range all {
		for _, id := range one.ids() {
			by[id]++
		}
	}
	var words []string
	for _, id := range slices.Sorted(maps.Keys(by)) {
		words = append(words, fmt.Sprintf("%s=%d", id, by[id]))
	}
	return strings.Join(words, " ")
}
