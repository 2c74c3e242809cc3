package builder

import (
	"context"
	"errors"
	"path"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/registry"
	"github.com/rouse-run/rouse/runtimes/language"
)

// resolveTimeout bounds how long the base's own registry may take to say what the base is.
const resolveTimeout = 10 * time.Second

// openBase is the base as an image of the target's registry, from which layers can be mounted.
//
// Every tenant that builds there may write to that registry, so nothing in it is trusted by its tag: a copy is asked for by
// the digest of the base, from the plan or from the base's own registry, and is refused when it is not what the digest
// says.
func (t *target) openBase(ctx context.Context, plan buildplan.Plan, log logr.Logger) (v1.Image, error) {
	source, err := name.ParseReference(plan.Base)
	if err != nil {
		return nil, fail(language.BaseUnavailable, "the runtime's image %q: %s; correct its name", plan.Base, err)
	}
	if source.Context().RegistryStr() == t.tag.RegistryStr() {
		image, err := t.image(ctx, source)
		return image, unavailable(plan.Base, err)
	}
	copies, err := copiesOf(source, t.tag.Context())
	if err != nil {
		return nil, fail(language.BaseUnavailable, "the runtime's image %q: %s; correct its name", plan.Base, err)
	}
	if exact, ok := source.(name.Digest); ok && !plan.OwnBase {
		if image, err := t.image(ctx, copies.Digest(exact.DigestStr())); err == nil {
			return image, nil
		}
	}
	original, digest, err := t.original(ctx, source)
	if err != nil {
		return nil, unavailable(plan.Base, err)
	}
	if plan.OwnBase {
		return original, nil // it may be confidential, and copies can be read by all
	}
	if image, err := t.image(ctx, copies.Digest(digest)); err == nil {
		return image, nil
	}
	return t.copyBase(ctx, original, copies.Tag(buildplan.CopyTag(source.Identifier(), digest)), digest, log)
}

// original is the base in its own registry, for the platform of this builder, which is that of the base.
func (t *target) original(ctx context.Context, source name.Reference) (v1.Image, string, error) {
	ctx, cancel := context.WithCancel(ctx) // the image's layers are read with it later, so it has no deadline
	expire := time.AfterFunc(resolveTimeout, cancel)
	image, err := t.image(ctx, source)
	if !expire.Stop() {
		err = context.DeadlineExceeded
	}
	if err != nil {
		cancel()
		return nil, "", err
	}
	digest, err := image.Digest()
	return image, digest.String(), err
}

// copyBase uploads the base once for all who build on it.
func (t *target) copyBase(ctx context.Context, original v1.Image, to name.Tag, digest string, log logr.Logger) (v1.Image, error) {
	start := time.Now()
	if err := t.pusher.Push(ctx, to, original); err != nil {
		if !t.refusesCopies(err) {
			return nil, t.failure(err)
		}
		// Registries where repositories have to be made by hand. The layers go to the image's own then.
		log.Info("the registry takes no copy of the runtime's image", "repository", to.RepositoryStr(), "reason", err.Error())
		return original, nil
	}
	log.Info("copied the runtime's image", "repository", to.RepositoryStr(), "seconds", seconds(start))
	image, err := t.image(ctx, to.Context().Digest(digest))
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
		return fail(language.RegistryUnavailable, "the runtime's image %s cannot be read: %s; it is tried again", reference, err)
	}
	return fail(language.BaseUnavailable, "the runtime's image %s cannot be read: %s; correct its name, or let the builder reach and read it",
		reference, err)
}

// copiesOf is the repository of the base's copies: next to the target's, and named by all of the base's name,
// so that two of the same last name stay apart.
func copiesOf(source name.Reference, beside name.Repository) (name.Repository, error) {
	host := strings.ToLower(strings.ReplaceAll(source.Context().RegistryStr(), ":", "_"))
	full := path.Join(path.Dir(beside.RepositoryStr()), buildplan.BaseRepositories, host, source.Context().RepositoryStr())
	return name.NewRepository(beside.RegistryStr() + "/" + full)
}
