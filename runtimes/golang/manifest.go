package golang

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"unicode"
)

// ownModule is the server's module, which handlers may import.
const ownModule = "github.com/rouse-run/rouse"

// module holds the directives of a go.mod that affect the compilation. The compiler validates the rest.
type module struct {
	path, goVersion string
	requires        []string // module paths
	replaces        []replacement
}

type replacement struct {
	old, oldVersion string
	with, version   string // without a version with is a folder
	line            int
}

// parseModule parses the lines and blocks of a go.mod.
func parseModule(text string) (module, error) {
	var found module
	block := ""
	number := 0
	for line := range strings.Lines(text) {
		number++
		line, _, _ = strings.Cut(line, "//")
		words, err := wordsOf(line)
		if err != nil {
			return module{}, fmt.Errorf("line %d: %w", number, err)
		}
		switch {
		case len(words) == 0:
			continue
		case block != "" && words[0] == ")":
			block = ""
			continue
		case block != "":
			words = append([]string{block}, words...)
		case len(words) == 2 && words[1] == "(":
			block = words[0]
			continue
		}
		if err := found.take(words, number); err != nil {
			return module{}, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if block != "" {
		return module{}, fmt.Errorf("the block of %s has no end", block)
	}
	return found, nil
}

func wordsOf(line string) ([]string, error) {
	words := strings.Fields(line)
	for i, word := range words {
		if strings.HasPrefix(word, `"`) || strings.HasPrefix(word, "`") {
			plain, err := strconv.Unquote(word)
			if err != nil {
				return nil, fmt.Errorf("%s is not a string", word)
			}
			words[i] = plain
		}
	}
	return words, nil
}

func (m *module) take(words []string, line int) error {
	const form = `the dependencies have to be a go.mod, with lines such as: require github.com/google/uuid v1.6.0`
	if err := checkTaken(words); err != nil {
		return err
	}
	switch words[0] {
	case "module":
		if len(words) != 2 {
			return fmt.Errorf("module has to name one path; %s", form)
		}
		m.path = words[1]
	case "go":
		if len(words) == 2 {
			m.goVersion = words[1]
		}
	case "require":
		if len(words) != 3 {
			return fmt.Errorf("require has to name a module and its version; %s", form)
		}
		m.requires = append(m.requires, words[1])
	case "replace":
		return m.replace(words[1:], line)
	case "toolchain", "exclude", "retract", "tool", "ignore", "godebug":
	default:
		return fmt.Errorf("%q is not a directive; %s", words[0], form)
	}
	return nil
}

// checkTaken rejects words that would have another meaning in the main module, into which these directives are copied.
func checkTaken(words []string) error {
	if words[0] != "module" && words[0] != "go" && words[0] != "replace" {
		return nil
	}
	for _, word := range words[1:] {
		if word != "=>" && (strings.ContainsFunc(word, isForeign) || strings.Contains(word, "//")) {
			return fmt.Errorf("%s has %q, where only letters, digits and -._~/+!:@ may be, and no //", words[0], word)
		}
	}
	return nil
}

// isForeign reports whether a character is invalid in paths, folders and versions. A line break, a quote, a bracket or
// a comment would split a word when it is written.
func isForeign(c rune) bool {
	return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !unicode.IsMark(c) && !strings.ContainsRune("-._~/+!:@", c)
}

func (m *module) replace(words []string, line int) error {
	arrow := 1
	if len(words) > 2 && words[1] != "=>" {
		arrow = 2
	}
	if len(words) < arrow+2 || len(words) > arrow+3 || words[arrow] != "=>" {
		return errors.New("replace has to be: replace module [version] => module version")
	}
	made := replacement{old: words[0], with: words[arrow+1], line: line}
	if arrow == 2 {
		made.oldVersion = words[1]
	}
	if len(words) == arrow+3 {
		made.version = words[arrow+2]
	}
	m.replaces = append(m.replaces, made)
	return nil
}

// target returns the replacement for the project's main module. It returns false for one that leads out of the source.
func (r replacement) target() (string, bool) {
	if r.version != "" {
		return r.with + " " + r.version, true
	}
	clean := path.Clean(r.with)
	if path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") || strings.ContainsAny(clean, "\\:\"'`") {
		return "", false
	}
	return "../source/" + clean, true
}

func validate(text string) string {
	if _, err := parseModule(text); err != nil {
		return err.Error()
	}
	return ""
}

// provides reports whether the module or one of its dependencies may contain a package, judging by its path.
func (m *module) provides(imported string) bool {
	if within(imported, ownModule) || within(imported, m.path) {
		return true
	}
	for _, required := range m.requires {
		if within(imported, required) {
			return true
		}
	}
	return false
}

func within(imported, module string) bool {
	return imported == module || strings.HasPrefix(imported, module+"/")
}

// version returns a version that a module of that path may have.
func version(of string) string {
	last := path.Base(of)
	if number, found := strings.CutPrefix(last, "v"); found && number != "" && strings.Trim(number, "0123456789") == "" && number != "0" && number != "1" {
		return last + ".0.0"
	}
	return "v0.0.0"
}
