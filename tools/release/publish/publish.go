package publish

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Content is an image or an index.
type Content interface {
	remote.Taggable
	Digest() (v1.Hash, error)
}

// Artifact is one image of a release, or its chart.
type Artifact struct {
	Repository string
	Tag        string
	Content    Content
}

// Registry is where a release goes.
type Registry struct {
	Options []remote.Option // beside credentials, which are those of docker login
	Names   []name.Option
}

// Refuse fails when one of the tags is there: a version is released once.
func (r Registry) Refuse(ctx context.Context, repositories []string, tag string) error {
	for _, repository := range repositories {
		reference, err := name.NewTag(repository+":"+tag, r.Names...)
		if err != nil {
			return fmt.Errorf("REGISTRY: %w", err)
		}
		found, err := remote.Head(reference, r.options(ctx)...)
		var refused *transport.Error
		switch {
		case err == nil:
			return fmt.Errorf("%s is there already, as %s: a version is released once, choose the next one", reference, found.Digest)
		case errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound:
		default:
			return fmt.Errorf("ask REGISTRY for %s (docker login keeps the credentials that are used): %w", reference, err)
		}
	}
	return nil
}

// Push pushes artifacts by their digests, with their signatures, and gives them their tags when all are there.
func (r Registry) Push(ctx context.Context, artifacts []Artifact, signer Signer) error {
	for _, each := range artifacts {
		reference, err := each.digest(r.Names)
		if err != nil {
			return err
		}
		if err := r.write(ctx, reference, each.Content); err != nil {
			return fmt.Errorf("push %s, no tag of this release is set: %w", reference, err)
		}
		if err := signer.image(ctx, reference, r.options(ctx)); err != nil {
			return err
		}
	}
	for i, each := range artifacts {
		reference, err := name.NewTag(each.Repository+":"+each.Tag, r.Names...)
		if err != nil {
			return err
		}
		if err := remote.Tag(reference, each.Content, r.options(ctx)...); err != nil {
			return errors.Join(fmt.Errorf("tag %s: %w", reference, err), r.untag(ctx, artifacts[:i]))
		}
	}
	return nil
}

// untag takes tags away again that were set. Not all registries allow it.
func (r Registry) untag(ctx context.Context, tagged []Artifact) error {
	var failed []error
	for _, each := range tagged {
		reference, err := name.NewTag(each.Repository+":"+each.Tag, r.Names...)
		if err != nil {
			return err
		}
		if err := remote.Delete(reference, r.options(context.WithoutCancel(ctx))...); err != nil {
			failed = append(failed, fmt.Errorf("%s is set and could not be taken away again; delete it by hand: %w", reference, err))
		}
	}
	return errors.Join(failed...)
}

func (r Registry) write(ctx context.Context, reference name.Reference, content Content) error {
	switch content := content.(type) {
	case v1.ImageIndex:
		return remote.WriteIndex(reference, content, r.options(ctx)...)
	case v1.Image:
		return remote.Write(reference, content, r.options(ctx)...)
	}
	return fmt.Errorf("a %T is neither an image nor an index", content)
}

func (r Registry) options(ctx context.Context) []remote.Option {
	return append([]remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}, r.Options...)
}

func (a Artifact) digest(options []name.Option) (name.Digest, error) {
	digest, err := a.Content.Digest()
	if err != nil {
		return name.Digest{}, err
	}
	return name.NewDigest(a.Repository+"@"+digest.String(), options...)
}
