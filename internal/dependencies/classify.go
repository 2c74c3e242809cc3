package dependencies

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"

	"github.com/rouse-run/rouse/internal/build"
)

const (
	logLines = 40

	compilers = `(?:[\w-]*(?:gcc|g\+\+|clang|clang\+\+)|cc|c\+\+|make|cmake|ninja|cargo|rustc)`
)

// failed is what every package manager has in common; the rest is for classify.
func (r Request) failed(installed Ended, classify func() (build.Reason, string)) *Failure {
	failed := &Failure{Log: lastLines(installed.Output, logLines)}
	switch {
	case errors.Is(installed.Err, exec.ErrNotFound):
		failed.Reason = build.InstallFailed
		failed.Message = r.Site.name + " has no package manager (" + installed.Err.Error() + "); " + r.Site.manager
	case installed.Killed || outOfMemory.MatchString(installed.Output):
		failed.Reason = build.OutOfMemory
		failed.Message = "installing the dependencies needs more memory; " + r.Site.memory
	case outOfSpace.MatchString(installed.Output):
		failed.Reason = build.ImageTooLarge
		failed.Message = r.Site.space
	default:
		failed.Reason, failed.Message = classify()
	}
	return failed
}

var (
	outOfMemory = regexp.MustCompile(`JavaScript heap out of memory|(?m)^MemoryError|Cannot allocate memory|Killed signal terminated program`)
	outOfSpace  = regexp.MustCompile(`ENOSPC|No space left on device`)

	// What node-gyp, distutils, setuptools, Meson, CMake, Rust and a shell say.
	compilerMissing = regexp.MustCompile(`Could not find any Python installation to use|not found: make|` +
		"linker `\\w+` not found|" + `Unknown compiler\(s\)|No CMAKE_CXX?_COMPILER could be found|(?i:can't find rust compiler)|` +
		`No such file or directory: '(?:[^'\n]*/)?` + compilers + `'|(?:command|execute) '(?:[^'\n]*/)?` + compilers + `'|` +
		`\b` + compilers + `: (?:command )?not found|(?m:make: ` + compilers + `: No such file or directory)`)

	hostUnreachable = regexp.MustCompile(`Could not resolve host|unable to access|Connection refused|Connection timed out|Network is unreachable`)
	gitForbidden    = regexp.MustCompile(`Permission denied|Authentication failed|could not read Username|Repository not found`)
	distrusted      = regexp.MustCompile(`(?i)certificate verify failed|self-signed certificate|SSL certificate problem`)
)

// match is the first group of the expression in text, or empty.
func match(expression *regexp.Regexp, text string) string {
	if groups := expression.FindStringSubmatch(text); groups != nil {
		return strings.TrimSpace(groups[1])
	}
	return ""
}

// orPackage names a package where the output does.
func orPackage(name string) string {
	if name == "" {
		return "a package"
	}
	return name
}

// gitFailure classifies a dependency that could not be fetched from a Git repository.
func (r Request) gitFailure(output string) (build.Reason, string, bool) {
	line := match(regexp.MustCompile(`(?m)(fatal: .*)$`), output)
	switch {
	case line == "":
		return "", "", false
	case hostUnreachable.MatchString(output), distrusted.MatchString(output):
		return build.PackagesUnreachable, "the repository of a dependency cannot be reached: " + line, true
	case gitForbidden.MatchString(output):
		return build.PackageForbidden, fmt.Sprintf("the repository of a dependency refuses access: %s; %s", line, r.Site.credentials), true
	default:
		return build.InstallFailed, "a dependency cannot be fetched from its repository: " + line, true
	}
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

func lastLines(text string, count int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(len(lines)-count, 0):], "\n")
}
