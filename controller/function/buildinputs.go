package function

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
)

// attempt is the first one for the plan as things are.
func (r *Reconciler) attempt(ctx context.Context, s *scope) (attempt, error) {
	needs, err := json.Marshal(resources.BuildRequirements(s.fn, s.settings.Build.Profile))
	if err != nil {
		return attempt{}, fmt.Errorf("encode the resources of the build: %w", err)
	}
	login, err := s.registry.DockerConfig(s.tenant)
	if err != nil {
		return attempt{}, err
	}
	parts := []string{
		string(needs), s.settings.Build.Builder, strconv.FormatInt(s.settings.Build.DeadlineSeconds, 10),
		strconv.FormatInt(s.plan.MaxSize, 10), string(login), string(r.ca),
	}
	for _, name := range buildSecrets(s.fn) {
		state, err := r.stateOfSecret(ctx, client.ObjectKey{Namespace: s.fn.Namespace, Name: name})
		if err != nil {
			return attempt{}, err
		}
		parts = append(parts, state)
	}
	first := attempt{target: s.plan.Target, inputs: fingerprint(parts...)}
	if s.plan.Git != nil {
		first.commit, first.reference = s.plan.Git.Commit, s.plan.Git.Reference
	}
	return first, nil
}

// gitSecret is the Secret with the credentials of the repository, empty when
// there is none.
func gitSecret(fn *v1alpha2.Function) string {
	if repository := fn.Spec.Source.GitRepository; repository != nil && repository.Auth != nil {
		return repository.Auth.SecretName
	}
	return ""
}

// buildSecrets are the user's Secrets that builds use beside the registry's.
func buildSecrets(fn *v1alpha2.Function) []string {
	names := []string{v1alpha2.PackageRegistrySecret}
	if name := gitSecret(fn); name != "" {
		names = append(names, name)
	}
	return names
}

// stateOfSecret changes whenever a Secret does.
func (r *Reconciler) stateOfSecret(ctx context.Context, key client.ObjectKey) (string, error) {
	secret := metadataOf(kindSecret)
	err := r.client.Get(ctx, key, secret)
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("look for Secret %q: %w", key, err)
	}
	return strconv.Quote(string(secret.UID)) + secret.ResourceVersion, nil
}
