package language

import (
	"fmt"
	"regexp"
	"strings"
)

// Failed is the output of a package manager that failed.
type Failed struct {
	// Output is the end of its output.
	Output string
	// Log is its log, if it writes one.
	Log string
	// Manifest is the name of the dependency file in messages.
	Manifest string
	Site     Site
}

const compilers = `(?:[\w-]*(?:gcc|g\+\+|clang|clang\+\+)|cc|c\+\+|make|cmake|ninja|cargo|rustc)`

var (
	// Messages of node-gyp, distutils, setuptools, Meson, CMake, Rust and a shell.
	compilerMissing = regexp.MustCompile(`Could not find any Python installation to use|not found: make|` +
		"linker `\\w+` not found|" + `Unknown compiler\(s\)|No CMAKE_CXX?_COMPILER could be found|(?i:can't find rust compiler)|` +
		`No such file or directory: '(?:[^'\n]*/)?` + compilers + `'|(?:command|execute) '(?:[^'\n]*/)?` + compilers + `'|` +
		`\b` + compilers + `: (?:command )?not found|(?m:make: ` + compilers + `: No such file or directory)`)

	hostUnreachable = regexp.MustCompile(`Could not resolve host|unable to access|Connection refused|Connection timed out|Network is unreachable`)
	gitForbidden    = regexp.MustCompile(`Permission denied|Authentication failed|could not read Username|Repository not found`)
	distrusted      = regexp.MustCompile(`(?i)certificate verify failed|self-signed certificate|SSL certificate problem`)
	gitFatal        = regexp.MustCompile(`(?m)(fatal: .*)$`)
)

// Match returns the first group of the expression in text, or an empty string.
func Match(expression *regexp.Regexp, text string) string {
	if groups := expression.FindStringSubmatch(text); groups != nil {
		return strings.TrimSpace(groups[1])
	}
	return ""
}

// LastLine returns the last line of a text that is not blank.
func LastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// Distrusted reports whether a text is an error about an untrusted certificate.
func Distrusted(text string) bool { return distrusted.MatchString(text) }

// CompilerMissing returns the failure of a package that has to be compiled without a compiler. The name of the package may be empty.
func (f Failed) CompilerMissing(name string) (Reason, string, bool) {
	if !compilerMissing.MatchString(f.Output) {
		return "", "", false
	}
	if name == "" {
		name = "a package"
	}
	return CompilerMissing, fmt.Sprintf("%s has to be compiled, and %s has no compiler; %s", name, f.Site.Name, f.Site.Compiler), true
}

// GitMissing returns the failure of a dependency in a Git repository where Git is missing.
func (f Failed) GitMissing() (Reason, string) {
	return InstallFailed, "a dependency comes from a Git repository, and " + f.Site.Name + " has no git; depend on an archive's URL instead"
}

// GitFailure returns the failure of a dependency that could not be fetched from a Git repository, from the output of Git.
func (f Failed) GitFailure(output string) (Reason, string, bool) {
	line := Match(gitFatal, output)
	switch {
	case line == "":
		return "", "", false
	case hostUnreachable.MatchString(output), Distrusted(output):
		return PackagesUnreachable, "the repository of a dependency cannot be reached: " + line, true
	case gitForbidden.MatchString(output):
		return PackageForbidden, fmt.Sprintf("the repository of a dependency refuses access: %s; %s", line, f.Site.Credentials), true
	default:
		return InstallFailed, "a dependency cannot be fetched from its repository: " + line, true
	}
}
