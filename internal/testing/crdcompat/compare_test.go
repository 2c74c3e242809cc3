package crdcompat

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const (
	chart  = "../../../charts/rouse/files"
	before = "testdata/before"
)

// renew is for the commit of a release, see docs/releases.md.
var renew = flag.Bool("renew", false, "write the CRDs of this checkout as those of the release before")

// deliberate lists intended incompatible changes of this release, by file and finding, with the reason. It is cleared
// with each release.
var deliberate = map[string]string{}

func TestCRDsAcceptEverythingThatThePreviousReleaseAccepted(t *testing.T) {
	t.Parallel()
	if *renew {
		write(t)
	}
	files, err := filepath.Glob(before + "/*/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var found []string
	for _, file := range files {
		name := strings.TrimPrefix(filepath.ToSlash(file), before+"/")
		now := filepath.Join(chart, name)
		if _, err := os.Stat(now); err != nil {
			found = append(found, name+": the CRD is missing")
			continue
		}
		for _, finding := range Compare(read(t, file), read(t, now)) {
			found = append(found, name+": "+finding)
		}
	}
	for finding := range deliberate {
		require.Contains(t, found, finding, "the list of deliberate changes contains a change that was not made")
	}
	found = slices.DeleteFunc(found, func(finding string) bool { return deliberate[finding] != "" })
	require.Empty(t, found, "the release before may not be upgraded to this one, or not rolled back to: docs/compatibility.md")
}

func read(t *testing.T, file string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, yaml.UnmarshalStrict(content, crd))
	return crd
}

func write(t *testing.T) {
	t.Helper()
	require.NoError(t, os.RemoveAll(before))
	files, err := filepath.Glob(chart + "/*crds/*.yaml")
	require.NoError(t, err)
	for _, file := range files {
		content, err := yaml.Marshal(Undescribed(read(t, file)))
		require.NoError(t, err)
		out := filepath.Join(before, filepath.Base(filepath.Dir(file)), filepath.Base(file))
		require.NoError(t, os.MkdirAll(filepath.Dir(out), 0o755))
		require.NoError(t, os.WriteFile(out, content, 0o600))
	}
}

const example = `
metadata: {name: things.example.com}
spec:
  scope: Namespaced
  names: {kind: Thing, shortNames: [th]}
  versions:
  - name: v1
    served: true
    storage: true
    selectableFields: [{jsonPath: .spec.mode}]
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            description: what is wanted
            required: [mode]
            x-kubernetes-validations: [{rule: self.replicas >= 0}]
            properties:
              mode: {type: string, enum: [a, b], default: a}
              replicas: {type: integer, format: int32, minimum: 0, maximum: 10, nullable: true}
              names: {type: array, maxItems: 8, x-kubernetes-list-type: set, items: {type: string, maxLength: 63, pattern: ^a}}
              labels: {type: object, additionalProperties: {type: string}}
              port: {x-kubernetes-int-or-string: true}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
  - {name: v0, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
`

// between is what the example has between required and properties.
const between = "\n            x-kubernetes-validations: [{rule: self.replicas >= 0}]\n            properties:\n"

func TestCompareFindsOnlyRestrictions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		old, new string
		want     []string
	}{
		"nothing":                    {"", "", nil},
		"other words":                {"what is wanted", "what somebody wants", nil},
		"a new field":                {"labels: {", "more: {type: string}\n              labels: {", nil},
		"a wider limit":              {"maximum: 10", "maximum: 11", nil},
		"no limit":                   {", maxLength: 63", "", nil},
		"no pattern":                 {", pattern: ^a", "", nil},
		"another value":              {"[a, b]", "[a, b, c]", nil},
		"no enum":                    {"enum: [a, b], ", "", nil},
		"no rule":                    {"[{rule: self.replicas >= 0}]", "[]", nil},
		"fewer that are required":    {"required: [mode]", "required: []", nil},
		"a new one with a default":   {"required: [mode]" + between, "required: [mode, x]" + between + "              x: {type: string, default: a}\n", nil},
		"one is required":            {"required: [mode]", "required: [mode, replicas]", []string{"v1.spec.replicas is required"}},
		"one is missing":             {"labels: {type: object, additionalProperties: {type: string}}", "", []string{"v1.spec.labels is missing"}},
		"another type":               {"{type: integer, format: int32", "{type: string, format: int32", []string{`v1.spec.replicas is "string int32", and was "integer int32"`}},
		"another format":             {"format: int32", "format: int64", []string{`v1.spec.replicas is "integer int64", and was "integer int32"`}},
		"a narrower maximum":         {"maximum: 10", "maximum: 9", []string{"v1.spec.replicas has maximum 9"}},
		"a narrower minimum":         {"minimum: 0", "minimum: 1", []string{"v1.spec.replicas has minimum 1"}},
		"fewer items":                {"maxItems: 8", "maxItems: 7", []string{"v1.spec.names has maxItems 7"}},
		"a new limit":                {"maxItems: 8", "maxItems: 8, minItems: 1", []string{"v1.spec.names has minItems 1"}},
		"shorter items":              {"maxLength: 63", "maxLength: 62", []string{"v1.spec.names[] has maxLength 62"}},
		"another pattern":            {"pattern: ^a", "pattern: ^b", []string{"v1.spec.names[] has the pattern ^b"}},
		"one value less":             {"[a, b]", "[a]", []string{`v1.spec.mode may not be "b"`}},
		"a new enum":                 {"labels: {type: object, additionalProperties: {type: string", "labels: {type: object, additionalProperties: {type: string, enum: [x]", []string{"v1.spec.labels{} has an enum"}},
		"another default":            {"default: a", "default: b", []string{`v1.spec.mode has another default: "b"`}},
		"a default is missing":       {", default: a", "", []string{"v1.spec.mode has another default: none"}},
		"not null":                   {", nullable: true", "", []string{"v1.spec.replicas may not be null"}},
		"another rule":               {"self.replicas >= 0", "self.replicas >= 1", []string{"v1.spec has the rule self.replicas >= 1"}},
		"another merge of a list":    {"x-kubernetes-list-type: set", "x-kubernetes-list-type: atomic", []string{`v1.spec.names is "array atomic", and was "array set"`}},
		"no string for an integer":   {"{x-kubernetes-int-or-string: true}", "{type: integer}", []string{`v1.spec.port is "integer", and was "or integer"`}},
		"unknown fields are dropped": {", x-kubernetes-preserve-unknown-fields: true", "", []string{`v1.spec.free is "object", and was "object with unknown fields"`}},
		"a version is missing":       {"  - {name: v0", "  - {name: v2", []string{"no version v0"}},
		"a version is not served":    {"v0, served: true", "v0, served: false", []string{"v0 is not served"}},
		"no status":                  {"status: {}, scale", "scale", []string{"v1 has no subresource status"}},
		"another scale":              {".spec.replicas, status", ".spec.size, status", []string{"v1 has no subresource scale, or another one"}},
		"nothing to select by":       {"[{jsonPath: .spec.mode}]", "[]", []string{"v1 cannot be selected by .spec.mode"}},
		"no short name":              {"shortNames: [th]", "shortNames: []", []string{"no short name th"}},
		"another scope":              {"Namespaced", "Cluster", []string{"another name, kind or scope"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, example, tc.old)
			require.Equal(t, tc.want, Compare(parse(t, example), parse(t, strings.Replace(example, tc.old, tc.new, 1))))
		})
	}
}

func TestUndescribedRemovesDescriptions(t *testing.T) {
	t.Parallel()
	require.Empty(t, Undescribed(parse(t, example)).Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Description)
	require.Empty(t, Compare(parse(t, example), Undescribed(parse(t, example))))
}

func parse(t *testing.T, text string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), crd))
	return crd
}
