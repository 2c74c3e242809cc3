package conversion

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/api/serverless/v1alpha1"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

var cluster = envtest.New(envtest.WithScheme(v1alpha1.AddToScheme))

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

const patient = 2 * time.Minute

// serve installs v1alpha1 as the chart does, with the webhook in this process.
func serve(t *testing.T) *envtest.Environment {
	t.Helper()
	env := cluster.Environment(t)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	pair := loopback.Make(t, time.Time{}, "localhost")
	dir := t.TempDir()
	options := Options{Address: listener.Addr().String(), CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
	require.NoError(t, flags.Validate(&options))
	require.NoError(t, os.WriteFile(options.CertFile, pair.Certificate, 0o600))
	require.NoError(t, os.WriteFile(options.KeyFile, pair.Key, 0o600))
	certificate, err := daemon.NewCertificate("the conversion webhook", options.CertFile, options.KeyFile, logr.Discard())
	require.NoError(t, err)
	webhook := &server{certificate: certificate, handler: newHandler(t), listener: listener, log: logr.Discard()}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 2)
	go func() { done <- webhook.Start(ctx) }()

	install(t, env, "https://"+strings.Replace(options.Address, "127.0.0.1", "localhost", 1)+path, pair.Certificate)
	manager, err := ctrl.NewManager(env.Config, ctrl.Options{Scheme: env.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard()})
	require.NoError(t, err)
	require.NoError(t, SetupGitRepositories(manager))
	go func() { done <- manager.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
		require.NoError(t, <-done)
	})
	return env
}

func install(t *testing.T, env *envtest.Environment, url string, ca []byte) {
	t.Helper()
	read := func(name string) *apiextensionsv1.CustomResourceDefinition {
		content, err := os.ReadFile("../../charts/rouse/files/old-crds/serverless.kyma-project.io_" + name + ".yaml")
		require.NoError(t, err)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, yaml.Unmarshal(content, crd))
		return crd
	}
	require.NoError(t, client.IgnoreAlreadyExists(env.Client.Create(t.Context(), read("gitrepositories"))))
	older := read("functions").Spec.Versions[0]
	older.Storage = false
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Name: "functions.serverless.kyma-project.io"}, crd))
	crd.Spec.Versions = append(crd.Spec.Versions[:1], older)
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
		ConversionReviewVersions: []string{"v1"}, ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: ca},
	}}
	require.NoError(t, env.Client.Update(t.Context(), crd))
	require.Eventually(t, func() bool {
		return env.Client.List(t.Context(), &v1alpha1.FunctionList{}) == nil && env.Client.List(t.Context(), &v1alpha1.GitRepositoryList{}) == nil
	}, patient, 100*time.Millisecond)
}

func TestV1alpha1IsServedByARealAPIServer(t *testing.T) {
	env := serve(t)
	c, ctx := env.Client, t.Context()
	meta := func(ns, name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: ns, Name: name} }

	t.Run("a Function of v1alpha1 is readable as v1alpha2, and back", func(t *testing.T) {
		ns := env.Namespace(t)
		old := &v1alpha1.Function{ObjectMeta: meta(ns, "inline"), Spec: v1alpha1.FunctionSpec{Source: "code", Runtime: "nodejs14", MaxReplicas: new(int32(5))}}
		written := old.DeepCopy()
		require.NoError(t, c.Create(ctx, written))
		fn := &v1alpha2.Function{}
		require.NoError(t, c.Get(ctx, client.ObjectKeyFromObject(old), fn))
		require.Equal(t, v1alpha2.RuntimeNodeJS22, fn.Spec.Runtime)
		require.Equal(t, "code", fn.Spec.Source.Inline.Source)
		require.Equal(t, int32(5), *fn.Spec.ScaleConfig.MaxReplicas)
		again := &v1alpha1.Function{}
		require.NoError(t, c.Get(ctx, client.ObjectKeyFromObject(old), again))
		require.Equal(t, old.Spec, again.Spec, "applying it again must cause no drift")
	})

	t.Run("a client of v1alpha1 keeps unknown fields and the status", func(t *testing.T) {
		ns := env.Namespace(t)
		fn := &v1alpha2.Function{ObjectMeta: meta(ns, "new"), Spec: v1alpha2.FunctionSpec{
			Runtime: v1alpha2.RuntimeNodeJS24, Source: v1alpha2.Source{Inline: &v1alpha2.InlineSource{Source: "code"}}, Annotations: map[string]string{"a": "b"}, Replicas: new(int32(3)),
		}}
		require.NoError(t, c.Create(ctx, fn))
		fn.Status.Build = &v1alpha2.BuildStatus{Tag: "a", Image: "example.com/a@sha256:b"}
		require.NoError(t, c.Status().Update(ctx, fn))
		old := &v1alpha1.Function{}
		require.NoError(t, c.Get(ctx, client.ObjectKeyFromObject(fn), old))
		old.Spec.Source = "other"
		old.Status.V1alpha2.Build.Image = "example.com/evil"
		require.NoError(t, c.Update(ctx, old))
		after := &v1alpha2.Function{}
		require.NoError(t, c.Get(ctx, client.ObjectKeyFromObject(fn), after))
		want := fn.Spec.DeepCopy()
		want.Source.Inline.Source = "other"
		require.Equal(t, *want, after.Spec)
		require.Equal(t, "example.com/a@sha256:b", after.Status.Build.Image, "a status is written by who may write it")
	})

	t.Run("the order of a Function and its GitRepository does not matter", func(t *testing.T) {
		ns := env.Namespace(t)
		old := &v1alpha1.Function{ObjectMeta: meta(ns, "git"), Spec: v1alpha1.FunctionSpec{
			Type: "git", Source: "repo", Runtime: "nodejs22", Repository: v1alpha1.Repository{BaseDir: "/", Reference: "main"},
		}}
		spec := old.Spec
		require.NoError(t, c.Create(ctx, old))
		repository := &v1alpha1.GitRepository{ObjectMeta: meta(ns, "repo"), Spec: v1alpha1.GitRepositorySpec{URL: "https://example.com/a.git"}}
		require.NoError(t, c.Create(ctx, repository))
		hasURL := func(url string) {
			require.Eventually(t, func() bool {
				fn := &v1alpha2.Function{}
				require.NoError(t, c.Get(ctx, client.ObjectKeyFromObject(old), fn))
				return fn.Spec.Source.GitRepository.URL == url
			}, patient, 50*time.Millisecond)
		}
		hasURL("https://example.com/a.git")
		repository.Spec.URL = "https://example.com/b.git"
		require.NoError(t, c.Update(ctx, repository))
		hasURL("https://example.com/b.git")
		require.NoError(t, c.Delete(ctx, repository))
		require.NoError(t, c.Get(ctx, client.ObjectKeyFromObject(old), old))
		require.Equal(t, spec, old.Spec)
		old.Labels = map[string]string{"a": "b"}
		require.NoError(t, c.Update(ctx, old), "without its GitRepository")
		hasURL("https://example.com/b.git")
	})

	t.Run("server-side apply of both versions", func(t *testing.T) {
		ns := env.Namespace(t)
		apply := func(text, owner string) error {
			return c.Patch(ctx, object(t, strings.ReplaceAll(text, "NS", ns)), client.Apply, client.FieldOwner(owner), client.ForceOwnership) //nolint:staticcheck // the text is what a user applies
		}
		const older = "apiVersion: serverless.kyma-project.io/v1alpha1\nkind: Function\nmetadata: {name: ssa, namespace: NS}\nspec: {source: code, runtime: nodejs16, maxReplicas: 4}\n"
		require.NoError(t, apply(older, "flux"))
		require.NoError(t, apply("apiVersion: serverless.kyma-project.io/v1alpha2\nkind: Function\nmetadata: {name: ssa, namespace: NS}\nspec: {annotations: {a: b}}\n", "other"))
		before := &v1alpha2.Function{}
		require.NoError(t, c.Get(ctx, client.ObjectKey{Namespace: ns, Name: "ssa"}, before))
		require.NoError(t, apply(older, "flux"))
		after := &v1alpha2.Function{}
		require.NoError(t, c.Get(ctx, client.ObjectKey{Namespace: ns, Name: "ssa"}, after))
		require.Equal(t, map[string]string{"a": "b"}, after.Spec.Annotations)
		require.Equal(t, before.ResourceVersion, after.ResourceVersion, "an unchanged object must not be written")
	})

	t.Run("an object that is invalid in v1alpha2 is rejected", func(t *testing.T) {
		ns := env.Namespace(t)
		err := c.Create(ctx, &v1alpha1.Function{ObjectMeta: meta(ns, "bad"), Spec: v1alpha1.FunctionSpec{
			Source: "code", Runtime: "nodejs22", Labels: map[string]string{"serverless.kyma-project.io/uuid": "a"},
		}})
		require.ErrorContains(t, err, "Labels has key starting with serverless.kyma-project.io/ which is not allowed")
		require.NoError(t, c.List(ctx, &v1alpha1.FunctionList{}), "the others are listed")
	})
}

func object(t *testing.T, text string) client.Object {
	t.Helper()
	content := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal(bytes.TrimSpace([]byte(text)), &content.Object))
	return content
}
