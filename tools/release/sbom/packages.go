package sbom

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// ofRuntime are the files by which runtimes say what their servers are made of.
const (
	npmLock = "package-lock.json"
	pipLock = "requirements.txt"
	modules = "node_modules/"
)

// Runtime lists the packages in the server of a runtime, by the lock file in its directory. A runtime without one has none.
func Runtime(dir string) ([]Package, error) {
	if content, err := os.ReadFile(filepath.Join(dir, npmLock)); err == nil {
		return npm(content)
	}
	if content, err := os.ReadFile(filepath.Join(dir, pipLock)); err == nil {
		return pip(content), nil
	}
	return nil, nil
}

// npm leaves out what only builds or tests the server.
func npm(lock []byte) ([]Package, error) {
	var file struct {
		Packages map[string]struct {
			Version string `json:"version"`
			Dev     bool   `json:"dev"`
		} `json:"packages"`
	}
	if err := json.Unmarshal(lock, &file); err != nil {
		return nil, fmt.Errorf("read %s: %w", npmLock, err)
	}
	found := map[Package]bool{}
	for path, each := range file.Packages {
		below := strings.LastIndex(path, modules)
		if below < 0 || each.Dev { // what is not below is a folder of the runtime itself
			continue
		}
		name := path[below+len(modules):]
		found[Package{Name: name, Version: each.Version, Locator: "pkg:npm/" + strings.Replace(name, "@", "%40", 1) + "@" + each.Version}] = true
	}
	return sorted(found), nil
}

var pinned = regexp.MustCompile(`(?m)^([A-Za-z0-9._-]+)==([^ ;\\]+)`)

func pip(requirements []byte) []Package {
	found := map[Package]bool{}
	for _, match := range pinned.FindAllSubmatch(requirements, -1) {
		name, version := string(match[1]), string(match[2])
		found[Package{Name: name, Version: version, Locator: "pkg:pypi/" + name + "@" + version}] = true
	}
	return sorted(found)
}
