package function

import "strings"

// ownFrames is a stack without the frames of the server and of the language, each of which has two lines.
func ownFrames(stack string) string {
	lines := strings.SplitAfter(stack, "\n")
	var kept strings.Builder
	for i := 0; i < len(lines); i++ {
		if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "\t") {
			if file := lines[i+1][1:]; !strings.HasPrefix(file, "runtime/") && !strings.HasPrefix(file, "github.com/rouse-run/rouse@") {
				kept.WriteString(lines[i] + lines[i+1])
			}
			i++
			continue
		}
		kept.WriteString(lines[i])
	}
	return kept.String()
}
