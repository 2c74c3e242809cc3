package images

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/registry"
)

// image is a manifest in the registry.
type image struct{ repository, digest string }

// inventory holds the tags of each image in the registry.
type inventory map[image][]string

// unused returns the images that are not needed.
func (i inventory) unused(needs needs) []image {
	var found []image
	for candidate, tags := range i {
		if !needs.include(candidate, tags) {
			found = append(found, candidate)
		}
	}
	return found
}

// only returns the part of the inventory with these images.
func (i inventory) only(images []image) inventory {
	found := inventory{}
	for _, candidate := range images {
		if tags, ok := i[candidate]; ok {
			found[candidate] = tags
		}
	}
	return found
}

// needs describes the images that must stay in the registry.
type needs struct {
	// digests are those that Functions and workloads refer to.
	digests map[string]bool
	// bases are the tags and digests of images on which Functions are built.
	bases map[string]bool
	// building are the Functions that may just have got an image that no status names yet.
	building map[types.NamespacedName]bool
}

// include reports whether an image has to stay. In the repositories of Functions these are the images that a digest
// refers to, whatever their tags: others come from old builds, or were pushed by tenants. Repositories outside of them
// also contain users' images.
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

// mostUnused bounds the recorded images.
const mostUnused = 100_000

// unusedSince records when each image was first found unused by this process. A namespace has at most as many records
// as it leaves free: further images are recorded after those are deleted.
type unusedSince struct {
	since  map[image]sighting
	shares *fair.Pool
	look   int // number of the current pass over all images
}

type sighting struct {
	since time.Time
	look  int // the last pass that found it
}

func newUnusedSince() *unusedSince {
	return &unusedSince{since: map[image]sighting{}, shares: fair.NewPool(fair.Limits{Total: mostUnused})}
}

// begin starts a pass over all images.
func (g *unusedSince) begin() { g.look++ }

// end drops the images that the pass has not found.
func (g *unusedSince) end() {
	for known, seen := range g.since {
		if seen.look != g.look {
			g.forget(known)
		}
	}
}

func (g *unusedSince) forget(known image) {
	if _, ok := g.since[known]; ok {
		delete(g.since, known)
		g.shares.Release(namespaceOf(known.repository), 1)
	}
}

// expired records which images are unused now and returns those that have been for the grace period. Images that are
// used again are dropped.
func (g *unusedSince) expired(held inventory, used needs, now time.Time, grace time.Duration) []image {
	var found []image
	for candidate, tags := range held {
		if used.include(candidate, tags) {
			g.forget(candidate)
			continue
		}
		seen, known := g.since[candidate]
		if !known {
			if !g.shares.TryAcquire(namespaceOf(candidate.repository), 1) {
				continue
			}
			seen.since = now
		}
		seen.look = g.look
		g.since[candidate] = seen
		if now.Sub(seen.since) >= grace {
			found = append(found, candidate)
		}
	}
	return found
}

// joined joins the errors of namespaces.
func joined(failed map[string]error) error {
	var all []error
	for _, namespace := range slices.Sorted(maps.Keys(failed)) {
		all = append(all, failed[namespace])
	}
	return errors.Join(all...)
}

// identifierOf returns the digest of an image's reference or else its tag.
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

// digestOf returns the digest of an image's reference, empty when it has none.
func digestOf(reference string) string {
	_, digest, _ := strings.Cut(reference, "@")
	return digest
}

// page is the number of objects per request.
const page = 200

func (n needs) note(references ...string) {
	for _, reference := range references {
		if digest := digestOf(reference); digest != "" {
			n.digests[digest] = true
		}
	}
}

func (n needs) notePods(template corev1.PodTemplateSpec) {
	for i := range template.Spec.Containers {
		n.note(template.Spec.Containers[i].Image)
	}
	for i := range template.Spec.InitContainers {
		n.note(template.Spec.InitContainers[i].Image)
	}
}

// noteFunction records the image of a Function's status, and all of its images while a build has ended and is not in
// the status yet.
func (n needs) noteFunction(fn *v1alpha2.Function) {
	if fn.Status.Build != nil {
		n.note(fn.Status.Build.Image)
	}
	if meta.IsStatusConditionPresentAndEqual(fn.Status.Conditions, v1alpha2.ConditionBuildReady, metav1.ConditionUnknown) {
		n.building[client.ObjectKeyFromObject(fn)] = true
	}
}

// usage collects the images that runtimes, Functions, Deployments and ReplicaSets refer to. All are read from the API
// server, because caches omit pod specs and may lag behind.
func usage(ctx context.Context, live client.Reader, runtimes []string, in ...client.ListOption) (needs, error) {
	found := needs{digests: map[string]bool{}, bases: map[string]bool{}, building: map[types.NamespacedName]bool{}}
	for _, image := range runtimes {
		found.bases[identifierOf(image)] = true
	}
	functions, deployments, sets := &v1alpha2.FunctionList{}, &appsv1.DeploymentList{}, &appsv1.ReplicaSetList{}
	ours := client.MatchingLabels{v1alpha2.LabelManagedBy: v1alpha2.ManagedBy}
	err := errors.Join(
		eachPage(ctx, live, functions, func() {
			for i := range functions.Items {
				found.noteFunction(&functions.Items[i])
			}
		}, in...),
		eachPage(ctx, live, deployments, func() {
			for i := range deployments.Items {
				found.notePods(deployments.Items[i].Spec.Template)
			}
		}, append(slices.Clone(in), ours)...),
		eachPage(ctx, live, sets, func() {
			for i := range sets.Items {
				found.notePods(sets.Items[i].Spec.Template)
			}
		}, append(slices.Clone(in), ours)...))
	if err != nil {
		return needs{}, fmt.Errorf("list the users of images: %w", err)
	}
	return found, nil
}

// eachPage reads a list in pages and calls note after each.
func eachPage(ctx context.Context, live client.Reader, list client.ObjectList, note func(), options ...client.ListOption) error {
	for {
		if err := live.List(ctx, list, append(options, client.Limit(page), client.Continue(list.GetContinue()))...); err != nil {
			return err
		}
		note()
		if list.GetContinue() == "" {
			return nil
		}
	}
}
