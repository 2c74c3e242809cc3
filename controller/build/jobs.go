package build

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// JobReader counts builds by their Jobs.
type JobReader struct{ client.Reader }

// Running lists the Functions that have a Job which has not ended. One that is being deleted still counts: its pod
// does, too.
func (r JobReader) Running(ctx context.Context) ([]types.NamespacedName, error) {
	jobs := &batchv1.JobList{}
	err := r.List(ctx, jobs, client.MatchingLabels{
		v1alpha2.LabelManagedBy: v1alpha2.ManagedBy, v1alpha2.LabelResource: v1alpha2.ResourceJob,
	})
	if err != nil {
		return nil, fmt.Errorf("list the build Jobs: %w", err)
	}
	var running []types.NamespacedName
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if !Ended(job) {
			running = append(running, types.NamespacedName{
				Namespace: job.Namespace, Name: job.Labels[v1alpha2.LabelFunctionName],
			})
		}
	}
	return running, nil
}

// Ended tells whether a Job has come to its end, and so has its pod.
func Ended(job *batchv1.Job) bool { return Succeeded(job) || Failed(job) }

// Succeeded tells whether a Job has done its work.
func Succeeded(job *batchv1.Job) bool { return is(job, batchv1.JobComplete) }

// Failed tells whether a Job will not do its work any more.
func Failed(job *batchv1.Job) bool { return is(job, batchv1.JobFailed) }

func is(job *batchv1.Job, kind batchv1.JobConditionType) bool {
	for _, condition := range job.Status.Conditions {
		if condition.Type == kind {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
