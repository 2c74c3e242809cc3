package function

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/gitpoll"
	"github.com/rouse-run/rouse/internal/git"
)

const repositoryURL = "https://example.com/shop.git"

// gitBuild is the Job that builds a commit of a Function.
func gitBuild(t *testing.T, fn *v1alpha2.Function, sha string, age time.Duration, conditions ...batchv1.JobCondition) *batchv1.Job {
	t.Helper()
	found, err := supplyOf(fn, "runtime-nodejs22:1", nil)
	require.NoError(t, err)
	found.plan.Git.Commit = sha
	target := "registry.example.com/" + shop().Repository("price") + ":" + imageTag(fn, *found.plan)
	made := attempt{target: target, inputs: "i", commit: sha, reference: "main"}
	job := jobFor(made, conditions...)
	job.Labels, job.CreationTimestamp = buildOf(t, fn, age).Labels, metav1.NewTime(noon().Add(-age))
	return job
}

// runsCommit is the status of a Function of which a commit was built and runs.
func runsCommit(t *testing.T, sha string) func(*v1alpha2.Function) {
	t.Helper()
	return func(fn *v1alpha2.Function) {
		found, err := supplyOf(fn, "runtime-nodejs22:1", nil)
		require.NoError(t, err)
		found.plan.Git.Commit = sha
		fn.Status.GitRepository = &v1alpha2.GitRepositoryStatus{URL: repositoryURL, Reference: "main", Commit: sha, BaseDir: "/price"}
		fn.Status.Build = &v1alpha2.BuildStatus{Tag: imageTag(fn, *found.plan), Image: "registry.example.com/" + shop().Repository("price") + "@sha256:1"}
	}
}

func TestABuildOfANewerCommitSurvives(t *testing.T) {
	t.Parallel()
	unreachable := gitpoll.Finding{Err: &git.Error{Kind: git.Unreachable, Message: "example.com does not answer"}}
	for name, tc := range map[string]struct {
		known bool // false: as after a restart of the controller
		found gitpoll.Finding
		ended []batchv1.JobCondition
	}{
		"a restart of the controller":                    {},
		"a failed check of the repository":               {known: true, found: unreachable},
		"a look that finds its commit":                   {known: true, found: commit(2)},
		"a restart although it has failed, for its log":  {ended: []batchv1.JobCondition{jobEnded(batchv1.JobFailed, "")}},
		"a failed look although it has failed, likewise": {known: true, found: unreachable, ended: []batchv1.JobCondition{jobEnded(batchv1.JobFailed, "")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn := newFunction(gitSource(repositoryURL), runsCommit(t, commit(1).Commit))
			job := gitBuild(t, fn, commit(2).Commit, time.Minute, tc.ended...)
			b := newBench(t, false, fn, registrySecret(), job, buildPod(fn, job))
			if tc.known {
				b.repositories.(*fakeRepositories).found[repositoryURL] = tc.found
			}
			for range 2 {
				_, err := b.reconcile()
				require.NoError(t, err)
			}
			require.NoError(t, b.client.Get(t.Context(), client.ObjectKeyFromObject(job), &batchv1.Job{}))
			require.Equal(t, commit(1).Commit, b.function().Status.GitRepository.Commit, "what runs has not changed")
		})
	}
}

func TestTheLastCommitThatIsKnown(t *testing.T) {
	t.Parallel()
	fn := newFunction(gitSource(repositoryURL))
	with := func(changes ...func(*v1alpha2.Function)) *v1alpha2.Function {
		return newFunction(append([]func(*v1alpha2.Function){gitSource(repositoryURL)}, changes...)...)
	}
	another := func(fn *v1alpha2.Function) { fn.Spec.Source.GitRepository.Reference = "release" }
	elsewhere := func(fn *v1alpha2.Function) { fn.Spec.Source.GitRepository.BaseDir = "/other" }
	one, two, three := commit(1).Commit, commit(2).Commit, commit(3).Commit
	going := gitBuild(t, fn, three, 0)
	going.DeletionTimestamp = &metav1.Time{Time: noon()}
	for name, tc := range map[string]struct {
		fn   *v1alpha2.Function
		jobs []batchv1.Job
		want string
	}{
		"none before the first look":                  {fn: fn},
		"the one that runs":                           {fn: with(runsCommit(t, one)), want: one},
		"the one that is built":                       {fn: with(runsCommit(t, one)), jobs: []batchv1.Job{*gitBuild(t, fn, two, 0)}, want: two},
		"the first one that is built":                 {fn: fn, jobs: []batchv1.Job{*gitBuild(t, fn, one, 0)}, want: one},
		"the newest of several":                       {fn: fn, jobs: []batchv1.Job{*gitBuild(t, fn, two, time.Hour), *gitBuild(t, fn, three, 0)}, want: three},
		"none whose build is being deleted":           {fn: with(runsCommit(t, one)), jobs: []batchv1.Job{*going}, want: one},
		"none that was found by another reference":    {fn: with(runsCommit(t, one), another), jobs: []batchv1.Job{*gitBuild(t, fn, two, 0)}},
		"none that was built from another directory":  {fn: with(runsCommit(t, one), elsewhere), jobs: []batchv1.Job{*gitBuild(t, fn, two, 0)}},
		"none of a build that does not name a commit": {fn: fn, jobs: []batchv1.Job{*jobFor(attempt{target: "t", inputs: "i"})}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := supplyOf(tc.fn, "runtime-nodejs22:1", nil)
			require.NoError(t, err)
			require.Equal(t, tc.want, lastCommit(&scope{fn: tc.fn, plan: found.plan}, tc.jobs))
			require.Empty(t, found.plan.Git.Commit, "to look changes nothing")
		})
	}
}
