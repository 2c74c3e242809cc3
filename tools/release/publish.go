package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/sigstore/cosign/v3/pkg/cosign"
	"github.com/sigstore/cosign/v3/pkg/oci/mutate"
	ociremote "github.com/sigstore/cosign/v3/pkg/oci/remote"
	"github.com/sigstore/cosign/v3/pkg/oci/static"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/payload"
)

// pushable is an image or an index.
type pushable interface {
	remote.Taggable
	Digest() (v1.Hash, error)
}

// artifact is one image of a release, or its chart.
type artifact struct {
	Repository string
	Tag        string
	Content    pushable
}

// destination is the registry of a release.
type destination struct {
	Options []remote.Option // except credentials, which are those of docker login
	Names   []name.Option
}

// Refuse returns an error when one of the tags exists: a version is released only once.
func (r destination) Refuse(ctx context.Context, repositories []string, tag string) error {
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

// Push pushes artifacts by their digests, with their signatures, and sets their tags after all succeeded.
func (r destination) Push(ctx context.Context, artifacts []artifact, signer keySigner) error {
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

// untag removes tags again. Not all registries support it.
func (r destination) untag(ctx context.Context, tagged []artifact) error {
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

func (r destination) write(ctx context.Context, reference name.Reference, content pushable) error {
	switch content := content.(type) {
	case v1.ImageIndex:
		return remote.WriteIndex(reference, content, r.options(ctx)...)
	case v1.Image:
		return remote.Write(reference, content, r.options(ctx)...)
	}
	return fmt.Errorf("a %T is neither an image nor an index", content)
}

func (r destination) options(ctx context.Context) []remote.Option {
	return append([]remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}, r.Options...)
}

func (a artifact) digest(options []name.Option) (name.Digest, error) {
	digest, err := a.Content.Digest()
	if err != nil {
		return name.Digest{}, err
	}
	return name.NewDigest(a.Repository+"@"+digest.String(), options...)
}

// passwordVariable is the variable with the password of the key, as for cosign: no password is ever an argument.
const passwordVariable = "COSIGN_PASSWORD"

// keySigner signs with a key. The zero value does not sign.
type keySigner struct{ key signature.Signer }

// newSigner reads a private key in the format of cosign generate-key-pair. With an empty file name it returns a signer
// that does not sign.
func newSigner(file string) (keySigner, error) {
	if file == "" {
		return keySigner{}, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return keySigner{}, fmt.Errorf("KEY: %w", err)
	}
	key, err := cosign.LoadPrivateKey(text, []byte(os.Getenv(passwordVariable)), nil)
	if err != nil {
		return keySigner{}, fmt.Errorf("KEY: %s is not a private key of cosign, or %s is not its password: %w", file, passwordVariable, err)
	}
	return keySigner{key: key}, nil
}

// File writes the signature of a file beside it, in the format of cosign verify-blob.
func (s keySigner) File(file string) error {
	if s.key == nil {
		return nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	signed, err := s.sign(content)
	if err != nil {
		return fmt.Errorf("sign %s: %w", file, err)
	}
	return os.WriteFile(file+".sig", []byte(signed+"\n"), 0o644)
}

func (s keySigner) sign(content []byte) (string, error) {
	signed, err := s.key.SignMessage(bytes.NewReader(content))
	return base64.StdEncoding.EncodeToString(signed), err
}

// image signs an image in its registry, and pushes the signature there.
func (s keySigner) image(ctx context.Context, reference name.Digest, options []remote.Option) error {
	if s.key == nil {
		return nil
	}
	text, err := payload.Cosign{Image: reference}.MarshalJSON()
	if err != nil {
		return fmt.Errorf("encode the signed payload: %w", err)
	}
	signed, err := s.sign(text)
	if err != nil {
		return fmt.Errorf("sign %s: %w", reference, err)
	}
	made, err := static.NewSignature(text, signed)
	if err != nil {
		return err
	}
	withOptions := ociremote.WithRemoteOptions(append(options, remote.WithContext(ctx))...)
	entity, err := ociremote.SignedEntity(reference, withOptions)
	if err != nil {
		return fmt.Errorf("read %s, which was pushed: %w", reference, err)
	}
	attached, err := mutate.AttachSignatureToEntity(entity, made)
	if err != nil {
		return err
	}
	if err := ociremote.WriteSignatures(reference.Context(), attached, withOptions); err != nil {
		return fmt.Errorf("push the signature of %s: %w", reference, err)
	}
	return nil
}
