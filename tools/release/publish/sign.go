package publish

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/sigstore/cosign/v3/pkg/cosign"
	"github.com/sigstore/cosign/v3/pkg/oci/mutate"
	ociremote "github.com/sigstore/cosign/v3/pkg/oci/remote"
	"github.com/sigstore/cosign/v3/pkg/oci/static"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/payload"
)

// Password is the variable with the password of the key, as cosign has it: none is ever in an argument.
const Password = "COSIGN_PASSWORD"

// Signer signs with one key. The zero value signs nothing.
type Signer struct{ key signature.Signer }

// NewSigner reads a private key as cosign generate-key-pair writes it. An empty file name makes a Signer that signs nothing.
func NewSigner(file string) (Signer, error) {
	if file == "" {
		return Signer{}, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return Signer{}, fmt.Errorf("KEY: %w", err)
	}
	key, err := cosign.LoadPrivateKey(text, []byte(os.Getenv(Password)), nil)
	if err != nil {
		return Signer{}, fmt.Errorf("KEY: %s is no private key of cosign, or %s is not its password: %w", file, Password, err)
	}
	return Signer{key: key}, nil
}

// File writes the signature of a file beside it, as cosign verify-blob reads it.
func (s Signer) File(file string) error {
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

func (s Signer) sign(content []byte) (string, error) {
	signed, err := s.key.SignMessage(bytes.NewReader(content))
	return base64.StdEncoding.EncodeToString(signed), err
}

// image signs an image that is at its registry, and puts the signature beside it.
func (s Signer) image(ctx context.Context, reference name.Digest, options []remote.Option) error {
	if s.key == nil {
		return nil
	}
	text, err := payload.Cosign{Image: reference}.MarshalJSON()
	if err != nil {
		return fmt.Errorf("say what is signed: %w", err)
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
