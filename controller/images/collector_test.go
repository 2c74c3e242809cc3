package images

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/registry"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/testing/registrytest"
)

// world is a collector beside a real registry.
type world struct {
	collector *Collector
	store     *registrytest.Registry
	kube      client.Client
	sweeps    int
	held      bool
}

// Sweep stands for the Job.
func (w *world) Sweep(context.Context) error {
	w.sweeps++
	if !w.held {
		panic("swept while builds may run")
	}
	return nil
}

// Hold stands for the queue of builds.
func (w *world) Hold(context.Context) (func(), error) {
	w.held = true
	return func() { w.held = false }, nil
}

func newWorld(t *testing.T, grace time.Duration) *world {
	t.Helper()
	w := &world{store: registrytest.Start(t)}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "rouse-system", Name: "rouse-registry"},
		Data: map[string][]byte{
			"isInternal": []byte("true"), "username": []byte("u"), "password": []byte("p"),
			"pushRegAddr": []byte(w.store.Host), "pullRegAddr": []byte("localhost:32137"),
		},
	}
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	w.kube = fake.NewClientBuilder().WithScheme(scheme).WithObjects(secret).WithStatusSubresource(&v1alpha2.Function{}).Build()
	options := DefaultOptions()
	options.Grace = grace
	w.collector = New(Deps{
		Live: w.kube, Namespace: "rouse-system", Builds: w, Registerer: prometheus.NewRegistry(), Log: logr.Discard(),
		Registry:      registry.NewResolver(w.kube, w.kube, registry.Options{ReleaseNamespace: "rouse-system", Secret: "rouse-registry"}, nil),
		RuntimeImages: []string{"example.org/runtime:v2"},
	}, options)
	w.collector.sweeper = w
	return w
}

// push puts an image into the registry and returns its digest.
func (w *world) push(t *testing.T, reference string) string {
	t.Helper()
	image, err := random.Image(100, 1)
	require.NoError(t, err)
	tag, err := name.NewTag(w.store.Host+"/"+reference, name.Insecure)
	require.NoError(t, err)
	require.NoError(t, remote.Write(tag, image))
	digest, err := image.Digest()
	require.NoError(t, err)
	return digest.String()
}

func (w *world) has(t *testing.T, reference string) bool {
	t.Helper()
	tag, err := name.NewTag(w.store.Host+"/"+reference, name.Insecure)
	require.NoError(t, err)
	_, err = remote.Head(tag)
	return err == nil
}

func pods(digest string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "function", Image: "localhost:32137/x@" + digest}}}}
}

func TestOnlyImagesThatNobodyUsesAreDeletedAndTheirSpaceIsFreedWhileBuildsAreHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "price", Labels: map[string]string{v1alpha2.LabelManagedBy: v1alpha2.ManagedBy}}
	fn := &v1alpha2.Function{ObjectMeta: meta}
	require.NoError(t, w.kube.Create(t.Context(), fn))
	fn.Status.Build = &v1alpha2.BuildStatus{Tag: "built", Image: "localhost:32137/shop-price@" + w.push(t, "shop-price:built")}
	require.NoError(t, w.kube.Status().Update(t.Context(), fn))
	require.NoError(t, w.kube.Create(t.Context(), &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Template: pods(w.push(t, "shop-price:runs"))}}))
	require.NoError(t, w.kube.Create(t.Context(), &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Template: pods(w.push(t, "shop-price:ran"))}}))
	w.push(t, "shop-price:old")
	w.push(t, "shop-gone:last")
	w.push(t, "rouse-base/runtime:v1")
	w.push(t, "rouse-base/runtime:v2")

	require.NoError(t, w.collector.collect(t.Context()))
	for reference, stays := range map[string]bool{
		"shop-price:built": true, "shop-price:runs": true, "shop-price:ran": true, "rouse-base/runtime:v2": true,
		"shop-price:old": false, "shop-gone:last": false, "rouse-base/runtime:v1": false,
	} {
		require.Equal(t, stays, w.has(t, reference), reference)
	}
	require.Equal(t, 1, w.sweeps)
	require.False(t, w.held, "builds go on")

	require.NoError(t, w.collector.collect(t.Context()))
	require.Equal(t, 1, w.sweeps, "where nothing was deleted nothing is swept")
}

func TestAnUnusedImageStaysForItsGrace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Hour)
	w.push(t, "shop-price:old")
	require.NoError(t, w.collector.collect(t.Context()))
	require.NoError(t, w.collector.collect(t.Context()))
	require.True(t, w.has(t, "shop-price:old"))
	require.Zero(t, w.sweeps)
}
