package framework

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Move is one change of a Deployment's wanted replicas.
type Move struct {
	At       time.Time
	Replicas int32
}

// Replicas records how the wanted replicas of one Deployment move.
type Replicas struct {
	mu    sync.Mutex
	moves []Move
}

// RecordReplicas watches the Deployment until ctx ends. The first move is the state at the start.
func (c *Cluster) RecordReplicas(ctx context.Context, namespace, name string) (*Replicas, error) {
	record := &Replicas{}
	err := c.watchEach(ctx, &appsv1.DeploymentList{}, func(_ watch.EventType, object runtime.Object) {
		if deployment, ok := object.(*appsv1.Deployment); ok {
			record.add(ptr.Deref(deployment.Spec.Replicas, 1))
		}
	}, client.InNamespace(namespace), client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", name)})
	return record, err
}

func (r *Replicas) add(replicas int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.moves); n == 0 || r.moves[n-1].Replicas != replicas {
		r.moves = append(r.moves, Move{At: time.Now(), Replicas: replicas})
	}
}

// Moves returns the moves recorded so far.
func (r *Replicas) Moves() []Move {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Move(nil), r.moves...)
}

// DirectionChanges counts how often the direction changed: 0 -> N -> 0 has one change, flapping has more.
func DirectionChanges(moves []Move) int {
	changes, rising := 0, true
	for i := 1; i < len(moves); i++ {
		if up := moves[i].Replicas > moves[i-1].Replicas; i > 1 && up != rising {
			changes++
			rising = up
		} else if i == 1 {
			rising = up
		}
	}
	return changes
}

// AwaitReplicas waits until a Deployment wants and has exactly n replicas.
func (c *Cluster) AwaitReplicas(ctx context.Context, namespace, name string, n int32, timeout time.Duration) error {
	what := fmt.Sprintf("Deployment %s/%s to have %d replicas", namespace, name, n)
	return Await(ctx, timeout, what, func(ctx context.Context) (bool, error) {
		deployment := &appsv1.Deployment{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, deployment); err != nil {
			return false, err
		}
		wanted, has := ptr.Deref(deployment.Spec.Replicas, 1), deployment.Status.Replicas
		if wanted != n || has != n {
			return false, fmt.Errorf("wants %d, has %d", wanted, has)
		}
		return n == 0 || deployment.Status.ReadyReplicas == n, nil
	})
}
