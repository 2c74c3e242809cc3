package dependencies

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/rouse-run/rouse/internal/build"
)

var (
	npmPrefix  = regexp.MustCompile(`(?m)^npm (?:error|ERR!) ?`)
	npmCode    = regexp.MustCompile(`(?m)^code (\S+)$`)
	npmMissing = regexp.MustCompile(`'([^'\n]+)' (?:could not be found|is not in)`)
	npmVersion = regexp.MustCompile(`No (?:matching version|versions) (?:found|available) for (\S+?)\.?\s`)
	npmURL     = regexp.MustCompile(`(?:GET|request to) (https?://\S+?),?\s`)
	npmPath    = regexp.MustCompile(`(?m)^path .*node_modules/((?:@[^/\n]+/)?[^/\n]+)$`)
	npmCommand = regexp.MustCompile(`(?m)^command sh -c (.+)$`)
	npmJSON    = regexp.MustCompile(`(?m)^(?:JSON\.parse )?(?:Invalid package\.json: )?\S*Error: (.+)$`)
	npmUnmet   = regexp.MustCompile(`(?m)^((?:Missing|Invalid): .+)$`)
	npmPeer    = regexp.MustCompile(`(?m)^(peer .+)$`)
)

// npmErrors are the lines of npm that report its failure, without npm's prefix.
func npmErrors(output string) string {
	var errs strings.Builder
	for line := range strings.Lines(output) {
		if at := npmPrefix.FindStringIndex(line); at != nil {
			errs.WriteString(line[at[1]:])
		}
	}
	return errs.String()
}

// classifyNPM finds out from npm's output why it failed.
func (r Request) classifyNPM(output string) (build.Reason, string) {
	errs := npmErrors(output)
	code := match(npmCode, errs)
	switch code {
	case "EJSONPARSE":
		return build.InvalidDependencies, fmt.Sprintf("%s is not JSON: %s", r.Manifest, match(npmJSON, errs))
	case "EINVALIDPACKAGENAME", "EINVALIDTAGNAME", "EUNSUPPORTEDPROTOCOL", "EOVERRIDE", "EINVALIDTYPE":
		return build.InvalidDependencies, fmt.Sprintf("%s cannot be used: %s", r.Manifest, afterCode(errs))
	case "ERESOLVE":
		return build.InvalidDependencies, fmt.Sprintf("the dependencies in %s contradict each other: %s; change a version so that they agree",
			r.Manifest, match(npmPeer, errs))
	case "EUSAGE":
		return build.InvalidDependencies, fmt.Sprintf("%s and its lock file do not agree: %s; run npm install and commit the lock file",
			r.Manifest, match(npmUnmet, errs))
	case "E404":
		return build.PackageNotFound, fmt.Sprintf("there is no package %s; correct %s or, if it is private, %s",
			match(npmMissing, errs), r.Manifest, r.Site.credentials)
	case "ETARGET", "ENOVERSIONS":
		return build.PackageNotFound, fmt.Sprintf("no version of a package fits %s; correct %s", match(npmVersion, errs), r.Manifest)
	case "E401", "E403", "ENEEDAUTH", "EOTP":
		return build.PackageForbidden, fmt.Sprintf("the package registry refuses access%s; %s", to(match(npmURL, errs)), r.Site.credentials)
	case "EBADPLATFORM", "EBADENGINE":
		return build.InstallFailed, fmt.Sprintf("%s; choose another package or version in %s", afterCode(errs), r.Manifest)
	case "EINTEGRITY":
		return build.InstallFailed, "a package is not what the lock file says; create the lock file again, and find out who changed the package"
	}
	if isUnreachable(code) {
		return r.unreachableNPM(code, errs)
	}
	return r.failedScript(code, errs, output)
}

func isUnreachable(code string) bool {
	switch code {
	case "ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ECONNABORTED", "ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH", "EPIPE",
		"EIDLETIMEOUT", "ERR_SOCKET_TIMEOUT", "ERR_SOCKET_CONNECTION_TIMEOUT", "ERESPONSETIMEOUT", "E429":
		return true
	}
	return strings.HasPrefix(code, "E5") || isDistrusted(code)
}

func isDistrusted(code string) bool {
	return strings.Contains(code, "CERT") || strings.HasPrefix(code, "UNABLE_TO_") || strings.HasPrefix(code, "ERR_TLS")
}

func (r Request) unreachableNPM(code, errs string) (build.Reason, string) {
	where := to(match(npmURL, errs))
	if isDistrusted(code) {
		return build.PackagesUnreachable, fmt.Sprintf("the package registry's certificate is not trusted%s (%s); %s", where, code, r.Site.trust)
	}
	return build.PackagesUnreachable, fmt.Sprintf("the package registry does not answer%s (%s); %s", where, code, r.Site.later)
}

// failedScript is for what a package's own script, or Git, did.
func (r Request) failedScript(code, errs, output string) (build.Reason, string) {
	if code == "ENOENT" && strings.Contains(errs, "spawn git") {
		return build.InstallFailed, "a dependency comes from a Git repository, and " + r.Site.name + " has no git; depend on an archive's URL instead"
	}
	if reason, message, ok := r.gitFailure(errs); ok {
		return reason, message
	}
	name := match(npmPath, errs)
	switch {
	case compilerMissing.MatchString(output):
		return build.CompilerMissing, fmt.Sprintf("%s has to be compiled, and %s has no compiler; %s", orPackage(name), r.Site.name, r.Site.compiler)
	case name != "":
		return build.InstallFailed, fmt.Sprintf("the install script of %s failed: %s", name, match(npmCommand, errs))
	case match(npmCommand, errs) != "":
		return build.InstallFailed, "a script of package.json failed: " + match(npmCommand, errs)
	case code == "":
		return build.InstallFailed, "npm failed: " + lastLine(output)
	}
	return build.InstallFailed, fmt.Sprintf("npm failed with %s: %s", code, afterCode(errs))
}

// afterCode is the first line of npm's own explanation, without the tag that it begins with.
func afterCode(errs string) string {
	_, rest, _ := strings.Cut(errs, "\n")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimPrefix(line, "notsup ")
}

func to(url string) string {
	if url == "" {
		return ""
	}
	return " to " + url
}
