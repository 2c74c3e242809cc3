package dependencies

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/rouse-run/rouse/internal/build"
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

// classifyPip finds out why pip failed: from what it printed, and from its log, because only that says what
// kept pip from reading an index.
func (r Request) classifyPip(output, log string) (build.Reason, string) {
	if line := match(pipInvalid, output); line != "" {
		return build.InvalidDependencies, fmt.Sprintf("%s cannot be used: %s", r.Manifest, line)
	}
	if strings.Contains(output, "ResolutionImpossible") || pipConflict.MatchString(output) {
		return build.InvalidDependencies, fmt.Sprintf("the dependencies in %s contradict each other: %s; change a version so that they agree",
			r.Manifest, strings.Join(strings.Fields(match(pipConflict, output)), " "))
	}
	if wanted := match(pipNoMatch, output); wanted != "" {
		return r.noDistribution(wanted, output, log)
	}
	if answer := match(pipHTTP, output); pipForbidden.MatchString(answer) {
		return build.PackageForbidden, fmt.Sprintf("the package index refuses access: %s; %s", answer, r.Site.credentials)
	}
	return r.failedPip(output)
}

// noDistribution distinguishes a missing package from an index that could not be read.
func (r Request) noDistribution(wanted, output, log string) (build.Reason, string) {
	for _, fetch := range pipFetch.FindAllStringSubmatch(log, -1) {
		url, cause := fetch[1], fetch[2]
		switch {
		case pipForbidden.MatchString(cause):
			return build.PackageForbidden, fmt.Sprintf("the package index refuses access to %s; %s", url, r.Site.credentials)
		case distrusted.MatchString(cause):
			return build.PackagesUnreachable, fmt.Sprintf("the certificate of the package index is not trusted (%s); %s", url, r.Site.trust)
		case pipNetwork.MatchString(cause):
			return build.PackagesUnreachable, fmt.Sprintf("the package index does not answer (%s); %s", url, r.Site.later)
		}
	}
	versions := match(pipVersions, output)
	switch {
	case pipPython.MatchString(output):
		return build.PackageNotFound, fmt.Sprintf("no version of a package fits %s for this version of Python; correct %s or change the runtime",
			wanted, r.Manifest)
	case versions == "none" || versions == "":
		return build.PackageNotFound, fmt.Sprintf("there is no package %s for this version of Python; correct %s or, if it is private, %s",
			wanted, r.Manifest, r.Site.credentials)
	}
	return build.PackageNotFound, fmt.Sprintf("no version of a package fits %s (the newest is %s); correct %s",
		wanted, versions[strings.LastIndexByte(versions, ' ')+1:], r.Manifest)
}

// failedPip is for what went wrong after all packages were found.
func (r Request) failedPip(output string) (build.Reason, string) {
	name := match(pipWheel, output)
	if all := pipCollected.FindAllStringSubmatch(output, -1); name == "" && len(all) > 0 {
		name = all[len(all)-1][1]
	}
	if strings.Contains(output, "Cannot find command 'git'") {
		return build.InstallFailed, "a dependency comes from a Git repository, and " + r.Site.name + " has no git; depend on an archive's URL instead"
	}
	if reason, message, ok := r.gitFailure(output); ok {
		return reason, message
	}
	switch {
	case compilerMissing.MatchString(output):
		return build.CompilerMissing, fmt.Sprintf("%s has to be compiled, and %s has no compiler; %s", orPackage(name), r.Site.name, r.Site.compiler)
	case strings.Contains(output, "DO NOT MATCH THE HASHES"):
		return build.InstallFailed, "a package is not what its hash says; correct the hash, and find out who changed the package"
	case distrusted.MatchString(output):
		return build.PackagesUnreachable, "the certificate of the package index is not trusted; " + r.Site.trust
	case pipNetwork.MatchString(output):
		return build.PackagesUnreachable, "the package index does not answer; " + r.Site.later
	case strings.Contains(output, "No module named pip"):
		return build.InstallFailed, r.Site.name + " has no pip; " + r.Site.manager
	case pipWheel.MatchString(output):
		return build.InstallFailed, fmt.Sprintf("%s cannot be built: %s", name, cmp.Or(match(pipLast, output), match(pipError, output)))
	}
	return build.InstallFailed, "pip failed: " + cmp.Or(match(pipLast, output), match(pipError, output), lastLine(output))
}
