package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

const (
	// heldEvents is the backlog that has to be there after an upgrade and after a rollback.
	heldEvents = 50
	// started is how long Functions may take to run, or to fall asleep.
	started = 2 * time.Minute
)

// stage is a namespace with chains of Functions, and with clients that no release of Rouse changes.
type stage struct {
	cluster   *framework.Cluster
	namespace string
	callers   map[string]*framework.Caller   // by the Function that each asks
	moves     map[string]*framework.Replicas // of the Functions that have to stay asleep
	backlog   []string                       // keys that were published for held and wait there
	load      *load

	older, newer templates
}

func newStage(ctx context.Context, cluster *framework.Cluster) (s *stage, err error) {
	s = &stage{cluster: cluster, moves: map[string]*framework.Replicas{}, callers: map[string]*framework.Caller{}}
	if s.namespace, err = cluster.CreateNamespace(ctx, "upgrade"); err != nil {
		return s, err
	}
	if err := s.startClients(ctx); err != nil {
		return s, err
	}
	var manifest strings.Builder
	for _, function := range functions() {
		function.Runtime, function.Annotations = runtime, framework.Fast()
		manifest.WriteString(function.YAML() + "---\n")
	}
	for _, chain := range chains() {
		subscription := framework.Subscription{Name: chain, Namespace: s.namespace, Type: kind(chain), Sink: chain}
		manifest.WriteString(subscription.YAML() + "---\n")
	}
	rule := framework.APIRule{Name: exposed, Host: exposed, Service: exposed, Gateway: framework.OwnGateway, Methods: []string{http.MethodPost}}
	manifest.WriteString(rule.YAML())
	if err := cluster.ApplyYAML(ctx, s.namespace, manifest.String()); err != nil {
		return s, err
	}
	return s, s.settle(ctx)
}

// startClients makes what counts: the ledger, and a client for each Function that is asked.
func (s *stage) startClients(ctx context.Context) (err error) {
	if err := s.cluster.StartLedger(ctx, s.namespace); err != nil {
		return err
	}
	unchanged := []string{framework.LedgerName}
	for _, called := range []string{asked, exposed, visited} {
		name := called + "-caller"
		if s.callers[called], err = s.cluster.StartCallerAs(ctx, s.namespace, name); err != nil {
			return err
		}
		unchanged = append(unchanged, name)
	}
	for _, name := range unchanged {
		if err := s.cluster.Detach(ctx, s.namespace, name); err != nil {
			return err
		}
	}
	return nil
}

// settle waits until all runs, and what may sleep sleeps.
func (s *stage) settle(ctx context.Context) error {
	if err := s.cluster.AwaitState(ctx, s.namespace, exposed, "Ready", "", started); err != nil {
		return err
	}
	for _, chain := range chains() {
		if err := s.cluster.AwaitSubscribed(ctx, s.namespace, chain); err != nil {
			return err
		}
	}
	for _, function := range functions() {
		if err := s.cluster.AwaitCondition(ctx, s.namespace, framework.FunctionGVK, function.Name, "Running", "True", started); err != nil {
			return err
		}
	}
	for _, function := range functions() {
		if !function.Asleep {
			continue
		}
		if err := s.cluster.AwaitNoPods(ctx, s.namespace, function.Name, started); err != nil {
			return err
		}
	}
	for _, asleep := range []string{held, dormant} {
		record, err := s.cluster.RecordReplicas(ctx, s.namespace, asleep)
		if err != nil {
			return err
		}
		s.moves[asleep] = record
	}
	return nil
}

// hold pauses the chain that is held and fills it.
func (s *stage) hold(ctx context.Context, prefix string) error {
	if err := s.pause(ctx, true); err != nil {
		return err
	}
	if err := s.cluster.AwaitNoPods(ctx, s.namespace, held, started); err != nil {
		return err
	}
	record, err := s.cluster.RecordReplicas(ctx, s.namespace, held)
	if err != nil {
		return err
	}
	s.moves[held] = record
	for i := range heldEvents {
		key, err := s.load.publish(ctx, held, fmt.Sprintf("%s-%s-%d", held, prefix, i))
		if err != nil {
			return err
		}
		s.backlog = append(s.backlog, key)
	}
	return nil
}

// release checks that all that was held is still there and that nobody woke, and waits until it is delivered.
func (s *stage) release(ctx context.Context) error {
	if err := s.checkAsleep(); err != nil {
		return err
	}
	balance, err := s.cluster.Balance(ctx, s.namespace, held)
	if err != nil {
		return err
	}
	if balance.Pending != heldEvents {
		return fmt.Errorf("%d events were held up, and %d are", heldEvents, balance.Pending)
	}
	if err := s.pause(ctx, false); err != nil {
		return err
	}
	_, err = s.cluster.AwaitLedger(ctx, s.namespace, s.backlog, started)
	s.backlog = nil
	return err
}

func (s *stage) pause(ctx context.Context, paused bool) error {
	subscription := &unstructured.Unstructured{}
	subscription.SetGroupVersionKind(framework.SubscriptionGVK)
	subscription.SetNamespace(s.namespace)
	subscription.SetName(held)
	patch := fmt.Sprintf(`{"spec":{"paused":%t}}`, paused)
	if err := s.cluster.Patch(ctx, subscription, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		return fmt.Errorf("pause %s: %w", held, err)
	}
	return nil
}

// checkAsleep fails when a Deployment of those that have to sleep ever wanted a pod.
func (s *stage) checkAsleep() error {
	var errs []error
	for name, record := range s.moves {
		if moves := record.Moves(); len(moves) != 1 || moves[0].Replicas != 0 {
			errs = append(errs, fmt.Errorf("%s did not stay asleep: %v", name, moves))
		}
	}
	return errors.Join(errs...)
}

// end takes the stage away, and shows it before when something failed.
func (s *stage) end(ctx context.Context, failed bool) error {
	if s.namespace == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 4*time.Minute)
	defer cancel()
	if failed {
		s.cluster.Dump(ctx, os.Stdout, s.namespace)
	}
	return s.cluster.DeleteNamespace(ctx, s.namespace)
}
