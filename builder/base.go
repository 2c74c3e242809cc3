package builder

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"path"
	"runtime"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/registry"
	"github.com/rouse-run/rouse/runtimes/language"
)

// resolveTimeout bounds how long the base's registry may take to resolve the base.
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
		return original, nil // it may be confidential, and all tenants can read copies
	}
	if image, err := t.image(ctx, copies.Digest(digest)); err == nil {
		return image, nil
	}
	return t.copyBase(ctx, original, copies.Tag(buildplan.CopyTag(source.Identifier(), digest)), digest, log)
}

// original returns the base in its own registry, for the platform of this builder.
func (t *target) original(ctx context.Context, source name.Reference) (v1.Image, string, error) {
	ctx, cancel := context.WithCancel(ctx) // without a deadline, because the image's layers are read with it later
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

// copyBase uploads the base once for all builds.
func (t *target) copyBase(ctx context.Context, original v1.Image, to name.Tag, digest string, log logr.Logger) (v1.Image, error) {
	start := time.Now()
	if err := t.pusher.Push(ctx, to, original); err != nil {
		if !t.refusesCopies(err) {
			return nil, t.failure(err)
		}
		// Some registries do not create repositories. The layers are uploaded to the image's repository then.
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

// copiesOf returns the repository of the base's copies: next to the target's, with the full name of the base, so that bases with the same last
// element do not collide.
func copiesOf(source name.Reference, beside name.Repository) (name.Repository, error) {
	host := strings.ToLower(strings.ReplaceAll(source.Context().RegistryStr(), ":", "_"))
	full := path.Join(path.Dir(beside.RepositoryStr()), buildplan.BaseRepositories, host, source.Context().RepositoryStr())
	return name.NewRepository(beside.RegistryStr() + "/" + full)
}

const (
	bareUser    = "1000:1000"
	barePort    = "8080/tcp"
	bareRoots   = "etc/ssl/certs/ca-certificates.crt"
	bareUsers   = "root:x:0:0::/:/none\nfunction:x:1000:1000::/tmp:/none\n"
	bareGroups  = "root:x:0:\nfunction:x:1000:\n"
	modeFile    = 0o644
	modeDir     = 0o755
	modeForAny  = 0o1777
	bareCreated = "rouse builder"
)

// bareBase is the image below a binary: the certificates of public authorities, a directory for temporary files, and the name
// of the user. It is made here, so that no registry has a say in what it is.
func bareBase(l *language.Language) (v1.Image, error) {
	content, err := bareFiles()
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{
		Layer: static.NewLayer(content, types.OCIUncompressedLayer), MediaType: types.OCIUncompressedLayer,
		History: v1.History{Created: v1.Time{Time: time.Unix(0, 0).UTC()}, CreatedBy: bareCreated},
	})
	if err != nil {
		return nil, fmt.Errorf("build the base: %w", err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("build the base: %w", err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = "linux", runtime.GOARCH, v1.Time{Time: time.Unix(0, 0).UTC()}
	file.Config = v1.Config{
		Entrypoint: []string{path.Join(l.FunctionDir, l.Compiled.Binary)}, WorkingDir: l.FunctionDir, User: bareUser,
		Env: []string{"HOME=/tmp"}, ExposedPorts: map[string]struct{}{barePort: {}},
	}
	image, err = mutate.ConfigFile(image, file)
	if err != nil {
		return nil, fmt.Errorf("build the base: %w", err)
	}
	return image, nil
}

func bareFiles() ([]byte, error) {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, fmt.Errorf("write the certificates: %w", err)
		}
	}
	var content bytes.Buffer
	archive := tar.NewWriter(&content)
	for _, each := range []struct {
		name, text string
		mode       int64
	}{
		{"etc/", "", modeDir},
		{"etc/group", bareGroups, modeFile},
		{"etc/passwd", bareUsers, modeFile},
		{"etc/ssl/", "", modeDir},
		{"etc/ssl/certs/", "", modeDir},
		{bareRoots, roots.String(), modeFile},
		{"tmp/", "", modeForAny},
	} {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: each.name, Mode: each.mode, Size: int64(len(each.text)), ModTime: time.Unix(0, 0)}
		if each.text == "" {
			header.Typeflag = tar.TypeDir
		}
		if err := archive.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("write the base: %w", err)
		}
		if _, err := archive.Write([]byte(each.text)); err != nil {
			return nil, fmt.Errorf("write the base: %w", err)
		}
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("write the base: %w", err)
	}
	return content.Bytes(), nil
}
