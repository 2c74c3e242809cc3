package buildqueue

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
)

// JobReader finds builds by their Jobs.
type JobReader struct{ client.Reader }

// Running lists the Functions that have a Job which has not ended, each once. One that is being deleted still counts: its
// pod does, too. Labels are anybody's, so a Job counts only when it has the name and the owner of a Function's build.
func (r JobReader) Running(ctx context.Context) ([]types.NamespacedName, error) {
	jobs := &batchv1.JobList{}
	err := r.List(ctx, jobs, client.UnsafeDisableDeepCopy, client.MatchingLabels{
		v1alpha2.LabelManagedBy: v1alpha2.ManagedBy, v1alpha2.LabelResource: v1alpha2.ResourceJob,
	})
	if err != nil {
		return nil, fmt.Errorf("list the build Jobs: %w", err)
	}
	owners := map[types.NamespacedName]types.UID{}
	var running []types.NamespacedName
	for i := range jobs.Items {
		job := &jobs.Items[i]
		key, owner, ok := builtBy(job)
		if !ok || Ended(job) || slices.Contains(running, key) {
			continue
		}
		uid, known := owners[key]
		if !known {
			if uid, err = r.uid(ctx, key); err != nil {
				return nil, err
			}
			owners[key] = uid
		}
		if uid == owner {
			running = append(running, key)
		}
	}
	return running, nil
}

// uid is empty when there is no such Function.
func (r JobReader) uid(ctx context.Context, key types.NamespacedName) (types.UID, error) {
	fn := &v1alpha2.Function{}
	if err := r.Get(ctx, key, fn); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("look for the Function of a build: %w", err)
	}
	return fn.UID, nil
}

// buildID is the end of the name of a build's Job.
var buildID = regexp.MustCompile(`-build-([0-9a-f]{10})$`)

// builtBy is the Function that a Job builds, as far as its name and its owner say.
func builtBy(job *batchv1.Job) (fn types.NamespacedName, uid types.UID, ok bool) {
	owner := metav1.GetControllerOf(job)
	id := buildID.FindStringSubmatch(job.Name)
	if owner == nil || owner.UID == "" || owner.Kind != resources.FunctionKind || id == nil {
		return fn, "", false
	}
	if group, err := schema.ParseGroupVersion(owner.APIVersion); err != nil || group.Group != v1alpha2.GroupVersion.Group {
		return fn, "", false
	}
	fn = types.NamespacedName{Namespace: job.Namespace, Name: owner.Name}
	named := &v1alpha2.Function{ObjectMeta: metav1.ObjectMeta{Namespace: fn.Namespace, Name: fn.Name}}
	return fn, owner.UID, job.Name == resources.JobName(named, id[1]) && job.Labels[v1alpha2.LabelFunctionName] == fn.Name
}

// Ended reports whether a Job has come to its end, and so has its pod.
func Ended(job *batchv1.Job) bool { return Succeeded(job) || Failed(job) }

// Succeeded reports whether a Job has done its work.
func Succeeded(job *batchv1.Job) bool { return is(job, batchv1.JobComplete) }

// Failed reports whether a Job will not do its work any more.
func Failed(job *batchv1.Job) bool { return is(job, batchv1.JobFailed) }

func is(job *batchv1.Job, kind batchv1.JobConditionType) bool {
	for _, condition := range job.Status.Conditions {
		if condition.Type == kind {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
