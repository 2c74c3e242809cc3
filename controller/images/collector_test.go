package images

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/registryconfig"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/registry"
	"github.com/rouse-run/rouse/internal/testing/registrytest"
)

// fixture is a collector beside a real registry.
type fixture struct {
	t         *testing.T
	collector *Collector
	store     *registrytest.Registry
	kube      client.Client
	sweeps    int
	held      bool
	holds     int
	// ended is called when builds are held: what a build did just before.
	ended func()
	// sweeping is a sweep of an earlier process.
	sweeping bool
}

// Sweep does what the Job does.
func (w *fixture) Sweep(context.Context) error {
	w.sweeps++
	require.True(w.t, w.held, "swept while builds may run")
	w.store.Sweep(w.t)
	return nil
}

// Running stands for a list of the Jobs.
func (w *fixture) Running(context.Context) (bool, error) { return w.sweeping, nil }

// Hold stands for the queue of builds.
func (w *fixture) Hold(context.Context) (func(), error) {
	w.held = true
	w.holds++
	if w.ended != nil {
		w.ended()
	}
	return func() { w.held = false }, nil
}

func newFixture(t *testing.T, grace time.Duration, change ...func(*corev1.Secret)) *fixture {
	t.Helper()
	w := &fixture{t: t, store: registrytest.Start(t)}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "rouse-system", Name: "rouse-registry"},
		Data: map[string][]byte{
			"isInternal": []byte("true"), "username": []byte("u"), "password": []byte("p"),
			"pushRegAddr": []byte(w.store.Host), "pullRegAddr": []byte("localhost:32137"),
		},
	}
	for _, apply := range change {
		apply(secret)
	}
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	w.kube = fake.NewClientBuilder().WithScheme(scheme).WithObjects(secret).WithStatusSubresource(&v1alpha2.Function{}).Build()
	options := DefaultOptions()
	options.Grace = grace
	w.collector = New(Deps{
		Live: w.kube, Namespace: "rouse-system", Builds: w, Registerer: prometheus.NewRegistry(), Log: logr.Discard(),
		Registry:      registryconfig.NewResolver(w.kube, w.kube, registryconfig.Options{ReleaseNamespace: "rouse-system", Secret: "rouse-registry"}, nil),
		RuntimeImages: []string{"example.org/runtime:v2"},
	}, options)
	w.collector.sweeper = w
	return w
}

// push puts an image into the registry and returns its digest.
func (w *fixture) push(t *testing.T, reference string) string {
	t.Helper()
	picture, err := random.Image(100, 1)
	require.NoError(t, err)
	w.write(t, reference, picture)
	digest, err := picture.Digest()
	require.NoError(t, err)
	return digest.String()
}

func (w *fixture) write(t *testing.T, reference string, picture v1.Image) {
	t.Helper()
	tag, err := name.NewTag(w.store.Host+"/"+reference, name.Insecure)
	require.NoError(t, err)
	require.NoError(t, remote.Write(tag, picture))
}

// layer is the first one of an image.
func (w *fixture) layer(t *testing.T, reference string) name.Digest {
	t.Helper()
	tag, err := name.NewTag(w.store.Host+"/"+reference, name.Insecure)
	require.NoError(t, err)
	picture, err := remote.Image(tag)
	require.NoError(t, err)
	layers, err := picture.Layers()
	require.NoError(t, err)
	digest, err := layers[0].Digest()
	require.NoError(t, err)
	return tag.Digest(digest.String())
}

// keeps reports whether the registry still has the content of a layer.
func (w *fixture) keeps(t *testing.T, layer name.Digest) bool {
	t.Helper()
	found, err := remote.Layer(layer)
	require.NoError(t, err)
	content, err := found.Compressed()
	if err != nil {
		return false
	}
	require.NoError(t, content.Close())
	return true
}

// has reports whether an image is there with all of its layers.
func (w *fixture) has(t *testing.T, reference string) bool {
	t.Helper()
	tag, err := name.NewTag(w.store.Host+"/"+reference, name.Insecure)
	require.NoError(t, err)
	found, err := remote.Image(tag)
	if err != nil {
		return false
	}
	require.NoError(t, validate.Image(found), "%s has lost a part", reference)
	return true
}

func pods(digest string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "function", Image: "localhost:32137/x@" + digest}}}}
}

var (
	price = registry.Tenant{Namespace: "shop", UID: "1"}.Repository("price")
	gone  = registry.Tenant{Namespace: "shop", UID: "1"}.Repository("gone")
)

var ours = metav1.ObjectMeta{Namespace: "shop", Name: "price", Labels: map[string]string{v1alpha2.LabelManagedBy: v1alpha2.ManagedBy}}

// create makes the Function price, whose status names an image.
func (w *fixture) create(t *testing.T, digest string) *v1alpha2.Function {
	t.Helper()
	fn := &v1alpha2.Function{ObjectMeta: ours}
	require.NoError(t, w.kube.Create(t.Context(), fn))
	w.name(t, fn, digest)
	return fn
}

func (w *fixture) name(t *testing.T, fn *v1alpha2.Function, digest string) {
	t.Helper()
	fn.Status.Build = &v1alpha2.BuildStatus{Tag: tag("1"), Image: "localhost:32137/" + price + "@" + digest}
	require.NoError(t, w.kube.Status().Update(t.Context(), fn))
}

func TestOnlyUnusedImagesAreDeletedAndTheirSpaceIsFreedWhileBuildsAreHeld(t *testing.T) {
	t.Parallel()
	w := newFixture(t, 0)
	built, runs, ran, old, last := price+":"+tag("built"), price+":"+tag("runs"), price+":"+tag("ran"), price+":"+tag("old"), gone+":"+tag("last")
	present, past := "rouse-base/example.org/runtime:"+buildplan.CopyTag("v2", "sha256:"+hex), "rouse-base/example.org/runtime:"+buildplan.CopyTag("v1", "sha256:"+hex)
	w.create(t, w.push(t, built))
	require.NoError(t, w.kube.Create(t.Context(), &appsv1.Deployment{ObjectMeta: ours, Spec: appsv1.DeploymentSpec{Template: pods(w.push(t, runs))}}))
	require.NoError(t, w.kube.Create(t.Context(), &appsv1.ReplicaSet{ObjectMeta: ours, Spec: appsv1.ReplicaSetSpec{Template: pods(w.push(t, ran))}}))
	w.push(t, "somebody/tool:latest")
	w.push(t, past)
	w.push(t, present)
	w.push(t, last)
	lost := w.push(t, old)
	layer := w.layer(t, old)

	require.NoError(t, w.collector.collect(t.Context()))
	for reference, stays := range map[string]bool{
		built: true, runs: true, ran: true, present: true, "somebody/tool:latest": true, old: false, last: false, past: false,
	} {
		require.Equal(t, stays, w.has(t, reference), reference)
	}
	require.Equal(t, 1, w.sweeps)
	require.False(t, w.held, "builds go on")
	require.False(t, w.keeps(t, layer), "the space of %s is free", lost)

	require.NoError(t, w.collector.collect(t.Context()))
	require.Equal(t, 1, w.sweeps, "where nothing was deleted nothing is swept")
	require.Equal(t, 1, w.holds)
}

func TestWhatWasSweptCanBePushedAgain(t *testing.T) {
	t.Parallel()
	w := newFixture(t, 0)
	picture, err := random.Image(1000, 3)
	require.NoError(t, err)
	reference := price + ":" + tag("old")
	w.write(t, reference, picture)
	require.NoError(t, w.collector.collect(t.Context()))
	require.False(t, w.has(t, reference))
	w.write(t, reference, picture)
	require.True(t, w.has(t, reference), "the registry must not believe that it still has the layers")
}

func TestAnImageThatIsUsedAgainByTheBuildThatWasWaitedForStays(t *testing.T) {
	t.Parallel()
	w := newFixture(t, 0)
	reference := price + ":" + tag("old")
	digest := w.push(t, reference)
	w.ended = func() { w.create(t, digest) }
	require.NoError(t, w.collector.collect(t.Context()))
	require.True(t, w.has(t, reference))
}

func TestAnImageOfAFunctionWhoseBuildIsNotNotedYetStays(t *testing.T) {
	t.Parallel()
	w := newFixture(t, 0)
	reference := price + ":" + tag("new")
	fn := w.create(t, w.push(t, price+":"+tag("old")))
	w.push(t, reference)
	meta.SetStatusCondition(&fn.Status.Conditions, metav1.Condition{
		Type: v1alpha2.ConditionBuildReady, Status: metav1.ConditionUnknown, Reason: v1alpha2.ReasonJobRunning,
	})
	require.NoError(t, w.kube.Status().Update(t.Context(), fn))
	require.NoError(t, w.collector.collect(t.Context()))
	require.True(t, w.has(t, reference))
}

func TestAnExternalRegistryIsNotCollected(t *testing.T) {
	t.Parallel()
	w := newFixture(t, 0, func(secret *corev1.Secret) {
		secret.Data = map[string][]byte{"registryAddress": secret.Data["pushRegAddr"], "insecure": []byte("true")}
	})
	reference := price + ":" + tag("old")
	w.push(t, reference)
	require.NoError(t, w.collector.collect(t.Context()))
	require.True(t, w.has(t, reference))
	require.Zero(t, w.sweeps)
}

func TestAnUnusedImageStaysForItsGrace(t *testing.T) {
	t.Parallel()
	w := newFixture(t, time.Hour)
	reference := price + ":" + tag("old")
	w.push(t, reference)
	require.NoError(t, w.collector.collect(t.Context()))
	require.NoError(t, w.collector.collect(t.Context()))
	require.True(t, w.has(t, reference))
	require.Equal(t, 1, w.sweeps, "once, for what an earlier process may have left")
}

func TestARegistryToWhichNothingWasEverPushedIsNotSwept(t *testing.T) {
	t.Parallel()
	w := newFixture(t, 0)
	require.NoError(t, w.collector.collect(t.Context()))
	require.Zero(t, w.sweeps, "the registry's collector fails there")
}

func TestBuildsAreHeldForASweepThatAnEarlierProcessBegan(t *testing.T) {
	t.Parallel()
	w := newFixture(t, time.Hour)
	w.push(t, price+":"+tag("old"))
	require.NoError(t, w.collector.resume(t.Context()))
	require.Zero(t, w.holds)
	w.sweeping = true
	require.NoError(t, w.collector.resume(t.Context()))
	require.Equal(t, 1, w.holds)
	require.Equal(t, 1, w.sweeps)
	require.False(t, w.held)
}
