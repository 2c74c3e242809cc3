package runner

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/toolchain"
)

const (
	// keptLines bounds the lines that are searched for an error when a replica ends, shownLines those that are reported.
	keptLines  = 40
	shownLines = 12
	// notLoaded begins a runtime's message about a handler that does not load.
	notLoaded = "handler did not load:"
)

// crash describes a replica that ended by itself.
type crash struct {
	fn    manifest.Function
	how   string   // such as "exit status 1"
	lines []string // as shown to the user
}

// describe returns the reason in one line, with the position in the user's file, followed by the last lines of the replica.
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
		text += message + " (" + c.how + ")" + c.hint(message)
	} else {
		text += "the process ended by itself with " + c.how
	}
	if shown := lines[max(len(lines)-shownLines, 0):]; len(shown) > 0 {
		text += "\n" + strings.Join(shown, "\n")
	}
	return text
}

// hint returns how the source can have a file that it lacks.
func (c crash) hint(message string) string {
	if c.fn.Files != nil || c.fn.Spec.Source.Inline == nil || !siblingMissing.MatchString(message) {
		return ""
	}
	return ": the source is one file; with " + v1alpha2.AnnotationFiles + " in spec.annotations it is the folder of the manifest"
}

// position returns the innermost line of the source in a stack trace: its first frame in Node.js and Go, its last in Python.
func (c crash) position(lines []string) manifest.Position {
	source := c.fn.Source
	if c.fn.Files != nil && source.Line == 0 {
		return c.inFiles(lines)
	}
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

// inFiles returns the innermost line of one of the source's files.
func (c crash) inFiles(lines []string) manifest.Position {
	base, found := baseOf(c.fn), c.fn.At
	for _, line := range lines {
		for _, match := range fileFrame.FindAllStringSubmatch(line, -1) {
			name, below := strings.CutPrefix(match[2], base)
			if _, own := c.fn.Files.Content[name]; !own || !below {
				continue
			}
			number, err := strconv.Atoi(strings.TrimLeft(match[3], `:", line`))
			if err != nil {
				continue
			}
			found = manifest.Position{File: match[2], Line: number}
			if !strings.HasPrefix(match[3], `"`) {
				return found // Python prints the innermost frame last, all others first
			}
		}
	}
	return found
}

// errorLine returns the line with the error: the exception, or else the text after the runtime's prefix, or else the last line.
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

// placed prefixes a text with the position unless it names the file.
func placed(at manifest.Position, text string) string {
	if at.File == "" || strings.Contains(text, at.File) {
		return text
	}
	return at.String() + ": " + text
}

var (
	// The frames of Node.js, Python and Go, and the line that Node.js prints above a syntax error.
	scriptFrame = regexp.MustCompile(`^\s+at `)
	moduleFrame = regexp.MustCompile(`^(\s*)File "[^"]*", line \d+`)
	binaryFrame = regexp.MustCompile(`^\t\S+\.go:\d+`)
	syntaxFrame = regexp.MustCompile(`^(?:` + notLoaded + ` )?handler\.[cm]?js:\d+$`)
	// The handler of a Function in frames, as its server names it.
	script = regexp.MustCompile(`(^|[\s(])handler\.[cm]?js:(\d+)(:\d+)?`)
	module = regexp.MustCompile(`File "handler\.py", line (\d+)`)
	binary = regexp.MustCompile(`^\thandler\.go:(\d+)`)
	// An import of a file beside the handler that is not there.
	siblingMissing = regexp.MustCompile(`Cannot find module '\.{1,2}/`)
	// Any file in a frame, and one that is a line by itself.
	fileFrame  = regexp.MustCompile(`(^|[\s(]|File ")([^\s"():]+)(:\d+|", line \d+)`)
	aloneFrame = regexp.MustCompile(`^(?:` + notLoaded + ` )?[^\s:]+:\d+$`)
	// compiled is the prefix of source files in Go, where the source is a dependency of the built module.
	compiled = regexp.MustCompile(`^\t\S+@v(?:0|[2-9]\d*)\.0\.0/`)
)

// ofServer is part of the path of all files of the runtimes' servers.
const ofServer = "/usr/src/app/"

// stack maps the paths of a Function's process to the user's: a Function runs a copy of its source, with packages and the server from the
// cache.
type stack struct {
	fn      manifest.Function
	own     []string       // the folder with the copy
	packed  *regexp.Regexp // the path in the cache above node_modules or the like; nil without one
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

// namesOf returns the paths of a folder with symbolic links and without.
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

// trace rewrites the lines of one stream to the user's files and lines, and drops the frames of the server.
type trace struct {
	*stack

	frame int // indentation of the frame that is being dropped; -1 without one
}

func (s *stack) trace() *trace { return &trace{stack: s, frame: -1} }

// show returns a line as the user sees it, and false for a line to drop.
func (t *trace) show(line string) (string, bool) {
	indent := len(line) - len(strings.TrimLeft(line, " "))
	if t.frame >= 0 && indent >= t.frame+2 {
		return "", false // the text of a dropped frame
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
	if t.fn.Files != nil && aloneFrame.MatchString(shown) {
		return t.placed(shown), true
	}
	if shown != line || scriptFrame.MatchString(line) || moduleFrame.MatchString(line) || syntaxFrame.MatchString(line) {
		shown = t.placed(shown)
	}
	return shown, true
}

// hides reports whether a line is a frame in the files of the server or of Node.js.
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

// renamed returns the line without paths of the copy and the cache.
func (t *trace) renamed(line string) string {
	if !strings.Contains(line, "/") {
		return line
	}
	base := baseOf(t.fn)
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

// baseOf returns the path of the source, with a slash at its end, as messages show it.
func baseOf(fn manifest.Function) string {
	base := ""
	switch repository := fn.Spec.Source.GitRepository; {
	case fn.Files != nil:
		base = filepath.ToSlash(filepath.Clean(fn.Files.Dir))
	case repository != nil:
		base = strings.TrimPrefix(path.Clean("/"+repository.BaseDir), "/")
	}
	if base == "" || base == "." {
		return ""
	}
	return strings.TrimSuffix(base, "/") + "/"
}

// placed replaces a known position by that in the manifest, or in the file that Kustomize read the source from.
func (t *trace) placed(line string) string {
	source := t.fn.Source
	if source.Line == 0 && t.fn.Files != nil {
		return t.inFolder(line)
	}
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

// inFolder adds the folder to the frames in files of the source, which servers print without one.
func (t *trace) inFolder(line string) string {
	return fileFrame.ReplaceAllStringFunc(line, func(match string) string {
		parts := fileFrame.FindStringSubmatch(match)
		if _, own := t.fn.Files.Content[parts[2]]; !own {
			return match
		}
		return parts[1] + baseOf(t.fn) + parts[2] + parts[3]
	})
}

// moved returns a line number in a file whose part begins at line first.
func moved(line string, first int) string {
	n, err := strconv.Atoi(line)
	if err != nil {
		return line
	}
	return strconv.Itoa(first + n - 1)
}
