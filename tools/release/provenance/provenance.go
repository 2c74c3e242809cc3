package provenance

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"

	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/rouse-run/rouse/tools/release/plan"
)

// Subject is one part of a release.
type Subject struct {
	Name   string
	SHA256 string
}

// buildType says how the parameters below are to be read: make release with them in a clone of the commit.
const buildType = plan.Repository + "/blob/main/tools/release"

// Write writes the statement about the parts of a release to a file. It says no times, which would differ each time.
func Write(file string, release plan.Release, bases map[string]string, subjects []Subject) error {
	parameters, err := structpb.NewStruct(map[string]any{"version": release.Version, "registry": release.Registry})
	if err != nil {
		return err
	}
	dependencies := []*intoto.ResourceDescriptor{
		{Uri: "git+" + plan.Repository, Digest: map[string]string{"gitCommit": release.Commit}},
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
	return write(file, statement)
}

// builder is the workflow, where one runs it, or nobody that could be named.
func builder() string {
	if workflow := os.Getenv("GITHUB_WORKFLOW_REF"); workflow != "" {
		return "https://github.com/" + workflow
	}
	return plan.Repository + "/tools/release"
}

// write goes through a map, since protojson's spaces differ on purpose.
func write(file string, statement map[string]any) error {
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
