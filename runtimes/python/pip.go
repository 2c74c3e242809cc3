package python

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/rouse-run/rouse/runtimes/language"
)

var (
	pipInvalid   = regexp.MustCompile(`(?m)^ERROR: ((?:Invalid requirement|Could not open requirements file|Invalid constraint).*)$`)
	pipNoMatch   = regexp.MustCompile(`(?m)^\s*ERROR: No matching distribution found for (.+)$`)
	pipVersions  = regexp.MustCompile(`(?m)ERROR: Could not find a version .*\(from versions: (.+)\)$`)
	pipFetch     = regexp.MustCompile(`(?m)Could not fetch URL (\S+): (.+?)(?: - skipping)?$`)
	pipHTTP      = regexp.MustCompile(`(?m)^\s*ERROR: HTTP error (\d+ .*)$`)
	pipConflict  = regexp.MustCompile(`(?s)The conflict is caused by:\n(.+?)\n\n`)
	pipWheel     = regexp.MustCompile(`(?m)(?:ERROR: Failed building wheel for |Building wheel for |Preparing metadata \(pyproject\.toml\) for )(\S+)`)
	pipCollected = regexp.MustCompile(`(?m)^Collecting (\S+)`)
	pipLast      = regexp.MustCompile(`(?m)^\s+(\S.*)\n\s+\[end of output\]`)
	pipError     = regexp.MustCompile(`(?m)^\s*(?:ERROR|error): (.+)$`)
	pipNetwork   = regexp.MustCompile(`(?i)connection error|Max retries exceeded|Read timed out|ReadTimeoutError|ConnectionError|` +
		`ProtocolError|IncompleteRead|NewConnectionError|5\d\d (?:Server )?Error`)
	pipForbidden = regexp.MustCompile(`\b40[13] (?:Client )?(?:Error|Unauthorized|Forbidden)|^40[13] `)
	pipPython    = regexp.MustCompile(`Requires-Python|requires a different Python|require a different python version`)
)

// classify finds out why pip failed: from what it printed, and from its log, because only that says what
// kept pip from reading an index.
func classify(f language.Failed) (language.Reason, string) {
	output := f.Output
	if line := language.Match(pipInvalid, output); line != "" {
		return language.InvalidDependencies, fmt.Sprintf("%s cannot be used: %s", f.Manifest, line)
	}
	if strings.Contains(output, "ResolutionImpossible") || pipConflict.MatchString(output) {
		return language.InvalidDependencies, fmt.Sprintf("the dependencies in %s contradict each other: %s; change a version so that they agree",
			f.Manifest, strings.Join(strings.Fields(language.Match(pipConflict, output)), " "))
	}
	if wanted := language.Match(pipNoMatch, output); wanted != "" {
		return noDistribution(f, wanted)
	}
	if answer := language.Match(pipHTTP, output); pipForbidden.MatchString(answer) {
		return language.PackageForbidden, fmt.Sprintf("the package index refuses access: %s; %s", answer, f.Site.Credentials)
	}
	return failedPip(f)
}

// noDistribution distinguishes a missing package from an index that could not be read.
func noDistribution(f language.Failed, wanted string) (language.Reason, string) {
	for _, fetch := range pipFetch.FindAllStringSubmatch(f.Log, -1) {
		url, cause := fetch[1], fetch[2]
		switch {
		case pipForbidden.MatchString(cause):
			return language.PackageForbidden, fmt.Sprintf("the package index refuses access to %s; %s", url, f.Site.Credentials)
		case language.Distrusted(cause):
			return language.PackagesUnreachable, fmt.Sprintf("the certificate of the package index is not trusted (%s); %s", url, f.Site.Trust)
		case pipNetwork.MatchString(cause):
			return language.PackagesUnreachable, fmt.Sprintf("the package index does not answer (%s); %s", url, f.Site.Later)
		}
	}
	versions := language.Match(pipVersions, f.Output)
	switch {
	case pipPython.MatchString(f.Output):
		return language.PackageNotFound, fmt.Sprintf("no version of a package fits %s for this version of Python; correct %s or change the runtime",
			wanted, f.Manifest)
	case versions == "none" || versions == "":
		return language.PackageNotFound, fmt.Sprintf("there is no package %s for this version of Python; correct %s or, if it is private, %s",
			wanted, f.Manifest, f.Site.Credentials)
	}
	return language.PackageNotFound, fmt.Sprintf("no version of a package fits %s (the newest is %s); correct %s",
		wanted, versions[strings.LastIndexByte(versions, ' ')+1:], f.Manifest)
}

// failedPip is for what went wrong after all packages were found.
func failedPip(f language.Failed) (language.Reason, string) {
	output := f.Output
	name := language.Match(pipWheel, output)
	if all := pipCollected.FindAllStringSubmatch(output, -1); name == "" && len(all) > 0 {
		name = all[len(all)-1][1]
	}
	if strings.Contains(output, "Cannot find command 'git'") {
		return f.GitMissing()
	}
	if reason, message, ok := f.GitFailure(output); ok {
		return reason, message
	}
	if reason, message, ok := f.CompilerMissing(name); ok {
		return reason, message
	}
	switch {
	case strings.Contains(output, "DO NOT MATCH THE HASHES"):
		return language.InstallFailed, "a package is not what its hash says; correct the hash, and find out who changed the package"
	case language.Distrusted(output):
		return language.PackagesUnreachable, "the certificate of the package index is not trusted; " + f.Site.Trust
	case pipNetwork.MatchString(output):
		return language.PackagesUnreachable, "the package index does not answer; " + f.Site.Later
	case strings.Contains(output, "No module named pip"):
		return language.InstallFailed, f.Site.Name + " has no pip; " + f.Site.Manager
	case pipWheel.MatchString(output):
		return language.InstallFailed, fmt.Sprintf("%s cannot be built: %s", name, cmp.Or(language.Match(pipLast, output), language.Match(pipError, output)))
	}
	return language.InstallFailed, "pip failed: " + cmp.Or(language.Match(pipLast, output), language.Match(pipError, output), language.LastLine(output))
}
