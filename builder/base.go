package builder

import (
	"context"
	"errors"
	"path"
	"runtime"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/rouse-run/rouse/internal/build"
	"github.com/rouse-run/rouse/internal/registry"
)

// resolveTimeout bounds how long the base's own registry may take to say what a tag means, because a copy may serve as
// well.
const resolveTimeout = 10 * time.Second

// openBase is the base as an image of the target's registry, from which layers can be mounted.
func (t *target) openBase(ctx context.Context, reference string, log logr.Logger) (v1.Image, error) {
	source, err := name.ParseReference(reference)
	if err != nil {
		return nil, fail(build.BaseUnavailable, "the runtime's image %q: %s; correct its name", reference, err)
	}
	if source.Context().RegistryStr() == t.tag.RegistryStr() {
		image, err := t.image(ctx, source)
		return image, unavailable(reference, err)
	}
	copies, err := copiesOf(source, t.tag.Context())
	if err != nil {
		return nil, fail(build.BaseUnavailable, "the runtime's image %q: %s; correct its name", reference, err)
	}
	digest, resolveErr := t.resolve(ctx, source)
	if resolveErr != nil {
		image, err := t.image(ctx, copies.Tag(tagOf(source.Identifier())))
		if err != nil {
			return nil, unavailable(reference, resolveErr)
		}
		log.Info("the registry of the runtime's image does not answer, its copy is used", "image", reference, "reason", resolveErr.Error())
		return image, nil
	}
	exact := copies.Tag(tagOf(digest))
	if image, err := t.image(ctx, exact); err == nil {
		return image, nil
	}
	original, err := t.image(ctx, source.Context().Digest(digest))
	if err != nil {
		return nil, unavailable(reference, err)
	}
	return t.copyBase(ctx, original, exact, copies.Tag(tagOf(source.Identifier())), log)
}

// copyBase uploads the base under its digest, and under its own tag for the days when its registry is away.
func (t *target) copyBase(ctx context.Context, original v1.Image, exact, readable name.Tag, log logr.Logger) (v1.Image, error) {
	start := time.Now()
	err := t.pusher.Push(ctx, exact, original)
	if err == nil && readable != exact {
		err = t.pusher.Push(ctx, readable, original)
	}
	if err != nil && !t.refusesCopies(err) {
		return nil, t.failure(err)
	}
	if err != nil {
		// Registries where repositories have to be made by hand. The layers go to the image's own then.
		log.Info("the registry takes no copy of the runtime's image", "repository", exact.RepositoryStr(), "reason", err.Error())
		return original, nil
	}
	log.Info("copied the runtime's image", "repository", exact.RepositoryStr(), "seconds", seconds(start))
	image, err := t.image(ctx, exact)
	if err != nil {
		return nil, t.failure(err)
	}
	return image, nil
}

func (t *target) refusesCopies(err error) bool {
	explained := registry.Explain(err)
	for _, cause := range []error{context.Canceled, registry.ErrUnavailable, registry.ErrUntrusted, registry.ErrFull} {
		if errors.Is(explained, cause) {
			return false
		}
	}
	return true
}

// resolve is the digest that the reference means now.
func (t *target) resolve(ctx context.Context, source name.Reference) (string, error) {
	if digest, ok := source.(name.Digest); ok {
		return digest.DigestStr(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	descriptor, err := t.puller.Head(ctx, source)
	if err != nil {
		return "", err
	}
	return descriptor.Digest.String(), nil
}

func (t *target) image(ctx context.Context, reference name.Reference) (v1.Image, error) {
	descriptor, err := t.puller.Get(ctx, reference)
	if err != nil {
		return nil, err
	}
	return descriptor.Image()
}

func unavailable(reference string, err error) error {
	if err == nil {
		return nil
	}
	err = registry.Explain(err)
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, registry.ErrUnavailable):
		return fail(build.RegistryUnavailable, "the runtime's image %s cannot be read: %s; it is tried again", reference, err)
	}
	return fail(build.BaseUnavailable, "the runtime's image %s cannot be read: %s; correct its name, or let the builder reach and read it",
		reference, err)
}

// copiesOf is the repository of the base's copies: next to the target's, and named by all of the base's name,
// so that two of the same last name stay apart.
func copiesOf(source name.Reference, beside name.Repository) (name.Repository, error) {
	host := strings.ToLower(strings.ReplaceAll(source.Context().RegistryStr(), ":", "_"))
	full := path.Join(path.Dir(beside.RepositoryStr()), build.BaseRepositories, host, source.Context().RepositoryStr())
	return name.NewRepository(beside.RegistryStr() + "/" + full)
}

// tagOf is the tag of a copy for the platform of this builder, which is that of the base.
func tagOf(identifier string) string { return build.CopyTag(identifier, runtime.GOARCH) }
