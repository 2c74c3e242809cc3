package builder

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/registry"
	"github.com/rouse-run/rouse/runtimes/language"
)

const (
	// responseTimeout is long: a registry reads a whole layer again before it answers.
	responseTimeout = 2 * time.Minute
	// transfers is how many layers move at once.
	transfers = 8
)

const caRemedy = "add the certificate of its authority to the installation's caBundle"

// target is where the image goes.
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

// mount brings the base's layers into the image's repository while there is time.
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

// push uploads what the registry does not have, and names it.
func (t *target) push(ctx context.Context, image v1.Image) (string, error) {
	if err := t.pusher.Push(ctx, t.tag, image); err != nil {
		return "", t.failure(err)
	}
	digest, err := image.Digest()
	if err != nil {
		return "", fmt.Errorf("sum up the image: %w", err)
	}
	return digest.String(), nil
}

// failure says what is wrong with the registry of the image, and what to do about it.
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
	if answer := (&transport.Error{}); errors.As(err, &answer) && answer.StatusCode == http.StatusRequestEntityTooLarge {
		return fail(language.ImageTooLarge, "registry %s, or a proxy before it, takes no layer of this size; raise its limit, or depend on less", host)
	}
	return fail(language.RegistryForbidden, "registry %s does not take the image: %s; does the repository %s exist there, and may it be written to?",
		host, err, t.tag.RepositoryStr())
}
