package framework

import (
	"context"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Jobs records the build Jobs of Functions.
type Jobs struct {
	mu      sync.Mutex
	made    map[string]map[types.UID]bool // by the Function's namespace/name
	active  map[types.UID]bool
	highest int
}

// RecordJobs watches the build Jobs of all namespaces until ctx ends.
func (c *Cluster) RecordJobs(ctx context.Context) (*Jobs, error) {
	jobs := &Jobs{made: map[string]map[types.UID]bool{}, active: map[types.UID]bool{}}
	return jobs, c.watchEach(ctx, &batchv1.JobList{}, func(kind watch.EventType, object runtime.Object) {
		if job, ok := object.(*batchv1.Job); ok {
			jobs.see(job, kind == watch.Deleted || ended(job))
		}
	}, client.HasLabels{FunctionLabel})
}

func (j *Jobs) see(job *batchv1.Job, over bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	function := job.Namespace + "/" + job.Labels[FunctionLabel]
	if j.made[function] == nil {
		j.made[function] = map[types.UID]bool{}
	}
	j.made[function][job.UID] = true
	if over {
		delete(j.active, job.UID)
	} else {
		j.active[job.UID] = true
	}
	j.highest = max(j.highest, len(j.active))
}

func ended(job *batchv1.Job) bool {
	for _, condition := range job.Status.Conditions {
		over := condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed
		if over && condition.Status == corev1.ConditionTrue {
			return true
		}
	}
	return !job.DeletionTimestamp.IsZero()
}

// Of is how many Jobs were made for a Function.
func (j *Jobs) Of(namespace, function string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.made[namespace+"/"+function])
}

// Highest is how many ran at the same time at most.
func (j *Jobs) Highest() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.highest
}
