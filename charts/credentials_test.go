package charts

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/rouse-run/rouse/controller/credentials"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

const madeByAJob = "credentials that a Job makes"

// made returns the Secrets that the Job of an installation writes, given its arguments.
func made(t *testing.T, all objects) map[string]*corev1.Secret {
	t.Helper()
	jobs := slices.DeleteFunc(of[*batchv1.Job](all), func(j *batchv1.Job) bool { return !strings.HasPrefix(j.Name, "rouse-credentials-") })
	require.Len(t, jobs, 1)
	o := credentials.DefaultOptions()
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.Bind(fs, o)
	fs.ParseErrorsAllowlist.UnknownFlags = true // flags of every process
	require.NoError(t, fs.Parse(jobs[0].Spec.Template.Spec.Containers[0].Args))
	require.NoError(t, flags.Validate(o))
	kube := fake.NewClientBuilder().Build()
	require.NoError(t, credentials.Make(t.Context(), kube, o, logr.Discard()))
	written := &corev1.SecretList{}
	require.NoError(t, kube.List(t.Context(), written))
	secrets := map[string]*corev1.Secret{}
	for _, secret := range written.Items {
		secrets[secret.Namespace+"/"+secret.Name] = &secret
	}
	return secrets
}

func TestJobGeneratesTheSameSecretsAsTheChart(t *testing.T) {
	t.Parallel()
	byJob := made(t, renderedInstallations(t)[madeByAJob])
	byChart := map[string]*corev1.Secret{}
	for _, secret := range of[*corev1.Secret](render(t, values{"nats.users.enabled=true", "scaler.tls.enabled=true"})) {
		byChart[secret.Namespace+"/"+secret.Name] = secret
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(byChart)), slices.Collect(maps.Keys(byJob)))
	for name, secret := range byChart {
		require.ElementsMatch(t, slices.Collect(maps.Keys(secret.StringData)), slices.Collect(maps.Keys(byJob[name].Data)), name)
		require.Equal(t, secret.Labels["serverless.kyma-project.io/remote-registry"], byJob[name].Labels["serverless.kyma-project.io/remote-registry"])
		for _, key := range []string{"username", "isInternal", "pushRegAddr", "pullRegAddr"} {
			require.Equal(t, secret.StringData[key], string(byJob[name].Data[key]), "%s of %s", key, name)
		}
	}
}

func TestRenderingWithoutClusterAccessIsReproducible(t *testing.T) {
	t.Parallel()
	set := values{"credentials.madeBy=job", "nats.users.enabled=true", "scaler.tls.enabled=true"}
	one, err := renderChart(t.Context(), set)
	require.NoError(t, err)
	two, err := renderChart(t.Context(), set)
	require.NoError(t, err)
	require.Equal(t, one, two)
	require.Empty(t, of[*corev1.Secret](one))
}

func TestTheComponentsLogInWithThePasswordsOfAJob(t *testing.T) {
	t.Parallel()
	all := renderedInstallations(t)[madeByAJob]
	secret := made(t, all)[namespace+"/rouse-nats"]
	server := natstest.Start(t, natstest.WithAuthorizationFile(t, natsConfig(t, all, string(secret.Data["passwords.conf"]))))
	secret.StringData = map[string]string{}
	for user, password := range secret.Data {
		secret.StringData[user] = string(password)
	}
	require.NoError(t, login(t, server, secret, "controller").EnsureStreams(t.Context(), broker.DefaultStreamOptions()))
}

func TestAnotherVersionsJobHasAnotherName(t *testing.T) {
	t.Parallel()
	name := func(tag string) string {
		for _, job := range of[*batchv1.Job](render(t, values{"credentials.madeBy=job", "image.tag=" + tag})) {
			if strings.HasPrefix(job.Name, "rouse-credentials-") {
				return job.Name
			}
		}
		return ""
	}
	require.NotEqual(t, name("v1"), name("v2"), "what a Job does cannot change")
}
