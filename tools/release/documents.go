package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

// subject is one part of a release.
type subject struct {
	Name   string
	SHA256 string
}

// documents writes the documents about all other parts, which are therefore the last: the digests of images, the
// provenance, and the checksums, which are signed.
func (m *maker) documents() error {
	if err := m.document(imageListFile, m.imageList()); err != nil {
		return err
	}
	subjects, err := m.subjects()
	if err != nil {
		return err
	}
	bases := map[string]string{}
	for _, base := range m.bases {
		bases[base.Name] = base.Digest.Hex
	}
	if err := writeProvenance(filepath.Join(m.out, provenanceFile), m.release, bases, subjects); err != nil {
		return err
	}
	files, err := m.files()
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, each := range files {
		fmt.Fprintf(&sums, "%s  %s\n", each.SHA256, each.Name)
	}
	return m.document(checksumsFile, sums.String())
}

func (m *maker) document(name, text string) error {
	if err := os.WriteFile(filepath.Join(m.out, name), []byte(text), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// imageList returns the list of images with their digests, and the chart.
func (m *maker) imageList() string {
	var lines strings.Builder
	for _, each := range m.artifacts {
		digest, err := each.Content.Digest()
		if err != nil {
			continue
		}
		fmt.Fprintf(&lines, "%s:%s@%s\n", each.Repository, each.Tag, digest)
	}
	return lines.String()
}

// subjects returns the files so far, and the images.
func (m *maker) subjects() ([]subject, error) {
	files, err := m.files()
	for _, name := range slices.Sorted(maps.Keys(m.digests)) {
		files = append(files, subject{Name: m.release.Registry + "/" + name, SHA256: strings.TrimPrefix(m.digests[name], "sha256:")})
	}
	return files, err
}

func (m *maker) files() ([]subject, error) {
	entries, err := os.ReadDir(m.out)
	if err != nil {
		return nil, err
	}
	var found []subject
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		sum, err := sumFile(filepath.Join(m.out, entry.Name()))
		if err != nil {
			return nil, err
		}
		found = append(found, subject{Name: entry.Name(), SHA256: sum})
	}
	return found, nil
}

func sumFile(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// buildType identifies the format of the parameters below: make release in a clone of the commit.
const buildType = projectURL + "/blob/main/tools/release"

// writeProvenance writes the provenance of the parts of a release to a file. It contains no times, which would differ
// in each build.
func writeProvenance(file string, release release, bases map[string]string, subjects []subject) error {
	parameters, err := structpb.NewStruct(map[string]any{"version": release.Version, "registry": release.Registry})
	if err != nil {
		return err
	}
	dependencies := []*intoto.ResourceDescriptor{
		{Uri: "git+" + projectURL, Digest: map[string]string{"gitCommit": release.Commit}},
		{Name: "go", Uri: "pkg:golang/toolchain@" + runtime.Version()},
	}
	for _, name := range slices.Sorted(maps.Keys(bases)) {
		dependencies = append(dependencies, &intoto.ResourceDescriptor{Name: name, Digest: map[string]string{"sha256": bases[name]}})
	}
	predicate := &slsa.Provenance{
		BuildDefinition: &slsa.BuildDefinition{BuildType: buildType, ExternalParameters: parameters, ResolvedDependencies: dependencies},
		RunDetails:      &slsa.RunDetails{Builder: &slsa.Builder{Id: builder()}},
	}
	text, err := protojson.Marshal(predicate)
	if err != nil {
		return fmt.Errorf("write the provenance: %w", err)
	}
	statement := map[string]any{"_type": intoto.StatementTypeUri, "predicateType": "https://slsa.dev/provenance/v1", "predicate": json.RawMessage(text)}
	parts := make([]map[string]any, len(subjects))
	for i, each := range subjects {
		parts[i] = map[string]any{"name": each.Name, "digest": map[string]string{"sha256": each.SHA256}}
	}
	statement["subject"] = parts
	return writeStatement(file, statement)
}

// builder returns the workflow that runs the build, or a placeholder.
func builder() string {
	if workflow := os.Getenv("GITHUB_WORKFLOW_REF"); workflow != "" {
		return "https://github.com/" + workflow
	}
	return projectURL + "/tools/release"
}

// writeStatement encodes through a map, since protojson varies its white space on purpose.
func writeStatement(file string, statement map[string]any) error {
	first, err := json.Marshal(statement)
	if err != nil {
		return err
	}
	var plain map[string]any
	if err := json.Unmarshal(first, &plain); err != nil {
		return err
	}
	text, err := json.MarshalIndent(plain, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
