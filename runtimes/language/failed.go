package language

import (
	"fmt"
	"regexp"
	"strings"
)

// Failed is a package manager that failed, or a program that only runs it.
type Failed struct {
	// Output is the last that it printed.
	Output string
	// Log is more than that, where it writes one.
	Log string
	// Manifest is what its user calls the manifest.
	Manifest string
	Site     Site
}

const compilers = `(?:[\w-]*(?:gcc|g\+\+|clang|clang\+\+)|cc|c\+\+|make|cmake|ninja|cargo|rustc)`

var (
	// What node-gyp, distutils, setuptools, Meson, CMake, Rust and a shell say.
	compilerMissing = regexp.MustCompile(`Could not find any Python installation to use|not found: make|` +
		"linker `\\w+` not found|" + `Unknown compiler\(s\)|No CMAKE_CXX?_COMPILER could be found|(?i:can't find rust compiler)|` +
		`No such file or directory: '(?:[^'\n]*/)?` + compilers + `'|(?:command|execute) '(?:[^'\n]*/)?` + compilers + `'|` +
		`\b` + compilers + `: (?:command )?not found|(?m:make: ` + compilers + `: No such file or directory)`)

	hostUnreachable = regexp.MustCompile(`Could not resolve host|unable to access|Connection refused|Connection timed out|Network is unreachable`)
	gitForbidden    = regexp.MustCompile(`Permission denied|Authentication failed|could not read Username|Repository not found`)
	distrusted      = regexp.MustCompile(`(?i)certificate verify failed|self-signed certificate|SSL certificate problem`)
	gitFatal        = regexp.MustCompile(`(?m)(fatal: .*)$`)
)

// Match is the first group of the expression in text, or empty.
func Match(expression *regexp.Regexp, text string) string {
	if groups := expression.FindStringSubmatch(text); groups != nil {
		return strings.TrimSpace(groups[1])
	}
	return ""
}

// LastLine is the last line of a text that is not blank.
func LastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// Distrusted reports whether a text is about a certificate that is not trusted.
func Distrusted(text string) bool { return distrusted.MatchString(text) }

// CompilerMissing is the failure of a package that has to be compiled, where there is no compiler. The name of the
// package may be empty.
func (f Failed) CompilerMissing(name string) (Reason, string, bool) {
	if !compilerMissing.MatchString(f.Output) {
		return "", "", false
	}
	if name == "" {
		name = "a package"
	}
	return CompilerMissing, fmt.Sprintf("%s has to be compiled, and %s has no compiler; %s", name, f.Site.Name, f.Site.Compiler), true
}

// GitMissing is the failure of a dependency that comes from a Git repository.
func (f Failed) GitMissing() (Reason, string) {
	return InstallFailed, "a dependency comes from a Git repository, and " + f.Site.Name + " has no git; depend on an archive's URL instead"
}

// GitFailure is the failure of a dependency that could not be fetched from a Git repository, by what Git printed.
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
