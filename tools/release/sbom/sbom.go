package sbom

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// Package is one thing that is in a part of a release.
type Package struct {
	Name    string
	Version string
	Locator string // package URL
}

// Document is about one part of a release.
type Document struct {
	Name     string // of the part, as a file or an image with its digest
	Version  string
	Created  time.Time
	Contents []Package
}

// Modules lists the Go modules in binaries, each version once, and the Go that compiled them.
func Modules(binaries ...string) ([]Package, error) {
	found := map[Package]bool{}
	for _, binary := range binaries {
		info, err := buildinfo.ReadFile(binary)
		if err != nil {
			return nil, fmt.Errorf("read what %s was built from: %w", binary, err)
		}
		found[golang("stdlib", info.GoVersion)] = true
		for _, module := range info.Deps {
			found[of(module)] = true
		}
	}
	return sorted(found), nil
}

func of(module *debug.Module) Package {
	if module.Replace != nil {
		return of(module.Replace)
	}
	return golang(module.Path, module.Version)
}

func golang(name, version string) Package {
	return Package{Name: name, Version: version, Locator: "pkg:golang/" + name + "@" + version}
}

func sorted(found map[Package]bool) []Package {
	return slices.SortedFunc(maps.Keys(found), func(one, two Package) int {
		return strings.Compare(one.Locator, two.Locator)
	})
}

// Write writes a document to a file. The same document makes the same file.
func (d Document) Write(file string) error {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %v", d.Name, d.Version, d.Contents))
	described := common.ElementID("Package-rouse")
	document := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: d.Name,
		// Unique for its content, as SPDX asks. Nothing has to answer there.
		DocumentNamespace: "https://github.com/rouse-run/rouse/spdx/" + hex.EncodeToString(sum[:]),
		CreationInfo: &spdx.CreationInfo{
			Created:  d.Created.UTC().Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Organization", Creator: "Rouse"}, {CreatorType: "Tool", Creator: "rouse-release"}},
		},
		Packages: []*spdx.Package{describe(described, Package{Name: d.Name, Version: d.Version})},
		Relationships: []*spdx.Relationship{{
			RefA: common.DocElementID{ElementRefID: "DOCUMENT"}, RefB: common.DocElementID{ElementRefID: described}, Relationship: "DESCRIBES",
		}},
	}
	for i, each := range d.Contents {
		id := common.ElementID(fmt.Sprintf("Package-%d", i))
		document.Packages = append(document.Packages, describe(id, each))
		document.Relationships = append(document.Relationships, &spdx.Relationship{
			RefA: common.DocElementID{ElementRefID: described}, RefB: common.DocElementID{ElementRefID: id}, Relationship: "CONTAINS",
		})
	}
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("write a list of contents: %w", err)
	}
	if err := json.Write(document, out, json.Indent("  ")); err != nil {
		_ = out.Close()
		return fmt.Errorf("write %s: %w", file, err)
	}
	return out.Close()
}

func describe(id common.ElementID, each Package) *spdx.Package {
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
