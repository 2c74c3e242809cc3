package images

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/registry"
)

// image is a manifest in the registry.
type image struct{ repository, digest string }

// inventory is what the registry holds: the tags of each image.
type inventory map[image][]string

// unused are the images that are not needed.
func (i inventory) unused(needs needs) []image {
	var found []image
	for candidate, tags := range i {
		if !needs.include(candidate, tags) {
			found = append(found, candidate)
		}
	}
	return found
}

// only are those of the images that are still there.
func (i inventory) only(images []image) inventory {
	found := inventory{}
	for _, candidate := range images {
		if tags, ok := i[candidate]; ok {
			found[candidate] = tags
		}
	}
	return found
}

// needs are what must stay in the registry.
type needs struct {
	// digests are those that Functions and workloads name.
	digests map[string]bool
	// bases are the tags and digests of images on which Functions are built.
	bases map[string]bool
	// building are the Functions that may just have got an image that no status names yet.
	building map[types.NamespacedName]bool
}

// include reports whether an image has to stay. In the repositories of Functions that is what a digest names, whatever
// its tags: the others are of builds, or of tenants who pushed by hand. Outside of them is also what users have pushed.
func (n needs) include(candidate image, tags []string) bool {
	namespace, function, ours := registry.FunctionOf(candidate.repository)
	switch {
	case n.digests[candidate.digest]:
		return true
	case ours:
		return n.building[types.NamespacedName{Namespace: namespace, Name: function}]
	case strings.HasPrefix(candidate.repository, buildplan.BaseRepositories+"/"):
		return slices.ContainsFunc(tags, n.isBase)
	case strings.Contains(candidate.repository, "/"):
		return true
	default: // repositories that Functions had before their names included the tenant
		return slices.ContainsFunc(tags, func(tag string) bool { return !buildplan.IsTag(tag) })
	}
}

func (n needs) isBase(tag string) bool {
	for identifier := range n.bases {
		if buildplan.IsCopyOf(tag, identifier) {
			return true
		}
	}
	return false
}

// unusedSince is when each image was first found unused.
type unusedSince map[image]time.Time

// expired notes what is unused now and returns what has been for the whole grace period. What is in use again,
// or gone, is forgotten.
func (g unusedSince) expired(unused []image, now time.Time, grace time.Duration) []image {
	for known := range g {
		if !slices.Contains(unused, known) {
			delete(g, known)
		}
	}
	var found []image
	for _, candidate := range unused {
		since, known := g[candidate]
		if !known {
			since = now
			g[candidate] = now
		}
		if now.Sub(since) >= grace {
			found = append(found, candidate)
		}
	}
	return found
}

// identifierOf is the digest of an image's reference or else its tag.
func identifierOf(reference string) string {
	name, digest, _ := strings.Cut(reference, "@")
	if digest != "" {
		return digest
	}
	_, tag, _ := strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
	if tag == "" {
		return "latest"
	}
	return tag
}

// digestOf is the digest of an image's reference, empty when it has none.
func digestOf(reference string) string {
	_, digest, _ := strings.Cut(reference, "@")
	return digest
}
