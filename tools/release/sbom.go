package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// component is a package in a part of a release.
type component struct {
	Name    string
	Version string
	Locator string // package URL
}

// sbomDocument is the software bill of materials of one part of a release.
type sbomDocument struct {
	Name     string // of the part: a file, or an image with its digest
	Version  string
	Created  time.Time
	Contents []component
}

// list writes the software bill of materials of a part of the release.
func (m *maker) list(file, part string, contents []component, binaries ...string) error {
	modules, err := goModules(binaries...)
	if err != nil {
		return err
	}
	document := sbomDocument{Name: part, Version: m.release.Version, Created: m.release.Time, Contents: append(modules, contents...)}
	m.sboms++
	return document.Write(filepath.Join(m.out, file))
}

// goModules lists the Go modules in binaries, without duplicates, and their Go version.
func goModules(binaries ...string) ([]component, error) {
	found := map[component]bool{}
	for _, binary := range binaries {
		info, err := buildinfo.ReadFile(binary)
		if err != nil {
			return nil, fmt.Errorf("read the build information of %s: %w", binary, err)
		}
		found[goPackage("stdlib", info.GoVersion)] = true
		for _, module := range info.Deps {
			found[moduleOf(module)] = true
		}
	}
	return sorted(found), nil
}

func moduleOf(module *debug.Module) component {
	if module.Replace != nil {
		return moduleOf(module.Replace)
	}
	return goPackage(module.Path, module.Version)
}

func goPackage(name, version string) component {
	return component{Name: name, Version: version, Locator: "pkg:golang/" + name + "@" + version}
}

func sorted(found map[component]bool) []component {
	return slices.SortedFunc(maps.Keys(found), func(one, two component) int {
		return strings.Compare(one.Locator, two.Locator)
	})
}

// Write writes a document to a file. Equal documents result in equal files.
func (d sbomDocument) Write(file string) error {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %v", d.Name, d.Version, d.Contents))
	described := common.ElementID("Package-rouse")
	document := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: d.Name,
		// Unique for its content, as SPDX requires. The URL need not exist.
		DocumentNamespace: "https://github.com/rouse-run/rouse/spdx/" + hex.EncodeToString(sum[:]),
		CreationInfo: &spdx.CreationInfo{
			Created:  d.Created.UTC().Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Organization", Creator: "Rouse"}, {CreatorType: "Tool", Creator: "rouse-release"}},
		},
		Packages: []*spdx.Package{spdxPackage(described, component{Name: d.Name, Version: d.Version})},
		Relationships: []*spdx.Relationship{{
			RefA: common.DocElementID{ElementRefID: "DOCUMENT"}, RefB: common.DocElementID{ElementRefID: described}, Relationship: "DESCRIBES",
		}},
	}
	for i, each := range d.Contents {
		id := common.ElementID(fmt.Sprintf("Package-%d", i))
		document.Packages = append(document.Packages, spdxPackage(id, each))
		document.Relationships = append(document.Relationships, &spdx.Relationship{
			RefA: common.DocElementID{ElementRefID: described}, RefB: common.DocElementID{ElementRefID: id}, Relationship: "CONTAINS",
		})
	}
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("write a list of contents: %w", err)
	}
	if err := spdxjson.Write(document, out, spdxjson.Indent("  ")); err != nil {
		_ = out.Close()
		return fmt.Errorf("write %s: %w", file, err)
	}
	return out.Close()
}

func spdxPackage(id common.ElementID, each component) *spdx.Package {
	described := &spdx.Package{
		PackageName: each.Name, PackageSPDXIdentifier: id, PackageVersion: each.Version,
		PackageDownloadLocation: "NOASSERTION", PackageLicenseConcluded: "NOASSERTION", PackageLicenseDeclared: "NOASSERTION",
		PackageCopyrightText: "NOASSERTION",
	}
	if each.Locator != "" {
		described.PackageExternalReferences = []*spdx.PackageExternalReference{{
			Category: "PACKAGE-MANAGER", RefType: "purl", Locator: each.Locator,
		}}
	}
	return described
}

// The lock files of runtimes' servers.
const (
	npmLock     = "package-lock.json"
	pipLock     = "requirements.txt"
	nodeModules = "node_modules/"
)

// runtimePackages lists the packages in the server of a runtime, from the lock file in its directory. A runtime without
// one has no packages.
func runtimePackages(dir string) ([]component, error) {
	if content, err := os.ReadFile(filepath.Join(dir, npmLock)); err == nil {
		return npm(content)
	}
	if content, err := os.ReadFile(filepath.Join(dir, pipLock)); err == nil {
		return pip(content), nil
	}
	return nil, nil
}

// npm omits packages that are only needed to build or test the server.
func npm(lock []byte) ([]component, error) {
	var file struct {
		Packages map[string]struct {
			Version string `json:"version"`
			Dev     bool   `json:"dev"`
		} `json:"packages"`
	}
	if err := json.Unmarshal(lock, &file); err != nil {
		return nil, fmt.Errorf("read %s: %w", npmLock, err)
	}
	found := map[component]bool{}
	for path, each := range file.Packages {
		below := strings.LastIndex(path, nodeModules)
		if below < 0 || each.Dev { // other entries are folders of the runtime itself
			continue
		}
		name := path[below+len(nodeModules):]
		found[component{Name: name, Version: each.Version, Locator: "pkg:npm/" + strings.Replace(name, "@", "%40", 1) + "@" + each.Version}] = true
	}
	return sorted(found), nil
}

var pinned = regexp.MustCompile(`(?m)^([A-Za-z0-9._-]+)==([^ ;\\]+)`)

func pip(requirements []byte) []component {
	found := map[component]bool{}
	for _, match := range pinned.FindAllSubmatch(requirements, -1) {
		name, version := string(match[1]), string(match[2])
		found[component{Name: name, Version: version, Locator: "pkg:pypi/" + name + "@" + version}] = true
	}
	return sorted(found)
}
