package golang

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/rouse-run/rouse/runtimes/language"
)

var (
	goUnknown   = regexp.MustCompile(`(?m)^\s*(?:go: )?(?:\S+:\d+:\d+: )?(\S+@\S+): (?:reading \S+: 404|invalid version: unknown revision|.*404 Not Found)`)
	goNoPackage = regexp.MustCompile(`(?:cannot find module providing package|no required module provides package|does not contain package) ([^\s:;,]+)`)
	goForbidden = regexp.MustCompile(`(?m)reading (\S+): (40[137] [^\n]*)`)
	goNetwork   = regexp.MustCompile(`(?m)(dial tcp[^\n]*|i/o timeout|TLS handshake timeout|connection reset[^\n]*|unexpected EOF|\b(?:5\d\d|429) [A-Z][^\n]*)`)
	goDistrust  = regexp.MustCompile(`x509: |certificate signed by unknown authority`)
	goParse     = regexp.MustCompile(`(?m)(?:errors parsing|parsing) [^\n]*go\.mod:\n?([^\n]*)`)
	goTooNew    = regexp.MustCompile(`(?m)((?:requires|go\.mod requires) go >= [\w.]+) \(running go ([\w.]+)`)
	goSum       = regexp.MustCompile(`checksum mismatch|SECURITY ERROR`)
	goVCS       = regexp.MustCompile(`GOVCS disallows using \w+ for (?:public|private) ([^\s;]+)`)
	goDisabled  = regexp.MustCompile(`module lookup disabled by GOPROXY=off`)
	goSource    = regexp.MustCompile(`(?m)^(?:vet: )?\.\./source/([^\n]+:\d+:\d+: [^\n]+)$`)
	goFetched   = regexp.MustCompile(`: \S+@v\S+: |: reading |dial tcp|no required module|cannot find module|does not contain package|GOVCS|GOPROXY=off|: verifying `)
	goSignature = regexp.MustCompile(`(?m)^\./main\.go:\d+:\d+: ((?:func|[\w.]+)[^\n]* does not satisfy )`)
	goHandler   = regexp.MustCompile(`(?m)^\./main\.go:\d+:\d+: ([^\n]+)$`)
	goSymbol    = regexp.MustCompile(`(?m)^(?:go: |link: |#)?([^\n]*(?:missing function body|relocation target [^\n]+ not defined)[^\n]*)$`)
)

const mostLines = 10

// classify finds out why the compiler failed, which fetches modules as well.
func classify(f language.Failed) (language.Reason, string) {
	output := f.Output
	if reason, message := classifySource(f); reason != "" {
		return reason, message
	}
	switch {
	case goSum.MatchString(output):
		return language.InstallFailed, "a module is not what its checksum says; correct go.sum, and find out who changed the module"
	case goVCS.MatchString(output):
		return language.PackageForbidden, fmt.Sprintf("module %s would come from a repository, and builds fetch modules from a proxy alone; "+
			"name a proxy that has it in GOPROXY of go.env: %s", language.Match(goVCS, output), f.Site.Credentials)
	case strings.Contains(output, "refusing to pass credentials to insecure URL"):
		return language.PackageForbidden, "GOPROXY of go.env has a password for a proxy by http, which would be sent as it is; name the proxy by https"
	case goDisabled.MatchString(output):
		return language.PackagesUnreachable, "GOPROXY is off, and a module is needed; name a module proxy in it"
	case goForbidden.MatchString(output):
		groups := goForbidden.FindStringSubmatch(output)
		return language.PackageForbidden, fmt.Sprintf("the module proxy refuses access to %s: %s; %s", groups[1], groups[2], f.Site.Credentials)
	case goUnknown.MatchString(output):
		return language.PackageNotFound, fmt.Sprintf("there is no %s; correct %s or, if it is private, %s",
			language.Match(goUnknown, output), f.Manifest, f.Site.Credentials)
	case goDistrust.MatchString(output):
		return language.PackagesUnreachable, "the certificate of the module proxy is not trusted; " + f.Site.Trust
	case goNetwork.MatchString(output):
		return language.PackagesUnreachable, fmt.Sprintf("the module proxy does not answer (%s); %s", language.Match(goNetwork, output), f.Site.Later)
	case goNoPackage.MatchString(output):
		return language.PackageNotFound, fmt.Sprintf("no module in %s provides package %s; correct the import, or require a version that has it",
			f.Manifest, language.Match(goNoPackage, output))
	}
	return language.SourceInvalid, "go build failed: " + renamed(language.LastLine(output))
}

// classifySource is for what the user wrote.
func classifySource(f language.Failed) (language.Reason, string) {
	output := f.Output
	if groups := goTooNew.FindStringSubmatch(output); groups != nil {
		return language.InvalidDependencies, fmt.Sprintf("%s, or a module that it needs, %s, and the runtime has %s; take older versions",
			f.Manifest, groups[1], groups[2])
	}
	if goParse.MatchString(output) {
		return language.InvalidDependencies, fmt.Sprintf("%s cannot be used: %s", f.Manifest, renamed(language.Match(goParse, output)))
	}
	if goSignature.MatchString(output) {
		shape := strings.TrimSuffix(language.Match(goSignature, output), " does not satisfy")
		return language.SourceInvalid, fmt.Sprintf("%s: Handle is a %s; %s", handlerFile, shape, shapes)
	}
	var lines []string
	for _, match := range goSource.FindAllStringSubmatch(output, mostLines) {
		if !goFetched.MatchString(match[1]) {
			lines = append(lines, match[1])
		}
	}
	if len(lines) > 0 {
		return language.SourceInvalid, "the source does not compile:\n" + strings.Join(lines, "\n")
	}
	if message := language.Match(goHandler, output); message != "" {
		return language.SourceInvalid, handlerFile + ": " + message + "; " + shapes
	}
	if message := language.Match(goSymbol, output); message != "" {
		return language.SourceInvalid, "the source does not compile: " + renamed(message)
	}
	return "", ""
}

// renamed names files as the user does.
func renamed(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(text), "../source/", "")
}
