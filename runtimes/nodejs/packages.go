package nodejs

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rouse-run/rouse/runtimes/language"
)

// packageJSON has the fields of a package.json that decide how it is treated.
type packageJSON struct {
	Dependencies         map[string]string `json:"dependencies"`
	OptionalDependencies map[string]string `json:"optionalDependencies"`
	PeerDependencies     map[string]string `json:"peerDependencies"`
	// Type and Imports change how Node.js reads the source.
	Type    string         `json:"type"`
	Imports map[string]any `json:"imports"`
}

// matters: what cannot be read is npm's to report.
func matters(manifest string) bool {
	var found packageJSON
	err := json.Unmarshal([]byte(manifest), &found)
	return err != nil || found.Type == "module" || len(found.Imports) > 0 ||
		len(found.Dependencies)+len(found.OptionalDependencies)+len(found.PeerDependencies) > 0
}

// needed: npm also runs scripts and links workspaces.
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

// validate says where a package.json is none.
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

// position names the place of the byte before offset as editors do.
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
