package transcript

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Kind is the kind of a step.
type Kind int

// The kinds of steps.
const (
	// Run runs commands and waits for them.
	Run Kind = iota
	// Start runs commands in the background.
	Start
	// Follow waits for output of the newest background command.
	Follow
	// Interrupt interrupts the newest background command like Ctrl-C, and waits for its end.
	Interrupt
)

// Step is one block of a page.
type Step struct {
	Kind Kind
	// Line is the first line of the block, from 1.
	Line int
	// Script holds the commands; empty for Follow and Interrupt.
	Script string
	// Await repeats the commands until they print the expected output. Fails expects an error.
	Await, Fails bool
	// Tags are words without a meaning in this package.
	Tags []string
	// Want are the expected lines of the output.
	Want []string
}

// Tagged reports whether the step has the tag.
func (s Step) Tagged(tag string) bool { return slices.Contains(s.Tags, tag) }

const (
	wordBackground  = "background"
	interruptMarker = "<!-- interrupt -->"
)

// Parse parses the steps of a page. tags are the allowed words besides those of this package.
func Parse(page string, tags ...string) ([]Step, error) {
	var steps []Step
	lines := strings.Split(page, "\n")
	for i := 0; i < len(lines); i++ {
		if strings.TrimSpace(lines[i]) == interruptMarker {
			steps = append(steps, Step{Kind: Interrupt, Line: i + 1})
			continue
		}
		fence, info, ok := opening(lines[i])
		if !ok {
			continue
		}
		begin := i
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != fence; i++ {
		}
		if i == len(lines) {
			return nil, fmt.Errorf("line %d: the block does not end", begin+1)
		}
		var err error
		if steps, err = add(steps, begin+1, info, lines[begin+1:i], tags); err != nil {
			return nil, fmt.Errorf("line %d: %w", begin+1, err)
		}
	}
	return steps, nil
}

// opening reports whether a line opens a block, and returns its fence and the words after it.
func opening(line string) (fence string, info []string, ok bool) {
	text := strings.TrimSpace(line)
	rest := strings.TrimLeft(text, "`")
	fence = text[:len(text)-len(rest)]
	return fence, strings.Fields(rest), len(fence) >= 3
}

// add adds a block to the steps. It ignores blocks of other languages.
func add(steps []Step, line int, info, body, tags []string) ([]Step, error) {
	if len(info) == 0 {
		return steps, nil
	}
	switch info[0] {
	case "sh":
		step, err := commands(line, info[1:], body, tags)
		return append(steps, step), err
	case "output":
		return output(steps, line, info[1:], body)
	default:
		return steps, nil
	}
}

func commands(line int, words, body, tags []string) (Step, error) {
	step := Step{Kind: Run, Line: line, Script: strings.Join(body, "\n") + "\n"}
	for _, word := range words {
		switch {
		case word == wordBackground:
			step.Kind = Start
		case word == "await":
			step.Await = true
		case word == "fails":
			step.Fails = true
		case slices.Contains(tags, word):
			step.Tags = append(step.Tags, word)
		default:
			return Step{}, fmt.Errorf("%q is not a word for a block of commands", word)
		}
	}
	if step.Kind == Start && (step.Await || step.Fails) {
		return Step{}, fmt.Errorf("a command in the %s is neither awaited nor failed", wordBackground)
	}
	return step, nil
}

func output(steps []Step, line int, words, body []string) ([]Step, error) {
	var want []string
	for _, text := range body {
		if text = strings.TrimSpace(text); text != "" {
			want = append(want, text)
		}
	}
	switch {
	case slices.Equal(words, []string{wordBackground}):
		if !slices.ContainsFunc(steps, func(s Step) bool { return s.Kind == Start }) {
			return nil, fmt.Errorf("no command runs in the %s that could print this", wordBackground)
		}
		return append(steps, Step{Kind: Follow, Line: line, Want: want}), nil
	case len(words) > 0:
		return nil, fmt.Errorf("%q is not a word for output", words[0])
	case len(steps) == 0 || steps[len(steps)-1].Script == "" || steps[len(steps)-1].Want != nil:
		return nil, errors.New("no commands stand before this output")
	}
	steps[len(steps)-1].Want = want
	return steps, nil
}

// missing returns the first expected line that is not in the output after the lines before it, and the output that has
// not been compared.
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

// after returns the output after the first line that contains the expected one.
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

// changing matches the parts of an output that differ in each run: times, durations, generated ids and ports.
const changing = `\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?` +
	`|\d\d:\d\d:\d\d(\.\d+)?` +
	`|\b\d+(\.\d+)?(m\d+(\.\d+)?s| ?(µs|ms|s|min)\b)` +
	`|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b` +
	`|\b[0-9a-f]{32}\b` +
	`|(127\.0\.0\.1|localhost):\d+`

// matcher returns an expression for an expected line: any white space matches one blank, "..." matches anything, and
// parts that differ in each run match others of their kind.
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

// plain returns a line without colour sequences.
func plain(line string) string {
	return regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]").ReplaceAllString(line, "")
}

// Checkout copies the files of a repository into a new folder like a clone: without hidden, installed or built files.
func Checkout(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("copy the repository: %w", err)
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return fmt.Errorf("copy the repository: %w", err)
		}
		target := filepath.Join(to, name)
		switch {
		case entry.IsDir() && path != from && made(entry.Name()):
			return filepath.SkipDir
		case entry.IsDir():
			return os.MkdirAll(target, 0o755)
		case entry.Type().IsRegular():
			return duplicate(path, target)
		}
		return nil
	})
}

// made reports whether a folder is not part of the repository itself.
func made(name string) bool {
	return strings.HasPrefix(name, ".") || name == "node_modules" || name == "bin" || name == "__pycache__"
}

func duplicate(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return fmt.Errorf("copy a file: %w", err)
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("copy a file: %w", err)
	}
	return os.WriteFile(to, content, info.Mode().Perm())
}

// Environment returns this process's environment with a separate state folder, and without variables that would affect
// the page: the cluster of the user who runs the test, and settings of the test itself.
func Environment(state string) []string {
	var env []string
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		switch name {
		case "XDG_STATE_HOME", "KUBECONFIG", "MAKEFLAGS", "MAKELEVEL", "MFLAGS":
		default:
			env = append(env, variable)
		}
	}
	return append(env, "XDG_STATE_HOME="+state)
}
