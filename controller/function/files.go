package function

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/sourcefiles"
)

// filesOf returns the name of the ConfigMap with the files of the source; empty when the spec or a repository has all.
func filesOf(fn *v1alpha2.Function) string { return fn.Spec.Annotations[v1alpha2.AnnotationFiles] }

// awaitsFiles reports whether the files of the source are unknown.
func awaitsFiles(s *scope) bool {
	return s.plan != nil && filesOf(s.fn) != "" && s.plan.FilesDigest == ""
}

// awaitsSource reports whether it is unknown what the source is.
func awaitsSource(s *scope) bool { return awaitsCommit(s) || awaitsFiles(s) }

// fileDigests remembers what was read from ConfigMaps, so that each is read once for each of its versions.
type fileDigests struct {
	mu    sync.Mutex
	known map[types.NamespacedName]fileDigest
}

// fileDigest is what is known of the files of a Function.
type fileDigest struct {
	// of is the version of the ConfigMap and of the Function.
	of string
	// digest identifies the files; empty if they cannot be used, which problem explains.
	digest, problem string
}

func newFileDigests() *fileDigests { return &fileDigests{known: map[types.NamespacedName]fileDigest{}} }

func (d *fileDigests) forget(fn types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, fn)
}

func (d *fileDigests) load(fn types.NamespacedName, of string) (fileDigest, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found, ok := d.known[fn]
	return found, ok && found.of == of
}

func (d *fileDigests) store(fn types.NamespacedName, found fileDigest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known[fn] = found
}

// findFiles completes a plan whose source is in a ConfigMap. While there are no files that can be used, what runs stays.
func (r *Reconciler) findFiles(ctx context.Context, s *scope) error {
	key, name := client.ObjectKeyFromObject(s.fn), filesOf(s.fn)
	if s.plan == nil || name == "" {
		r.files.forget(key)
		return nil
	}
	// The metadata is cached, and the content is not.
	seen := metadataOf(kindConfigMap)
	err := r.client.Get(ctx, client.ObjectKey{Namespace: s.fn.Namespace, Name: name}, seen)
	if apierrors.IsNotFound(err) {
		s.source = sourceProblem(missingFiles(s.fn))
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for ConfigMap %q: %w", name, err)
	}
	known, ok := r.files.load(key, versionOfFiles(s.fn, seen))
	if !ok {
		config, err := r.readFiles(ctx, s.fn)
		if err != nil {
			return err
		}
		if config == nil {
			s.source = sourceProblem(missingFiles(s.fn))
			return nil
		}
		known = r.digestOf(s, config)
		r.files.store(key, known)
	}
	if known.problem != "" {
		s.source = sourceProblem(known.problem) // which another ConfigMap puts right
		return nil
	}
	s.plan.FilesDigest = known.digest
	return nil
}

// versionOfFiles changes with everything that fileDigest depends on.
func versionOfFiles(fn *v1alpha2.Function, config client.Object) string {
	return fmt.Sprintf("%s %s %d", config.GetUID(), config.GetResourceVersion(), fn.Generation)
}

func missingFiles(fn *v1alpha2.Function) string {
	return fmt.Sprintf("ConfigMap %q not found: spec.annotations names it in %s. Apply it, such as by rouse files DIR | kubectl apply -f -, "+
		"or correct the annotation", filesOf(fn), v1alpha2.AnnotationFiles)
}

// readFiles reads the ConfigMap with the files; nil if there is none.
func (r *Reconciler) readFiles(ctx context.Context, fn *v1alpha2.Function) (*corev1.ConfigMap, error) {
	key := client.ObjectKey{Namespace: fn.Namespace, Name: filesOf(fn)}
	config := &corev1.ConfigMap{}
	err := r.live.Get(ctx, key, config)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %q: %w", key, err)
	}
	return config, nil
}

// digestOf decodes the files of a ConfigMap and checks that a build can have them.
func (r *Reconciler) digestOf(s *scope, config *corev1.ConfigMap) fileDigest {
	found := fileDigest{of: versionOfFiles(s.fn, config)}
	files, err := sourcefiles.FromConfigMap(config.Data, config.BinaryData)
	if err == nil {
		plan := *s.plan
		plan.Files = files
		err = checkInput(&plan, r.ca)
	}
	if err != nil {
		found.problem = fmt.Sprintf("ConfigMap %q: %v", config.Name, err)
		return found
	}
	found.digest = files.Digest()
	return found
}

// withFiles returns the plan with the files that its digest identifies.
func (r *Reconciler) withFiles(ctx context.Context, s *scope) (*buildplan.Plan, error) {
	if s.plan.FilesDigest == "" {
		return s.plan, nil
	}
	config, err := r.readFiles(ctx, s.fn)
	if err != nil {
		return nil, err
	}
	if config == nil {
		return nil, fmt.Errorf("ConfigMap %q was deleted while its build began", filesOf(s.fn))
	}
	files, err := sourcefiles.FromConfigMap(config.Data, config.BinaryData)
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %q: %w", config.Name, err)
	}
	if files.Digest() != s.plan.FilesDigest {
		return nil, fmt.Errorf("ConfigMap %q changed while its build began", config.Name)
	}
	plan := *s.plan
	plan.Files = files
	return &plan, nil
}
