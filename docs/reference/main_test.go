package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

const widget = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - {name: v1alpha1, served: true, storage: false}
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            description: Spec of a widget.
            type: object
            required: [size]
            x-kubernetes-validations: [{rule: self.size > 0, message: size must be positive}]
            properties:
              size: {type: integer, format: int32, default: 3, minimum: 1, maximum: 2000000, description: "Size in\n  a|b."}
              colours: {type: array, maxItems: 2, items: {type: string, enum: [red, blue], maxLength: 9}}
              parts:
                type: array
                items:
                  type: object
                  properties:
                    limit: {x-kubernetes-int-or-string: true, pattern: '^a|b$'}
                    labels: {type: object, additionalProperties: {type: string}}
`

func TestAPageDescribesTheStoredVersionWithDefaultsBoundsAndRules(t *testing.T) {
	t.Parallel()
	name, page, err := render([]byte(widget))
	require.NoError(t, err)
	require.Equal(t, "widget.md", name)
	require.Equal(t, "<!-- Generated from the CRD by `make generate`. -->\n"+`# Widget

`+"`apiVersion: example.org/v1`, `kind: Widget`. `v1alpha1` is served too. [All kinds](README.md)."+`

## `+"`spec`"+`

Spec of a widget.

- Rule: size must be positive.

| field | type | default | description |
|---|---|---|---|
| `+"`colours` | list of string |  | At most 2 entries. One of `\"red\"`, `\"blue\"`. At most 9 characters."+` |
| `+"`parts`"+` | list of object |  |  |
| `+"`size` | integer, required | `3`"+` | Size in a\|b. At least 1. At most 2000000. |

## `+"`spec.parts[]`"+`

| field | type | default | description |
|---|---|---|---|
| `+"`labels`"+` | map to string |  |  |
| `+"`limit` | integer or string |  | Pattern `^a\\|b$`."+` |
`, page)
}

func TestACRDWithoutAStoredVersionIsAnError(t *testing.T) {
	t.Parallel()
	_, _, err := render([]byte("spec: {versions: [{name: v1, served: true, storage: false}]}"))
	require.EqualError(t, err, "no version with a schema is stored")
}

func TestAFolderWithoutCRDsIsAnError(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	require.EqualError(t, run(empty, empty), "the folder "+empty+" contains no CRD")
}

func TestEachCRDOfTheChartHasAPage(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	require.NoError(t, run("../../charts/rouse/files/crds", out))
	pages, err := os.ReadDir(out)
	require.NoError(t, err)
	index, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for _, page := range pages {
		require.Contains(t, string(index), "("+page.Name()+")", "docs/reference/README.md lists each kind")
	}
}
