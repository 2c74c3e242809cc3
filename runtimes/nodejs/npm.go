package nodejs

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rouse-run/rouse/runtimes/language"
)

// packageJSON contains the fields of a package.json that affect its installation.
type packageJSON struct {
	Dependencies         map[string]string `json:"dependencies"`
	OptionalDependencies map[string]string `json:"optionalDependencies"`
	PeerDependencies     map[string]string `json:"peerDependencies"`
	// Type and Imports affect how Node.js loads the source.
	Type    string         `json:"type"`
	Imports map[string]any `json:"imports"`
}

// matters is true for a malformed package.json, which npm reports.
func matters(manifest string) bool {
	var found packageJSON
	err := json.Unmarshal([]byte(manifest), &found)
	return err != nil || found.Type == "module" || len(found.Imports) > 0 ||
		len(found.Dependencies)+len(found.OptionalDependencies)+len(found.PeerDependencies) > 0
}

// needed is also true for scripts and workspaces, which npm runs and links.
func needed(manifest []byte) bool {
	var parsed map[string]json.RawMessage
	if json.Unmarshal(manifest, &parsed) != nil {
		return true
	}
	for _, key := range []string{
		"dependencies", "optionalDependencies", "peerDependencies", "bundleDependencies", "bundledDependencies", "workspaces", "scripts",
	} {
		if value := strings.Join(strings.Fields(string(parsed[key])), ""); value != "" && value != "{}" && value != "[]" && value != "null" {
			return true
		}
	}
	return false
}

// validate returns the position of an error in a package.json.
func validate(text string) string {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		return ""
	}
	if !strings.HasPrefix(trimmed, "{") || !strings.HasSuffix(trimmed, "}") {
		return "deps should start with '{' and end with '}'"
	}
	const form = `It has to be a package.json, such as {"dependencies": {"lodash": "^4.17.21"}}`
	err := json.Unmarshal([]byte(text), &packageJSON{})
	if err == nil {
		return ""
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("%s: %s cannot be a JSON %s. %s", position(text, wrong.Offset), wrong.Field, wrong.Value, form)
	}
	if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("%s: %s. %s", position(text, wrong.Offset), wrong.Error(), form)
	}
	return fmt.Sprintf("%v. %s", err, form)
}

// position returns the line and column of the byte before offset, as in editors.
func position(text string, offset int64) string {
	before := text[:min(max(int(offset)-1, 0), len(text))]
	line := strings.Count(before, "\n") + 1
	column := len([]rune(before[strings.LastIndex(before, "\n")+1:])) + 1
	return fmt.Sprintf("line %d, column %d", line, column)
}

// install runs the scripts of packages, because native ones need them.
func install(i language.Installation) language.Command {
	line := []string{i.Program, "install", "--no-package-lock"}
	if slices.ContainsFunc([]string{"npm-shrinkwrap.json", "package-lock.json"}, i.Has) {
		line = []string{i.Program, "ci"}
	}
	line = append(line, "--omit=dev", "--no-audit", "--no-fund", "--no-progress")
	var env []string
	if i.Settings != "" {
		env = append(env, "NPM_CONFIG_USERCONFIG="+i.Settings)
	}
	env = append(env,
		"npm_config_update_notifier=false", "npm_config_dangerously_allow_all_scripts=true", "npm_config_fetch_retries=2",
		"npm_config_fetch_retry_mintimeout=1000", "npm_config_fetch_retry_maxtimeout=5000",
	)
	switch {
	case i.Discard:
		env = append(env, "npm_config_cache="+filepath.Join(i.Work, "npm-cache"))
	case i.Cache != "":
		env = append(env, "npm_config_cache="+filepath.Join(i.Cache, "npm"))
	}
	return language.Command{Line: line, Env: env}
}

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

// npmErrors returns the error lines of npm's output, without npm's prefix.
func npmErrors(output string) string {
	var errs strings.Builder
	for line := range strings.Lines(output) {
		if at := npmPrefix.FindStringIndex(line); at != nil {
			errs.WriteString(line[at[1]:])
		}
	}
	return errs.String()
}

// classify classifies a failure of npm by its output.
func classify(f language.Failed) (language.Reason, string) {
	errs := npmErrors(f.Output)
	code := language.Match(npmCode, errs)
	switch code {
	case "EJSONPARSE":
		return language.InvalidDependencies, fmt.Sprintf("%s is not JSON: %s", f.Manifest, language.Match(npmJSON, errs))
	case "EINVALIDPACKAGENAME", "EINVALIDTAGNAME", "EUNSUPPORTEDPROTOCOL", "EOVERRIDE", "EINVALIDTYPE":
		return language.InvalidDependencies, fmt.Sprintf("%s cannot be used: %s", f.Manifest, afterCode(errs))
	case "ERESOLVE":
		return language.InvalidDependencies, fmt.Sprintf("the dependencies in %s contradict each other: %s; change a version so that they agree",
			f.Manifest, language.Match(npmPeer, errs))
	case "EUSAGE":
		return language.InvalidDependencies, fmt.Sprintf("%s and its lock file do not agree: %s; run npm install and commit the lock file",
			f.Manifest, language.Match(npmUnmet, errs))
	case "E404":
		return language.PackageNotFound, fmt.Sprintf("there is no package %s; correct %s or, if it is private, %s",
			language.Match(npmMissing, errs), f.Manifest, f.Site.Credentials)
	case "ETARGET", "ENOVERSIONS":
		return language.PackageNotFound, fmt.Sprintf("no version of a package fits %s; correct %s", language.Match(npmVersion, errs), f.Manifest)
	case "E401", "E403", "ENEEDAUTH", "EOTP":
		return language.PackageForbidden, fmt.Sprintf("the package registry refuses access%s; %s", to(language.Match(npmURL, errs)), f.Site.Credentials)
	case "EBADPLATFORM", "EBADENGINE":
		return language.InstallFailed, fmt.Sprintf("%s; choose another package or version in %s", afterCode(errs), f.Manifest)
	case "EINTEGRITY":
		return language.InstallFailed, "a package is not what the lock file says; create the lock file again, and find out who changed the package"
	}
	if isUnreachable(code) {
		return unreachable(f, code, errs)
	}
	return failedScript(f, code, errs)
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

func unreachable(f language.Failed, code, errs string) (language.Reason, string) {
	where := to(language.Match(npmURL, errs))
	if isDistrusted(code) {
		return language.PackagesUnreachable, fmt.Sprintf("the package registry's certificate is not trusted%s (%s); %s", where, code, f.Site.Trust)
	}
	return language.PackagesUnreachable, fmt.Sprintf("the package registry does not answer%s (%s); %s", where, code, f.Site.Later)
}

// failedScript classifies failures of a package's own script, or of Git.
func failedScript(f language.Failed, code, errs string) (language.Reason, string) {
	if code == "ENOENT" && strings.Contains(errs, "spawn git") {
		return f.GitMissing()
	}
	if reason, message, ok := f.GitFailure(errs); ok {
		return reason, message
	}
	name := language.Match(npmPath, errs)
	if reason, message, ok := f.CompilerMissing(name); ok {
		return reason, message
	}
	switch {
	case name != "":
		return language.InstallFailed, fmt.Sprintf("the install script of %s failed: %s", name, language.Match(npmCommand, errs))
	case language.Match(npmCommand, errs) != "":
		return language.InstallFailed, "a script of package.json failed: " + language.Match(npmCommand, errs)
	case code == "":
		return language.InstallFailed, "npm failed: " + language.LastLine(f.Output)
	}
	return language.InstallFailed, fmt.Sprintf("npm failed with %s: %s", code, afterCode(errs))
}

// afterCode returns the first line of npm's explanation, without its tag.
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
