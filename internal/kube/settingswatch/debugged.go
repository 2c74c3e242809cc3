package settingswatch

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/kube/watch"
)

// ReasonDebugRefused is the reason of the Event on an object with an invalid annotation.
const ReasonDebugRefused = "DebugRefused"

// Debugged applies the annotation rouse.run/debug-until to the log.
type Debugged struct {
	cache    cache.Cache
	log      *daemon.Log
	recorder events.EventRecorder // nil: another process reports invalid annotations
	kinds    map[client.Object]string
	now      func() time.Time
}

// DebuggedBehindServices is for the data plane, which identifies Functions by their Services. Subscriptions are
// followed only where they are read.
func DebuggedBehindServices(c cache.Cache, logger logr.Logger, subscriptions bool) *Debugged {
	kinds := map[client.Object]string{&corev1.Service{}: daemon.Function}
	if subscriptions {
		kinds[&eventingv1alpha2.Subscription{}] = daemon.Subscription
	}
	return &Debugged{cache: c, log: daemon.Of(logger), kinds: kinds, now: time.Now}
}

// DebuggedThemselves is for the controllers of Functions and of Subscriptions, which report invalid annotations.
func DebuggedThemselves(c cache.Cache, logger logr.Logger, recorder events.EventRecorder, functions, subscriptions bool) *Debugged {
	kinds := map[client.Object]string{}
	if functions {
		kinds[&v1alpha2.Function{}] = daemon.Function
	}
	if subscriptions {
		kinds[&eventingv1alpha2.Subscription{}] = daemon.Subscription
	}
	return &Debugged{cache: c, log: daemon.Of(logger), recorder: recorder, now: time.Now, kinds: kinds}
}

// Run follows the objects until ctx ends.
func (d *Debugged) Run(ctx context.Context) error {
	if d.log == nil { // the log has one level for all objects
		<-ctx.Done()
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	for kind, as := range d.kinds {
		group.Go(func() error {
			return watch.Annotation(ctx, d.cache, kind, v1alpha2.AnnotationDebugUntil, func(object client.Object, value string) {
				d.apply(as, object, value)
			})
		})
	}
	return group.Wait()
}

func (d *Debugged) apply(kind string, object client.Object, value string) {
	about := daemon.Object{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}
	if value == "" {
		d.log.End(about)
		return
	}
	until, err := daemon.Until(value, d.now())
	if err != nil {
		d.log.End(about)
		if d.recorder != nil {
			d.recorder.Eventf(object, nil, corev1.EventTypeWarning, ReasonDebugRefused, "Debug", "%s",
				kube.Truncate("annotation "+v1alpha2.AnnotationDebugUntil+": "+err.Error(), maxEventNote))
		}
		return
	}
	d.log.Debug(about, until)
}
