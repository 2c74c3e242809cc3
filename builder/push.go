package builder

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"golang.org/x/crypto/x509roots/fallback/bundle"
	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/registry"
	"github.com/rouse-run/rouse/runtimes/language"
)

// Push adds the layer that Install hands over to the runtime's image, and pushes the result. It runs nothing of the
// Function or its packages. When Install ends without a layer, so does Push, and leaves it to Install to say why.
func (b *Builder) Push(ctx context.Context) buildplan.Result {
	start := time.Now()
	result, err := b.push(ctx)
	if errors.Is(err, errNotHandedOver) && ctx.Err() == nil {
		return buildplan.Result{}
	}
	if err != nil {
		return resultOf(ctx, err)
	}
	b.deps.Log.Info("pushed the image", "digest", result.Digest, "seconds", seconds(start))
	return result
}

func (b *Builder) push(ctx context.Context) (buildplan.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	plan, err := b.beginTask()
	if err != nil {
		return buildplan.Result{}, err
	}
	at, err := listenHandover(b.o.Handover)
	if err != nil {
		return buildplan.Result{}, err
	}
	defer at.close()
	// Install detects a failure by the closed connection, so the connection is accepted before anything that can fail.
	from, err := at.accept(ctx)
	if err != nil {
		return buildplan.Result{}, err
	}
	defer func() { _ = from.Close() }()
	known, err := readCredentials(b.o.Registry)
	if err != nil {
		return buildplan.Result{}, err
	}
	target, err := newTarget(plan.Plan, known, b.ca)
	if err != nil {
		return buildplan.Result{}, err
	}
	base, added, err := b.baseAndLayer(ctx, plan, target, from)
	if err != nil {
		return buildplan.Result{}, err
	}
	var digest string
	err = b.phase("push", func() error {
		image, err := withLayer(base, added)
		if err != nil {
			return err
		}
		digest, err = target.push(ctx, image)
		return err
	})
	return buildplan.Result{Digest: digest, Size: added.size}, err
}

// baseAndLayer prepares the base while the layer is built: one waits for registries, the other for packages. The first error cancels the
// other. The base is read from its registry under ctx also after the return.
func (b *Builder) baseAndLayer(
	ctx context.Context, plan task, target *target, from net.Conn,
) (base v1.Image, added layer, err error) {
	ctx, end := context.WithCancelCause(ctx)
	var parts sync.WaitGroup
	parts.Go(func() {
		err := b.phase("base", func() (err error) {
			if err := target.check(); err != nil {
				return err
			}
			if plan.language.Compiled != nil {
				base, err = bareBase(plan.language)
				return err
			}
			if base, err = target.openBase(ctx, plan.Plan, b.deps.Log); err != nil {
				return err
			}
			return target.mount(ctx, base)
		})
		if err != nil {
			end(err)
		}
	})
	parts.Go(func() {
		err := b.phase("receive", func() (err error) {
			added, err = receive(ctx, from, func(in io.Reader) (layer, error) {
				return readLayer(in, plan.language.FunctionDir, filepath.Join(b.o.Work, "layer.tar.gz"), plan.MaxSize)
			})
			return err
		})
		if err != nil {
			end(err)
		}
	})
	parts.Wait()
	return base, added, context.Cause(ctx)
}

const (
	// responseTimeout is long, because a registry reads a complete layer again before it responds.
	responseTimeout = 2 * time.Minute
	// transfers bounds the concurrent uploads of layers.
	transfers = 8
)

const caRemedy = "add the certificate of its authority to the installation's caBundle"

// target is the destination of the image.
type target struct {
	tag    name.Tag
	known  credentials
	reach  http.RoundTripper
	puller *remote.Puller
	pusher *remote.Pusher
}

// newTarget makes no request. The puller and the pusher remember what they read and wrote, so that layers
// that were mounted early are not asked for again.
func newTarget(plan buildplan.Plan, known credentials, ca []byte) (*target, error) {
	tag, err := name.NewTag(plan.Target, name.StrictValidation)
	if err != nil {
		return nil, fmt.Errorf("the plan's target: %w", err)
	}
	options := registry.TransportOptions{CA: ca, ResponseTimeout: responseTimeout}
	if plan.Insecure {
		options.Insecure = []string{tag.RegistryStr()}
	}
	reach, err := registry.NewTransport(options)
	if err != nil {
		return nil, err
	}
	remotes := []remote.Option{
		remote.WithTransport(reach), remote.WithAuthFromKeychain(known), remote.WithJobs(transfers),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}),
	}
	t := &target{tag: tag, known: known, reach: reach}
	if t.puller, err = remote.NewPuller(remotes...); err != nil {
		return nil, fmt.Errorf("set up the registry's client: %w", err)
	}
	if t.pusher, err = remote.NewPusher(remotes...); err != nil {
		return nil, fmt.Errorf("set up the registry's client: %w", err)
	}
	return t, nil
}

// check begins an upload and gives it up: what is wrong with the registry or its credentials is said before anything is
// installed in vain, and is not taken for the base's.
func (t *target) check() error {
	if err := remote.CheckPushPermission(t.tag, t.known, t.reach); err != nil {
		return t.failure(err)
	}
	return nil
}

// mount mounts the base's layers into the image's repository while the layer is built.
func (t *target) mount(ctx context.Context, base v1.Image) error {
	layers, err := base.Layers()
	if err != nil {
		return fmt.Errorf("list the layers of the base: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(transfers)
	for _, each := range layers {
		group.Go(func() error { return t.pusher.Upload(ctx, t.tag.Context(), each) })
	}
	if err := group.Wait(); err != nil {
		return t.failure(err)
	}
	return nil
}

// push uploads what the registry does not have, and returns the image's reference.
func (t *target) push(ctx context.Context, image v1.Image) (string, error) {
	if err := t.pusher.Push(ctx, t.tag, image); err != nil {
		return "", t.failure(err)
	}
	digest, err := image.Digest()
	if err != nil {
		return "", fmt.Errorf("compute the digest of the image: %w", err)
	}
	return digest.String(), nil
}

// failure returns the error of the image's registry, with the remedy.
func (t *target) failure(err error) error {
	err = registry.Explain(err)
	host := t.tag.RegistryStr()
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, registry.ErrForbidden):
		return fail(language.RegistryForbidden, "registry %s: %s; correct the credentials in the Secret that names the registry", host, err)
	case errors.Is(err, registry.ErrFull):
		return fail(language.RegistryFull, "registry %s: %s; delete images, or give it a larger volume or quota", host, err)
	case errors.Is(err, registry.ErrUntrusted):
		return fail(language.RegistryUnavailable, "registry %s: %s; %s", host, err, caRemedy)
	case errors.Is(err, registry.ErrUnavailable):
		return fail(language.RegistryUnavailable, "registry %s: %s; it is tried again", host, err)
	}
	answer := &transport.Error{}
	switch {
	case !errors.As(err, &answer):
	case answer.StatusCode == http.StatusRequestEntityTooLarge:
		return fail(language.ImageTooLarge, "registry %s, or a proxy before it, takes no layer of this size; raise its limit, or depend on less", host)
	case lacksBlobs(answer):
		return fail(language.RegistryUnavailable, "registry %s has removed layers while the image was pushed: %s; it is tried again", host, err)
	}
	return fail(language.RegistryForbidden, "registry %s does not take the image: %s; does the repository %s exist there, and may it be written to?",
		host, err, t.tag.RepositoryStr())
}

// lacksBlobs reports whether a registry refuses a manifest because it does not have all layers: its garbage collection did not wait
// for the push.
func lacksBlobs(answer *transport.Error) bool {
	return slices.ContainsFunc(answer.Errors, func(d transport.Diagnostic) bool {
		return d.Code == transport.ManifestBlobUnknownErrorCode
	})
}

// systemBundles are the files with trusted certificates in distributions.
var systemBundles = [...]string{
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem",
	"/etc/ssl/cert.pem",
}

// trustVariables are the variables that npm and the scripts of packages, pip, OpenSSL, curl and Git read.
var trustVariables = [...]string{
	"NODE_EXTRA_CA_CERTS", "npm_config_cafile", "PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO",
}

// trust writes the system's certificates and those of ca to file, and returns the variables that make programs trust them. Without ca it
// changes nothing.
func trust(ca []byte, file string) ([]string, error) {
	if len(ca) == 0 {
		return nil, nil
	}
	joined := append(append(systemRoots(), '\n'), ca...)
	if err := os.WriteFile(file, joined, 0o600); err != nil {
		return nil, fmt.Errorf("write the trusted certificates: %w", err)
	}
	env := make([]string, 0, len(trustVariables))
	for _, variable := range trustVariables {
		env = append(env, variable+"="+file)
	}
	return env, nil
}

// systemRoots returns the certificates of the image, or the public ones when it has none, as in slim images.
func systemRoots() []byte {
	for _, file := range append([]string{os.Getenv("SSL_CERT_FILE")}, systemBundles[:]...) {
		if text, err := os.ReadFile(file); err == nil { //nolint:gosec // where certificates are
			return text
		}
	}
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		roots.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
	}
	return roots.Bytes()
}
