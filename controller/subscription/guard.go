package subscription

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/kube"
	configmaps "github.com/rouse-run/rouse/internal/kube/watch"
	"github.com/rouse-run/rouse/internal/migration"
)

// Neighbours reports other users of a stream, and takes over from them.
type Neighbours interface {
	KymaConsumers(ctx context.Context, stream string) (broker.KymaConsumers, error)
	AdoptConsumers(ctx context.Context, stream string, consumers []broker.Consumer) error
	DropKymaConsumer(ctx context.Context, stream, name string) error
	HandBack(ctx context.Context, stream string, consumer broker.Consumer) error
}

// Why a stream is not used.
var (
	errEventingManager = errors.New("the stream is shared with Kyma's eventing-manager")
	errHandedBack      = errors.New("rouse migrate back hands the consumers back to Kyma: " +
		"start Kyma's eventing, or have Rouse go on with rouse migrate apply")
)

// isBlocked reports whether the guard lets nobody use the stream now.
func isBlocked(err error) bool {
	return errors.Is(err, errEventingManager) || errors.Is(err, errHandedBack)
}

// guard protects a stream in which Kyma's eventing-manager has consumers: whenever that starts it deletes the consumers
// of others, with their pending events. It checks until it has found none once. On request it takes over from the
// consumers that eventing-manager has left, or hands back to them.
type guard struct {
	Broker

	stream   string
	mu       sync.Mutex
	verified bool
	asked    migration.Order
}

// ask has the guard take over or hand back with the next sweep.
func (g *guard) ask(order migration.Order) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked, g.verified = order, false
}

// EnsureStreamsFor neither creates nor changes a stream before it is verified.
func (g *guard) EnsureStreamsFor(
	ctx context.Context, options broker.StreamOptions, interested func(ctx context.Context) ([]broker.Consumer, error),
) error {
	if err := g.move(ctx, interested); err != nil {
		return err
	}
	if err := g.verify(ctx); err != nil {
		return err
	}
	return g.Broker.EnsureStreamsFor(ctx, options, interested)
}

// EnsureConsumer creates no consumer before the stream is verified.
func (g *guard) EnsureConsumer(ctx context.Context, stream string, consumer broker.Consumer) error {
	if err := g.verify(ctx); err != nil {
		return err
	}
	return g.Broker.EnsureConsumer(ctx, stream, consumer)
}

// DropUnwanted removes nothing before the stream is verified.
func (g *guard) DropUnwanted(ctx context.Context, stream string) (uint64, error) {
	if err := g.verify(ctx); err != nil {
		return 0, err
	}
	return g.Broker.DropUnwanted(ctx, stream)
}

func (g *guard) verify(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.asked.Direction == migration.ToKyma {
		return errHandedBack
	}
	if g.verified {
		return nil
	}
	found, err := g.KymaConsumers(ctx, g.stream)
	switch {
	case errors.Is(err, broker.ErrNoStream): // there can be no consumer
	case err != nil:
		return err
	case found.Any():
		return fmt.Errorf("%w: %s", errEventingManager, explain(found, g.stream))
	}
	g.verified = true
	return nil
}

// move does what was asked for all valid Subscriptions. Each sweep repeats it: what is done is no work.
func (g *guard) move(ctx context.Context, interested func(ctx context.Context) ([]broker.Consumer, error)) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.asked.Direction == "" || g.asked.Direction == migration.ToRouse && g.verified {
		return nil
	}
	consumers, err := interested(ctx)
	if err != nil {
		return err
	}
	if g.asked.Direction == migration.ToKyma {
		err = g.handBack(ctx, consumers)
	} else {
		err = g.adopt(ctx, consumers)
	}
	if errors.Is(err, broker.ErrNoStream) {
		return nil // there is nothing to move
	}
	return err
}

func (g *guard) adopt(ctx context.Context, consumers []broker.Consumer) error {
	if err := g.AdoptConsumers(ctx, g.stream, consumers); err != nil {
		return err
	}
	for _, name := range g.asked.Abandoned {
		if err := g.DropKymaConsumer(ctx, g.stream, name); err != nil {
			return err
		}
	}
	return nil
}

func (g *guard) handBack(ctx context.Context, consumers []broker.Consumer) error {
	for _, consumer := range consumers {
		if err := g.HandBack(ctx, g.stream, consumer); err != nil {
			return err
		}
	}
	return nil
}

// explain describes eventing-manager's consumers, and the remedy.
func explain(found broker.KymaConsumers, stream string) string {
	const otherwise = "use a NATS of Rouse's own, or set kyma.allowEventingManager=true in the chart (--allow-eventing-manager)"
	if found.Bound > 0 {
		return fmt.Sprintf("it receives on %d consumers of stream %s, and would delete those of Rouse, with the events that wait in them, "+
			"whenever it starts: stop it for good, %s", found.Bound, stream, otherwise)
	}
	return fmt.Sprintf("it has left %d consumers in stream %s, which keep every event until the stream is full, and would delete those of "+
		"Rouse if it came back: make sure that it does not and have Rouse take over from them with rouse migrate apply, or delete its consumers, %s",
		found.Left, stream, otherwise)
}

// orders follows the ConfigMap of rouse migrate.
type orders struct {
	config *rest.Config
	name   types.NamespacedName
	guard  *guard
	sweep  func()
	log    logr.Logger
}

// followOrders adds the ConfigMap to a manager.
func followOrders(mgr ctrl.Manager, name types.NamespacedName, guard *guard, sweep func()) error {
	if err := mgr.Add(&orders{mgr.GetConfig(), name, guard, sweep, mgr.GetLogger().WithName("migration")}); err != nil {
		return fmt.Errorf("follow ConfigMap %s: %w", name, err)
	}
	return nil
}

// NeedLeaderElection has only the leader move consumers.
func (o *orders) NeedLeaderElection() bool { return true }

// Start follows until ctx ends.
func (o *orders) Start(ctx context.Context) error {
	objects, err := kube.NewConfigMapCache(o.config, o.name, migration.Key, migration.MaxBytes)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- objects.Start(ctx) }()
	err = configmaps.ConfigMap(ctx, objects, o.name, func(content configmaps.Content) {
		order, err := migration.Parse(content.Data[migration.Key])
		if err != nil {
			o.log.Info("cannot read what rouse migrate asks for", "configMap", o.name.String(), "reason", err.Error())
			return
		}
		o.guard.ask(order)
		o.sweep()
	})
	return errors.Join(err, <-ended)
}
