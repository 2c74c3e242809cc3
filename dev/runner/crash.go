package runner

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rouse-run/rouse/dev/manifest"
)

const (
	// keptLines of a replica are searched for an error when it ends, and shownLines of them are reported.
	keptLines  = 40
	shownLines = 12
	// notLoaded is how a runtime begins to say why a handler does not load.
	notLoaded = "handler did not load:"
)

// crash is how a replica ended by itself.
type crash struct {
	fn    manifest.Function
	how   string   // such as "exit status 1"
	lines []string // as they are shown
}

// describe gives the reason in one line, with the position in the user's file, and below it what the replica printed last.
func (c crash) describe() string {
	lines := c.lines
	for i, line := range slices.Backward(lines) {
		if strings.HasPrefix(line, notLoaded) {
			lines = lines[i:]
			break
		}
	}
	text := c.position(lines).String() + ": "
	if message := errorLine(lines); message != "" {
		text += message + " (" + c.how + ")"
	} else {
		text += "the process ended by itself with " + c.how
	}
	if shown := lines[max(len(lines)-shownLines, 0):]; len(shown) > 0 {
		text += "\n" + strings.Join(shown, "\n")
	}
	return text
}

// position is the last line of the source that a stack trace names: its first frame in Node.js and Go, its last in Python.
func (c crash) position(lines []string) manifest.Position {
	source := c.fn.Source
	if source.Line == 0 {
		return c.fn.At
	}
	file := regexp.QuoteMeta(source.File)
	frame, call := regexp.MustCompile(`(?:^|[\s(])`+file+`:(\d+)`), regexp.MustCompile(`File "`+file+`", line (\d+)`)
	found := ""
	for _, line := range lines {
		if match := call.FindStringSubmatch(line); match != nil {
			found = match[1]
		} else if match := frame.FindStringSubmatch(line); match != nil && found == "" {
			found = match[1]
		}
	}
	n, err := strconv.Atoi(found)
	if err != nil {
		return c.fn.At
	}
	return manifest.Position{File: source.File, Line: n}
}

// errorLine is the line that names the error: that of the exception, or else what follows the runtime's prefix, or else
// the last one.
func errorLine(lines []string) string {
	named := regexp.MustCompile(`^(?:(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception|Exit|Interrupt|Warning)\b|(?:panic|fatal error): )`)
	last := ""
	for _, line := range lines {
		message, begins := strings.CutPrefix(line, notLoaded)
		message = strings.TrimSpace(message)
		if named.MatchString(message) {
			return message
		}
		if message != "" && (begins || !strings.HasPrefix(last, notLoaded)) {
			last = message
			if begins {
				last = notLoaded + " " + message
			}
		}
	}
	return last
}

// placed puts the position before a text that does not name the file yet.
func placed(at manifest.Position, text string) string {
	if at.File == "" || strings.Contains(text, at.File) {
		return text
	}
	return at.String() + ": " + text
}
