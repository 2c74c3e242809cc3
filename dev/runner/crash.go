package runner

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/toolchain"
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

var (
	// A frame of Node.js, one of Python, one of Go, and the line that Node.js puts above a syntax error.
	scriptFrame = regexp.MustCompile(`^\s+at `)
	moduleFrame = regexp.MustCompile(`^(\s*)File "[^"]*", line \d+`)
	binaryFrame = regexp.MustCompile(`^\t\S+\.go:\d+`)
	syntaxFrame = regexp.MustCompile(`^(?:` + notLoaded + ` )?handler\.[cm]?js:\d+$`)
	// The handler of a Function in them, as its server knows it.
	script = regexp.MustCompile(`(^|[\s(])handler\.[cm]?js:(\d+)(:\d+)?`)
	module = regexp.MustCompile(`File "handler\.py", line (\d+)`)
	binary = regexp.MustCompile(`^\thandler\.go:(\d+)`)
	// compiled is what Go puts before the files of a source, which is a dependency of what is built.
	compiled = regexp.MustCompile(`^\t\S+@v(?:0|[2-9]\d*)\.0\.0/`)
)

// ofServer is a part of the path of all files of the runtimes' servers.
const ofServer = "/usr/src/app/"

// stack knows the files of a Function as its process calls them, and what its user calls them: a Function runs a copy of
// its source, and packages and the server come out of the cache.
type stack struct {
	fn      manifest.Function
	own     []string       // the folder with the copy
	packed  *regexp.Regexp // what comes before node_modules or the like in the cache; nil without one
	cache   []string
	wrapped bool // handler.py only compiles the text of the manifest
}

func newStack(fn manifest.Function, launch toolchain.Launch) *stack {
	s := &stack{fn: fn, own: namesOf(launch.Dir), cache: namesOf(launch.Cache)}
	if len(s.cache) > 0 {
		quoted := make([]string, 0, len(s.cache))
		for _, name := range s.cache {
			quoted = append(quoted, regexp.QuoteMeta(name))
		}
		s.packed = regexp.MustCompile(`(?:file://)?(?:` + strings.Join(quoted, "|") + `)/[^/\s"]+/[^/\s"]+/(?:\.local/lib/python[\d.]+/)?`)
	}
	s.wrapped = launch.DebugAddress != "" && fn.Source.Line > 0
	return s
}

// namesOf are the names of a folder: a process may see it through links or past them.
func namesOf(folder string) []string {
	if folder == "" || folder == string(filepath.Separator) {
		return nil
	}
	names := []string{folder}
	if resolved, err := filepath.EvalSymlinks(folder); err == nil && resolved != folder {
		names = append(names, resolved)
	}
	return names
}

// trace shows the lines of one stream with the files and lines of the user, and leaves out the frames of the server.
type trace struct {
	*stack

	frame int // how far the frame that is left out is indented; -1: none is
}

func (s *stack) trace() *trace { return &trace{stack: s, frame: -1} }

// show returns a line as the user shall see it, and false for one to leave out.
func (t *trace) show(line string) (string, bool) {
	indent := len(line) - len(strings.TrimLeft(line, " "))
	if t.frame >= 0 && indent >= t.frame+2 {
		return "", false // the text of a frame that is left out
	}
	t.frame = -1
	if t.hides(line) {
		if moduleFrame.MatchString(line) {
			t.frame = indent
		}
		return line[:indent] + "{", strings.HasSuffix(line, " {") // the fields of an error follow
	}
	shown := t.renamed(line)
	if binaryFrame.MatchString(shown) {
		shown = compiled.ReplaceAllLiteralString(shown, "\t")
	}
	if shown != line || scriptFrame.MatchString(line) || moduleFrame.MatchString(line) || syntaxFrame.MatchString(line) {
		shown = t.placed(shown)
	}
	return shown, true
}

// hides reports whether a line is a frame of the server's or of Node.js' own files.
func (t *trace) hides(line string) bool {
	if scriptFrame.MatchString(line) {
		return strings.Contains(line, "(node:") || strings.Contains(line, " at node:") || t.ofServer(line)
	}
	if moduleFrame.MatchString(line) {
		return t.ofServer(line) || t.wrapped && module.MatchString(t.renamed(line))
	}
	return strings.HasPrefix(line, "- ") && t.ofServer(line) // who required a module
}

func (t *trace) ofServer(line string) bool {
	return strings.Contains(line, ofServer) && slices.ContainsFunc(t.cache, func(cache string) bool { return strings.Contains(line, cache) })
}

// renamed has no path of a copy or the cache any more.
func (t *trace) renamed(line string) string {
	if !strings.Contains(line, "/") {
		return line
	}
	base := ""
	if repository := t.fn.Spec.Source.GitRepository; repository != nil {
		base = strings.TrimPrefix(path.Clean("/"+repository.BaseDir), "/")
		if base != "" {
			base += "/"
		}
	}
	for _, own := range t.own {
		line = strings.ReplaceAll(strings.ReplaceAll(line, "file://"+own+"/", base), own+"/", base)
	}
	if t.packed != nil {
		line = t.packed.ReplaceAllLiteralString(line, "")
	}
	if origin, err := filepath.Abs(t.fn.Source.File); err == nil && t.fn.Source.File != "" {
		line = strings.ReplaceAll(strings.ReplaceAll(line, "file://"+origin, t.fn.Source.File), origin, t.fn.Source.File)
	}
	return line
}

// placed names the position in the manifest, or in the file that Kustomize took the source from, where it is known.
func (t *trace) placed(line string) string {
	source := t.fn.Source
	if source.Line == 0 {
		return line
	}
	line = script.ReplaceAllStringFunc(line, func(match string) string {
		parts := script.FindStringSubmatch(match)
		column := parts[3]
		if source.Line > 1 {
			column = "" // the text is indented there
		}
		return parts[1] + source.File + ":" + moved(parts[2], source.Line) + column
	})
	line = binary.ReplaceAllStringFunc(line, func(match string) string {
		return "\t" + source.File + ":" + moved(binary.FindStringSubmatch(match)[1], source.Line)
	})
	return module.ReplaceAllStringFunc(line, func(match string) string {
		return `File "` + source.File + `", line ` + moved(module.FindStringSubmatch(match)[1], source.Line)
	})
}

// moved is the line of a file whose part begins at first.
func moved(line string, first int) string {
	n, err := strconv.Atoi(line)
	if err != nil {
		return line
	}
	return strconv.Itoa(first + n - 1)
}
