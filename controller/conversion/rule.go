package conversion

import (
	"fmt"
	"slices"
	"strings"
)

// Definition is what matters of a CustomResourceDefinition.
type Definition struct {
	// Name such as functions.serverless.kyma-project.io.
	Name string
	// Versions are those that it has, Storage the one in which objects are stored.
	Versions []string
	Storage  string
}

// Leaving are the versions in which objects may be stored, and which the definition does not have.
func (d Definition) Leaving(stored []string) []string {
	var leaving []string
	for _, version := range stored {
		if !slices.Contains(d.Versions, version) {
			leaving = append(leaving, version)
		}
	}
	return leaving
}

// Check fails when objects may be stored in a version that the definition does not have. stored is status.storedVersions of the one
// in the cluster: every version that ever was the stored one, until somebody takes it away there.
func (d Definition) Check(stored []string) error {
	leaving := d.Leaving(stored)
	if len(leaving) == 0 {
		return nil
	}
	resource, _, _ := strings.Cut(d.Name, ".")
	return fmt.Errorf("CustomResourceDefinition %s: its objects may be stored as %s, which this release does not have. With the release "+
		"that is installed, write all of them once more, as in kubectl get %s -A -o json | kubectl replace -f -, then "+
		"kubectl patch crd %s --subresource=status --type=merge -p '{\"status\":{\"storedVersions\":[%q]}}', and upgrade again. "+
		"See docs/convert.md", d.Name, strings.Join(leaving, ", "), d.qualified(resource), d.Name, d.Storage)
}

// qualified names the resource with version and group, so that kubectl asks for the version that is stored now.
func (d Definition) qualified(resource string) string {
	return strings.Replace(d.Name, resource+".", resource+"."+d.Storage+".", 1)
}
