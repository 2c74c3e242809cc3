package skew

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/version"
)

// Resource is an error if a cluster serves a resource, and not in the version that the command line reads. Of a resource that is
// not served at all it says nothing.
func Resource(name, wanted string, served []string) error {
	if len(served) == 0 || slices.Contains(served, wanted) {
		return nil
	}
	newest := slices.MaxFunc(served, version.CompareKubeAwareVersionStrings)
	shown := strings.Join(served, ", ")
	if version.CompareKubeAwareVersionStrings(newest, wanted) > 0 {
		return fmt.Errorf("%w: it reads %s in %s, and the cluster serves %s: use the rouse of the release in the cluster",
			ErrClientTooOld, name, wanted, shown)
	}
	return fmt.Errorf("%w: it serves %s in %s, and this rouse reads %s: upgrade it, or use the rouse of its release",
		ErrServerTooOld, name, shown, wanted)
}
