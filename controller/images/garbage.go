package images

import (
	"slices"
	"strings"
	"time"
)

// bases is where builds keep copies of the runtimes' images.
const bases = "rouse-base/"

// image is a manifest in the registry.
type image struct{ repository, digest string }

// inventory is what the registry holds: the tags of each image.
type inventory map[image][]string

// unused are the images that are in nobody's use: used has digests, runtimes the tags of the runtimes' images.
func (i inventory) unused(used digests, runtimes map[string]bool) []image {
	var found []image
	for candidate, tags := range i {
		isBase := strings.HasPrefix(candidate.repository, bases)
		present := isBase && slices.ContainsFunc(tags, func(tag string) bool { return runtimes[tag] })
		if !used[candidate.digest] && !present {
			found = append(found, candidate)
		}
	}
	return found
}

// graveyard remembers since when images are unused.
type graveyard map[image]time.Time

// expired notes what is unused now and tells what has been for the whole grace period. What is in use again,
// or gone, is forgotten.
func (g graveyard) expired(unused []image, now time.Time, grace time.Duration) []image {
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

// tagOf is the tag of an image's reference, empty when it has none.
func tagOf(reference string) string {
	reference, _, _ = strings.Cut(reference, "@")
	name := reference[strings.LastIndex(reference, "/")+1:]
	_, tag, _ := strings.Cut(name, ":")
	return tag
}

// digestOf is the digest of an image's reference, empty when it has none.
func digestOf(reference string) string {
	_, digest, _ := strings.Cut(reference, "@")
	return digest
}
