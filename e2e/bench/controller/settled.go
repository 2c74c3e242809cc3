package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

const (
	writers        = 4 // of statuses, at a time
	reportInterval = 15 * time.Second
)

// saying is a status for an object.
type saying struct {
	of     client.Object
	status any
}

// settled watches until all have the status that they stay with, and meanwhile says what Kubernetes and KEDA would say.
type settled struct {
	cluster *cluster
	count   int
	stop    context.CancelFunc
	queue   chan saying
	failed  atomic.Pointer[error]

	mu            sync.Mutex
	functions     map[types.UID]bool
	subscriptions map[types.UID]bool
}

func watchSettled(ctx context.Context, c *cluster, count int) (*settled, error) {
	watching, stop := context.WithCancel(ctx)
	s := &settled{
		cluster: c, count: count, stop: stop, queue: make(chan saying, 8*count), // each of two kinds changes a few times
		functions: map[types.UID]bool{}, subscriptions: map[types.UID]bool{},
	}
	scaledObject := &unstructured.Unstructured{}
	scaledObject.SetGroupVersionKind(schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject"})
	objects, err := cache.New(c.Config, cache.Options{Scheme: c.Scheme, DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		stop()
		return nil, fmt.Errorf("watch: %w", err)
	}
	for _, kind := range []client.Object{&serverlessv1alpha2.Function{}, &eventingv1alpha2.Subscription{}, &appsv1.Deployment{}, scaledObject} {
		informer, err := objects.GetInformer(watching, kind, cache.BlockUntilSynced(false))
		if err == nil {
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc: s.see, UpdateFunc: func(_, object any) { s.see(object) },
			})
		}
		if err != nil {
			stop()
			return nil, fmt.Errorf("watch: %w", err)
		}
	}
	go func() { _ = objects.Start(watching) }()
	for range writers {
		go s.write(watching)
	}
	return s, nil
}

// see takes over one object.
func (s *settled) see(object any) {
	switch typed := object.(type) {
	case *serverlessv1alpha2.Function:
		s.note(s.functions, typed, isRunning(typed))
	case *eventingv1alpha2.Subscription:
		s.note(s.subscriptions, typed, typed.Status.Ready)
	case *appsv1.Deployment:
		if typed.Status.ObservedGeneration < typed.Generation {
			s.queue <- saying{typed, rolledOut(typed)}
		}
	case *unstructured.Unstructured:
		if _, known, _ := unstructured.NestedSlice(typed.Object, "status", "conditions"); !known {
			s.queue <- saying{typed, obeyed()}
		}
	}
}

func (s *settled) note(set map[types.UID]bool, object client.Object, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if is {
		set[object.GetUID()] = true
		return
	}
	delete(set, object.GetUID())
}

// isRunning reports whether all is said of a Function that will be.
func isRunning(fn *serverlessv1alpha2.Function) bool {
	for _, kind := range []string{
		serverlessv1alpha2.ConditionConfigurationReady, serverlessv1alpha2.ConditionRunning, serverlessv1alpha2.ConditionScaling,
	} {
		if !meta.IsStatusConditionTrue(fn.Status.Conditions, kind) {
			return false
		}
	}
	return true
}

// rolledOut is what Kubernetes says of a Deployment with a pod that is ready.
func rolledOut(seen *appsv1.Deployment) appsv1.DeploymentStatus {
	now := metav1.Now()
	condition := func(kind appsv1.DeploymentConditionType, reason string) appsv1.DeploymentCondition {
		return appsv1.DeploymentCondition{
			Type: kind, Status: corev1.ConditionTrue, Reason: reason, LastUpdateTime: now, LastTransitionTime: now,
		}
	}
	return appsv1.DeploymentStatus{
		ObservedGeneration: seen.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
		Conditions: []appsv1.DeploymentCondition{
			condition(appsv1.DeploymentAvailable, "MinimumReplicasAvailable"),
			condition(appsv1.DeploymentProgressing, "NewReplicaSetAvailable"),
		},
	}
}

// obeyed is what KEDA says of a ScaledObject that it has taken over.
func obeyed() any {
	return map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": "True", "reason": "ScaledObjectReady", "message": "ScaledObject is defined correctly and is ready for scaling",
	}}}
}

// write stores what is said.
func (s *settled) write(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case said := <-s.queue:
			if err := s.say(ctx, said); client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
				err = fmt.Errorf("say that all is well with %T %s: %w", said.of, said.of.GetName(), err)
				s.failed.Store(&err)
			}
		}
	}
}

func (s *settled) say(ctx context.Context, said saying) error {
	patch, err := json.Marshal(map[string]any{"status": said.status})
	if err != nil {
		return err
	}
	target, ok := said.of.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", said.of)
	}
	return s.cluster.Client.Status().Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), client.FieldOwner("bench"))
}

// await returns when all are settled.
func (s *settled) await(ctx context.Context) error {
	for reported := time.Now(); ; {
		s.mu.Lock()
		functions, subscriptions := len(s.functions), len(s.subscriptions)
		s.mu.Unlock()
		if functions >= s.count && subscriptions >= s.count {
			return nil
		}
		if failed := s.failed.Load(); failed != nil {
			return *failed
		}
		if time.Since(reported) > reportInterval {
			reported = time.Now()
			fmt.Printf("... %d Functions and %d Subscriptions of %d have their status\n", functions, subscriptions, s.count)
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("%d Functions and %d Subscriptions of %d have their status: %w", functions, subscriptions, s.count, err)
		}
	}
}
