package transcript

import (
	"regexp"
	"strings"
)

// missing is the first of the wanted lines that the output does not have behind those before it, and how far the others
// went: the output from there on has not been compared.
func missing(output string, want []string) (line string, rest string) {
	for _, line := range want {
		next, found := after(output, line)
		if !found {
			return line, output
		}
		output = next
	}
	return "", output
}

// after is the output behind the first line that has the wanted one within it.
func after(output, want string) (string, bool) {
	pattern := matcher(want)
	for output != "" {
		line, rest, _ := strings.Cut(output, "\n")
		if pattern.MatchString(strings.Join(strings.Fields(plain(line)), " ")) {
			return rest, true
		}
		output = rest
	}
	return "", false
}

// changing are the parts of an output that are others with each run: points in time, durations, generated ids and ports.
const changing = `\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?` +
	`|\d\d:\d\d:\d\d(\.\d+)?` +
	`|\b\d+(\.\d+)?(m\d+(\.\d+)?s| ?(µs|ms|s|min)\b)` +
	`|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b` +
	`|\b[0-9a-f]{32}\b` +
	`|(127\.0\.0\.1|localhost):\d+`

// matcher finds a wanted line: any white space is one blank, "..." is anything, and what changes with each run may be
// another of its kind.
func matcher(want string) *regexp.Regexp {
	want = strings.Join(strings.Fields(want), " ")
	loose := regexp.MustCompile(changing + `|\.\.\.`)
	var pattern strings.Builder
	for {
		at := loose.FindStringIndex(want)
		if at == nil {
			pattern.WriteString(regexp.QuoteMeta(want))
			return regexp.MustCompile(pattern.String())
		}
		pattern.WriteString(regexp.QuoteMeta(want[:at[0]]))
		if want[at[0]:at[1]] == "..." {
			pattern.WriteString(".*")
		} else {
			pattern.WriteString("(" + changing + ")")
		}
		want = want[at[1]:]
	}
}

// plain is a line without the sequences that colour it.
func plain(line string) string {
	return regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]").ReplaceAllString(line, "")
}
