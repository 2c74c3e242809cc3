package function

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/gitpoll"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/git"
	"github.com/rouse-run/rouse/internal/testing/registrytest"
)

const repositoryURL = "https://example.com/shop.git"

// gitBuild returns the Job that builds a commit of a Function.
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

// runsCommit sets the status of a Function of which a commit was built and runs.
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

func TestANewerCommitKeepsTheRunningBuild(t *testing.T) {
	t.Parallel()
	unreachable := gitpoll.Finding{Err: &git.Error{Kind: git.Unreachable, Message: "example.com does not answer"}}
	for name, tc := range map[string]struct {
		known bool // false: like after a restart of the controller
		found gitpoll.Finding
		ended []batchv1.JobCondition
	}{
		"a restart of the controller":               {},
		"a failed check of the repository":          {known: true, found: unreachable},
		"a check that finds its commit":             {known: true, found: commit(2)},
		"a restart after the build has failed":      {ended: []batchv1.JobCondition{jobEnded(batchv1.JobFailed, "")}},
		"a failed check after the build has failed": {known: true, found: unreachable, ended: []batchv1.JobCondition{jobEnded(batchv1.JobFailed, "")}},
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
			require.Equal(t, commit(1).Commit, b.function().Status.GitRepository.Commit, "the running commit must not change")
		})
	}
}

func TestLastCommitIsTheNewestBuiltOrRunning(t *testing.T) {
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
		"none before the first check":       {fn: fn},
		"the running commit":                {fn: with(runsCommit(t, one)), want: one},
		"the commit being built":            {fn: with(runsCommit(t, one)), jobs: []batchv1.Job{*gitBuild(t, fn, two, 0)}, want: two},
		"the first commit being built":      {fn: fn, jobs: []batchv1.Job{*gitBuild(t, fn, one, 0)}, want: one},
		"the newest of several":             {fn: fn, jobs: []batchv1.Job{*gitBuild(t, fn, two, time.Hour), *gitBuild(t, fn, three, 0)}, want: three},
		"not from a build in deletion":      {fn: with(runsCommit(t, one)), jobs: []batchv1.Job{*going}, want: one},
		"not by another reference":          {fn: with(runsCommit(t, one), another), jobs: []batchv1.Job{*gitBuild(t, fn, two, 0)}},
		"not from another directory":        {fn: with(runsCommit(t, one), elsewhere), jobs: []batchv1.Job{*gitBuild(t, fn, two, 0)}},
		"not from a build without a commit": {fn: fn, jobs: []batchv1.Job{*jobFor(attempt{target: "t", inputs: "i"})}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := supplyOf(tc.fn, "runtime-nodejs22:1", nil)
			require.NoError(t, err)
			require.Equal(t, tc.want, lastCommit(&scope{fn: tc.fn, plan: found.plan}, tc.jobs))
			require.Empty(t, found.plan.Git.Commit, "the lookup must not change the plan")
		})
	}
}

func gitSource(url string) func(*v1alpha2.Function) {
	return func(fn *v1alpha2.Function) {
		fn.Spec.Source = v1alpha2.Source{GitRepository: &v1alpha2.GitRepositorySource{URL: url, Reference: "main", BaseDir: "/price"}}
	}
}

func commit(digit int) gitpoll.Finding {
	return gitpoll.Finding{Commit: strings.Repeat(strconv.Itoa(digit), 40)}
}

func followsCommits(w *fixture, repositories *fakeRepositories) {
	t := w.t
	server := registrytest.Start(t)
	w.useRegistry(server)
	url := "https://example.com/" + w.namespace + ".git"
	repositories.find(url, commit(1))
	fn := w.create(gitSource(url))
	w.awaitCondition(fn, v1alpha2.ConditionConfigurationReady, metav1.ConditionTrue, v1alpha2.ReasonSpecValidated)
	finish := func(before ...*batchv1.Job) *appsv1.Deployment {
		job := w.awaitJob(fn, before...)
		digest := push(t, target(job))
		w.end(job, buildplan.Result{Digest: digest}, time.Now())
		deployment := w.awaitImage(fn, server.Host+"/"+w.repository()+"@"+digest)
		w.roll(deployment)
		return deployment
	}
	deployment := finish()
	require.Empty(t, sourceOf(deployment), "the source must only be in the image")
	await(w, fn, "the commit is in the status", func(fn *v1alpha2.Function) bool {
		return fn.Status.GitRepository != nil && fn.Status.GitRepository.Commit == commit(1).Commit
	})
	require.Equal(t, fn.Status.Commit, fn.Status.GitRepository.Commit)
	require.Equal(t, "/price", fn.Status.BaseDir)
	require.Equal(t, "main", fn.Status.Reference)

	repositories.find(url, commit(2))
	condition := w.awaitCondition(fn, v1alpha2.ConditionConfigurationReady, metav1.ConditionTrue, v1alpha2.ReasonSourceUpdated)
	require.Contains(t, condition.Message, "main is at commit "+commit(2).Commit)
	require.Equal(t, commit(1).Commit, fn.Status.GitRepository.Commit, "the status reports the running commit")
	finish()
	w.awaitCondition(fn, v1alpha2.ConditionConfigurationReady, metav1.ConditionTrue, v1alpha2.ReasonSpecValidated)
	require.Equal(t, commit(2).Commit, fn.Status.GitRepository.Commit)
}

func survivesRepository(w *fixture, repositories *fakeRepositories) {
	t := w.t
	server := registrytest.Start(t)
	w.useRegistry(server)
	url := "https://example.com/" + w.namespace + ".git"
	repositories.find(url, commit(1))
	fn := w.create(gitSource(url))
	job := w.awaitJob(fn)
	digest := push(t, target(job))
	w.end(job, buildplan.Result{Digest: digest}, time.Now())
	deployment := w.awaitImage(fn, server.Host+"/"+w.repository()+"@"+digest)
	w.roll(deployment)
	await(w, fn, "the commit runs", func(fn *v1alpha2.Function) bool { return fn.Status.GitRepository != nil })

	repositories.find(url, gitpoll.Finding{Err: &git.Error{Kind: git.Unreachable, Message: "example.com does not answer"}})
	condition := w.awaitCondition(fn, v1alpha2.ConditionConfigurationReady, metav1.ConditionFalse, v1alpha2.ReasonSourceUpdateFailed)
	require.Equal(t, "Git repository: "+url+" source check failed: example.com does not answer", condition.Message)
	w.awaitCondition(fn, v1alpha2.ConditionRunning, metav1.ConditionTrue, v1alpha2.ReasonDeploymentReady)
	update(w, fn, func(fn *v1alpha2.Function) { fn.Spec.Env = []corev1.EnvVar{{Name: "A", Value: "b"}} })
	await(w, deployment, "the rest of the spec still counts", func(d *appsv1.Deployment) bool {
		for _, variable := range d.Spec.Template.Spec.Containers[0].Env {
			if variable.Name == "A" {
				return true
			}
		}
		return false
	})
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(fn), fn))
	require.Equal(t, commit(1).Commit, fn.Status.GitRepository.Commit)

	update(w, fn, func(fn *v1alpha2.Function) {
		fn.Spec.Source.GitRepository.Auth = &v1alpha2.RepositoryAuth{Type: v1alpha2.RepositoryAuthBasic, SecretName: "token"}
	})
	says := func(text string) {
		t.Helper()
		await(w, fn, "the condition reports: "+text, func(fn *v1alpha2.Function) bool {
			condition := meta.FindStatusCondition(fn.Status.Conditions, v1alpha2.ConditionConfigurationReady)
			return strings.Contains(condition.Message, text)
		})
	}
	says("Getting git authorization data failed: there is no Secret " + w.namespace + "/token. Create it")
	token := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "token"}, Data: map[string][]byte{"username": []byte("u")}}
	require.NoError(t, w.Create(t.Context(), token))
	says("while parsing git authorization secret: missing 'password'")
}

// tooManyRounds returns a key that takes 2,000 rounds of bcrypt to decrypt.
func tooManyRounds(t *testing.T) []byte {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	block, err := ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte("x"))
	require.NoError(t, err)
	bcrypt := bytes.Index(block.Bytes, []byte("\x00\x00\x00\x06bcrypt")) + 4 + 6
	rounds := block.Bytes[bcrypt+4+4+16:] // after the lengths of the options and of the salt, and the salt
	require.Equal(t, []byte{0, 0, 0, 16}, rounds[:4])
	copy(rounds, []byte{0, 0, 0x07, 0xD0})
	return pem.EncodeToMemory(block)
}

func refusesCostlyKey(w *fixture, _ *fakeRepositories) {
	t := w.t
	w.useRegistry(registrytest.Start(t))
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "costly"},
		Data:       map[string][]byte{"key": tooManyRounds(t), "password": []byte("x")},
	}
	require.NoError(t, w.Create(t.Context(), secret))
	fn := w.create(gitSource("ssh://git@example.com/shop.git"), func(fn *v1alpha2.Function) {
		fn.Spec.Source.GitRepository.Auth = &v1alpha2.RepositoryAuth{Type: v1alpha2.RepositoryAuthSSHKey, SecretName: "costly"}
	})
	condition := w.awaitCondition(fn, v1alpha2.ConditionConfigurationReady, metav1.ConditionFalse, v1alpha2.ReasonSourceUpdateFailed)
	require.Equal(t, "Getting git authorization data failed: while parsing git authorization secret: 'key' is not a usable private key: "+
		"it takes 2000 rounds of bcrypt to decrypt, and at most 128 are made. Encrypt it again by ssh-keygen -p -a 24. Correct Secret "+
		w.namespace+"/costly, or spec.source.gitRepository.auth", condition.Message)
}
