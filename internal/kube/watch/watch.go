package watch

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayapi "sigs.k8s.io/gateway-api/apis/v1"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
)

const (
	// pause parts two decisions at least.
	pause = 100 * time.Millisecond
	// share of the time that the last one took parts them, too, so that deciding leaves time for everything else.
	share = 3
	// retry is how often kinds are looked for that the API server does not serve.
	retry = 5 * time.Second
)

// APIRules calls apply with what all APIRules amount to, the oldest first, at once and after each change, until ctx ends. What it gets
// points into the cache: it must not change it. The cache is limited by CacheObjects,
// and best by Transform.
func APIRules(ctx context.Context, c cache.Cache, settings APIRuleSettings, apply func([]apirule.Exposure)) error {
	w := &watch{cache: c, settings: settings, changed: make(chan struct{}, 1), missing: []kind{
		{"Services", &corev1.Service{}, serviceDiffers}, {"APIRules", &v2.APIRule{}, ruleDiffers},
	}}
	if settings.GatewayAPI {
		w.missing = append(w.missing, kind{"Gateways", &gatewayapi.Gateway{}, gatewayDiffers})
	}
	defer w.end()
	if err := w.find(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	return w.follow(ctx, func() error {
		exposures, err := w.read(ctx)
		if err == nil {
			apply(exposures)
		}
		return err
	})
}

// kind is one of the objects that decide.
type kind struct {
	name    string
	object  client.Object
	differs func(before, after any) bool
}

// watch is a Watch that runs.
type watch struct {
	cache    cache.Cache
	settings APIRuleSettings
	decider  apirule.Decider
	changed  chan struct{}
	missing  []kind // that the API server does not serve yet
	undo     []func()
}

func (w *watch) end() {
	for _, undo := range w.undo {
		undo()
	}
}

// find watches the kinds that the API server serves. The others are as if there was no object of them: gateways have more to do than
// to wait for CustomResourceDefinitions.
func (w *watch) find(ctx context.Context) error {
	var missing []kind
	var inStep []toolscache.InformerSynced
	for _, each := range w.missing {
		informer, err := w.cache.GetInformer(ctx, each.object, cache.BlockUntilSynced(false))
		if meta.IsNoMatchError(err) {
			missing = append(missing, each)
			continue
		}
		if err != nil {
			return ignoreEnd(ctx, fmt.Errorf("watch %s: %w", each.name, err))
		}
		registration, err := informer.AddEventHandler(onChangeOf(each.differs, w.raise))
		if err != nil {
			return ignoreEnd(ctx, fmt.Errorf("watch %s: %w", each.name, err))
		}
		w.undo = append(w.undo, func() { _ = informer.RemoveEventHandler(registration) }) // fails only when it is gone
		inStep = append(inStep, informer.HasSynced, registration.HasSynced)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), inStep...) {
		return ignoreEnd(ctx, errOutOfStep)
	}
	w.missing = missing
	return nil
}

// ignoreEnd is no error once the process ends.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

func (w *watch) raise() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// follow decides at once and after each change, and looks for the kinds that are missing.
func (w *watch) follow(ctx context.Context, decide func() error) error {
	for {
		began := time.Now()
		if err := decide(); err != nil {
			return ignoreEnd(ctx, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(pause, share*time.Since(began))):
		}
		if err := w.await(ctx); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// await waits for a change.
func (w *watch) await(ctx context.Context) error {
	for {
		var again <-chan time.Time
		if len(w.missing) > 0 {
			again = time.After(retry)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.changed:
			return nil
		case <-again:
			if err := w.find(ctx); err != nil {
				return err
			}
		}
	}
}

func onChangeOf(differs func(before, after any) bool, raise func()) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { raise() },
		UpdateFunc: func(before, after any) {
			if differs(before, after) {
				raise()
			}
		},
		DeleteFunc: func(any) { raise() },
	}
}

// ruleDiffers is false for a status that was written.
func ruleDiffers(before, after any) bool {
	was, _ := before.(*v2.APIRule)
	is, _ := after.(*v2.APIRule)
	return was == nil || is == nil || was.UID != is.UID || was.Generation != is.Generation ||
		was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero()
}

func serviceDiffers(before, after any) bool {
	was, _ := before.(*corev1.Service)
	is, _ := after.(*corev1.Service)
	return was == nil || is == nil || !reflect.DeepEqual(apirule.ServiceInfoOf(was), apirule.ServiceInfoOf(is))
}

func gatewayDiffers(before, after any) bool {
	was, _ := before.(*gatewayapi.Gateway)
	is, _ := after.(*gatewayapi.Gateway)
	return was == nil || is == nil || !slices.Equal(hostsOf(was), hostsOf(is))
}
