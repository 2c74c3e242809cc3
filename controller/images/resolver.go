package images

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/dialguard"
)

// Resolver finds the registry of a namespace. It is safe for concurrent use.
type Resolver struct {
	metadata client.Reader
	live     client.Reader
	options  RegistryOptions
	ca       []byte

	mu   sync.Mutex
	read map[types.NamespacedName]reading
}

// reading is the result of parsing one version of a Secret.
type reading struct {
	uid      types.UID
	version  string
	registry *Location
	err      error
}

// NewResolver reads the metadata of Secrets from a cache, and what is in them from live. Registries may have
// certificates by the authorities in ca.
func NewResolver(metadata, live client.Reader, options RegistryOptions, ca []byte) *Resolver {
	return &Resolver{metadata: metadata, live: live, options: options, ca: ca, read: map[types.NamespacedName]reading{}}
}

// For is the registry of a namespace's Functions, nil when there is none. The error may be an *InvalidError.
func (r *Resolver) For(ctx context.Context, namespace string) (*Location, error) {
	for _, in := range []string{namespace, r.options.ReleaseNamespace} {
		found, err := r.labelled(ctx, types.NamespacedName{Namespace: in, Name: v1alpha2.RegistrySecret})
		if found != nil || err != nil {
			return found, err
		}
	}
	return r.Default(ctx)
}

// Default is the registry that came with the installation, nil when there is none.
func (r *Resolver) Default(ctx context.Context) (*Location, error) {
	if r.options.Secret == "" {
		return nil, nil //nolint:nilnil // an installation may have no registry
	}
	key := types.NamespacedName{Namespace: r.options.ReleaseNamespace, Name: r.options.Secret}
	found, err := r.getMetadata(ctx, key)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, &InvalidError{Secret: key, Problem: "it does not exist. Create it, or install without a registry"}
	}
	return r.open(ctx, key, found)
}

// Concerns reports for which Functions a Secret may choose the registry: for all, or for those of its namespace.
func (r *Resolver) Concerns(secret types.NamespacedName) (all, namespace bool) {
	known := secret.Name == v1alpha2.RegistrySecret
	all = secret.Namespace == r.options.ReleaseNamespace && (known || secret.Name == r.options.Secret)
	return all, known
}

// labelled is the registry of a Secret, unless the Secret is not meant as one.
func (r *Resolver) labelled(ctx context.Context, key types.NamespacedName) (*Location, error) {
	found, err := r.getMetadata(ctx, key)
	if err != nil || found == nil || found.Labels[v1alpha2.LabelRemoteRegistry] != v1alpha2.RemoteRegistryConfig {
		return nil, err
	}
	return r.open(ctx, key, found)
}

func (r *Resolver) getMetadata(ctx context.Context, key types.NamespacedName) (*metav1.PartialObjectMetadata, error) {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := r.metadata.Get(ctx, key, found)
	switch {
	case apierrors.IsNotFound(err):
		r.forget(key)
		return nil, nil //nolint:nilnil // a Secret need not exist
	case err != nil:
		return nil, fmt.Errorf("look for Secret %s: %w", key, err)
	}
	return found, nil
}

// open reads a Secret unless this state of it has been read before.
func (r *Resolver) open(ctx context.Context, key types.NamespacedName, state *metav1.PartialObjectMetadata) (*Location, error) {
	r.mu.Lock()
	known, ok := r.read[key]
	r.mu.Unlock()
	if ok && known.uid == state.UID && known.version == state.ResourceVersion {
		return known.registry, known.err
	}
	secret := &corev1.Secret{}
	if err := r.live.Get(ctx, key, secret); err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", key, err)
	}
	found, err := parse(secret, r.ca, r.guardFor(key))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read[key] = reading{uid: secret.UID, version: secret.ResourceVersion, registry: found, err: err}
	return found, err
}

// guardFor bounds where the registry of a Secret may be. Those of the installation are trusted by their operator.
func (r *Resolver) guardFor(secret types.NamespacedName) *dialguard.Guard {
	if secret.Namespace == r.options.ReleaseNamespace {
		return nil
	}
	return &r.options.Guard
}

func (r *Resolver) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.read, key)
}
