package images

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/registry"
	"github.com/rouse-run/rouse/internal/testing/registrytest"
)

// fixture is a collector with a real registry.
type fixture struct {
	t         *testing.T
	collector *Collector
	store     *registrytest.Registry
	kube      client.Client
	building  map[types.NamespacedName]bool
	excluded  []types.NamespacedName // Functions that did not build meanwhile
	// ended is called when a Function is excluded, to simulate a build that has just ended.
	ended func()
}

// Between stands for the queue of builds.
func (w *fixture) Between(_ context.Context, fn types.NamespacedName, do func() error) (bool, error) {
	if w.building[fn] {
		return false, nil
	}
	w.excluded = append(w.excluded, fn)
	if w.ended != nil {
		w.ended()
	}
	return true, do()
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
		Live: w.kube, Builds: w, Registerer: prometheus.NewRegistry(), Log: logr.Discard(),
		Registry:      NewResolver(w.kube, w.kube, RegistryOptions{ReleaseNamespace: "rouse-system", Secret: "rouse-registry"}, nil),
		RuntimeImages: []string{"example.org/runtime:v2"},
	}, options)
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

// has reports whether an image exists with all of its layers.
func (w *fixture) has(t *testing.T, reference string) bool {
	t.Helper()
	tag, err := name.NewTag(w.store.Host+"/"+reference, name.Insecure)
	require.NoError(t, err)
	found, err := remote.Image(tag)
	if err != nil {
		return false
	}
	require.NoError(t, validate.Image(found), "%s is incomplete", reference)
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

// create creates the Function price with an image in its status.
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

func TestOnlyUnusedImagesAreDeleted(t *testing.T) {
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
	w.push(t, old)

	require.NoError(t, w.collector.collect(t.Context()))
	for reference, stays := range map[string]bool{
		built: true, runs: true, ran: true, present: true, "somebody/tool:latest": true, old: false, last: false, past: false,
	} {
		require.Equal(t, stays, w.has(t, reference), reference)
	}
	require.ElementsMatch(t, []types.NamespacedName{{Namespace: "shop", Name: "price"}, {Namespace: "shop", Name: "gone"}}, w.excluded)
	require.NoError(t, w.collector.collect(t.Context()))
	require.Len(t, w.excluded, 2, "without unused images no build may be delayed")
}

func TestImagesOfABuildingFunctionStay(t *testing.T) {
	t.Parallel()
	w := newFixture(t, 0)
	w.building = map[types.NamespacedName]bool{{Namespace: "shop", Name: "price"}: true}
	w.push(t, price+":"+tag("old"))
	w.push(t, gone+":"+tag("last"))
	require.NoError(t, w.collector.collect(t.Context()))
	require.True(t, w.has(t, price+":"+tag("old")))
	require.False(t, w.has(t, gone+":"+tag("last")))
	w.building = nil
	require.NoError(t, w.collector.collect(t.Context()))
	require.False(t, w.has(t, price+":"+tag("old")))
}

// With thousands of images the others would wait for many minutes.
func TestGarbageOfOneNamespaceDoesNotDelayThatOfOthers(t *testing.T) {
	t.Parallel()
	w := newFixture(t, 0)
	hostile := registry.Tenant{Namespace: "a-hostile", UID: "1"}.Repository("f")
	made, err := random.Image(10, 1)
	require.NoError(t, err)
	for i := range 4 * batch {
		w.write(t, hostile+":"+tag(strconv.Itoa(i)), made)
	}
	w.push(t, price+":"+tag("old"))
	w.store.Requests()
	require.NoError(t, w.collector.collect(t.Context()))
	var deleted []string
	for _, request := range w.store.Requests() {
		if request.Method == http.MethodDelete {
			deleted = append(deleted, request.URI)
		}
	}
	require.Len(t, deleted, 4*batch+1)
	at := slices.IndexFunc(deleted, func(uri string) bool { return strings.Contains(uri, price) })
	require.LessOrEqual(t, at, batch, "it comes after one batch")
	for i, fn := range w.excluded {
		require.Equal(t, i == 1, fn.Namespace == "shop", "%v", w.excluded)
	}
}

func TestFailuresInOneNamespaceDoNotStopTheCollectionOfOthers(t *testing.T) {
	t.Parallel()
	w := newFixture(t, 0)
	hostile := registry.Tenant{Namespace: "a-hostile", UID: "1"}.Repository("f")
	w.push(t, hostile+":"+tag("1"))
	w.push(t, price+":"+tag("old"))
	w.store.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, hostile) {
			rw.WriteHeader(http.StatusInternalServerError)
			return true
		}
		return false
	})
	require.ErrorContains(t, w.collector.collect(t.Context()), "repository "+hostile)
	require.False(t, w.has(t, price+":"+tag("old")))
}

func TestAMovedTagStays(t *testing.T) {
	t.Parallel()
	w := newFixture(t, 0)
	reference := price + ":" + tag("old")
	w.push(t, reference)
	w.ended = func() { w.create(t, w.push(t, reference)) }
	require.NoError(t, w.collector.collect(t.Context()))
	require.True(t, w.has(t, reference))
}

func TestImageThatAnAwaitedBuildUsesAgainStays(t *testing.T) {
	t.Parallel()
	w := newFixture(t, 0)
	reference := price + ":" + tag("old")
	digest := w.push(t, reference)
	w.ended = func() { w.create(t, digest) }
	require.NoError(t, w.collector.collect(t.Context()))
	require.True(t, w.has(t, reference))
}

func TestAnImageStaysUntilItsBuildIsInTheStatus(t *testing.T) {
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
}

func TestAnUnusedImageStaysForItsGrace(t *testing.T) {
	t.Parallel()
	w := newFixture(t, time.Hour)
	reference := price + ":" + tag("old")
	w.push(t, reference)
	require.NoError(t, w.collector.collect(t.Context()))
	require.NoError(t, w.collector.collect(t.Context()))
	require.True(t, w.has(t, reference))
}

func TestAnEmptyRegistryIsCollected(t *testing.T) {
	t.Parallel()
	require.NoError(t, newFixture(t, 0).collector.collect(t.Context()))
}

var hex = strings.Repeat("0f", 32)

// tag returns a tag like that of a build.
func tag(of string) string { return buildplan.Tag(buildplan.Plan{Source: of}) }

func TestAnImageIsGarbageWhenItIsOursAndUnused(t *testing.T) {
	t.Parallel()
	price, fresh := registry.Tenant{Namespace: "shop", UID: "1"}.Repository("price"), registry.Tenant{Namespace: "shop", UID: "1"}.Repository("new")
	held := inventory{
		{price, "sha256:used"}:                          {tag("1")},
		{price, "sha256:old"}:                           {tag("0")},
		{price, "sha256:again"}:                         {tag("0") + "-0123abcd"},
		{price, "sha256:hand"}:                          {tag("2"), "keep"},
		{price, "sha256:junk"}:                          {"latest"},
		{fresh, "sha256:just"}:                          {tag("1")},
		{"gone-function", "sha256:lost"}:                {tag("1")},
		{"team/tool", "sha256:foreign"}:                 {tag("1")},
		{"mytool", "sha256:foreign"}:                    {"latest"},
		{"rouse-base/ghcr.io/nodejs22", "sha256:now"}:   {"sha256-0000-" + hex, "v2-" + hex},
		{"rouse-base/ghcr.io/nodejs22", "sha256:arm"}:   {"v2-" + hex},
		{"rouse-base/ghcr.io/nodejs22", "sha256:old"}:   {"sha256-1111-" + hex, "v1-" + hex},
		{"rouse-base/ghcr.io/nodejs22", "sha256:moved"}: {"sha256-2222-" + hex},
		{"rouse-base/own.io/pinned", "sha256:pin"}:      {"sha256-abcd-" + hex},
		{"rouse-base/own.io/runs", "sha256:run"}:        {"v1-" + hex},
	}
	found := held.unused(needs{
		digests:  map[string]bool{"sha256:used": true, "sha256:run": true},
		bases:    map[string]bool{"v2": true, "sha256:abcd": true},
		building: map[types.NamespacedName]bool{{Namespace: "shop", Name: "new"}: true},
	})
	require.ElementsMatch(t, []image{
		{price, "sha256:old"},
		{price, "sha256:again"},
		{price, "sha256:hand"},
		{price, "sha256:junk"},
		{"gone-function", "sha256:lost"},
		{"rouse-base/ghcr.io/nodejs22", "sha256:old"},
		{"rouse-base/ghcr.io/nodejs22", "sha256:moved"},
	}, found)
}

func TestAnImageExpiresAfterItsGraceWithoutABreak(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a, b := image{price, "sha256:a"}, image{price, "sha256:b"}
	both := inventory{a: {"1"}, b: {"2"}}
	known, nobody := newUnusedSince(), needs{}
	look := func(used needs, after time.Duration) []image {
		known.begin()
		defer known.end()
		return known.expired(both, used, now.Add(after), time.Hour)
	}
	require.Empty(t, look(nobody, 0))
	require.Empty(t, look(needs{digests: map[string]bool{"sha256:b": true}}, 30*time.Minute))
	require.Equal(t, []image{a}, look(nobody, time.Hour))
	require.ElementsMatch(t, []image{a, b}, look(nobody, 2*time.Hour))
	both = inventory{}
	look(nobody, 3*time.Hour)
	require.Empty(t, known.since, "deleted images must be forgotten")
	used, _ := known.shares.Stats()
	require.Zero(t, used)
}

func TestImagesOfOneNamespaceFillNoMoreThanTheirShareOfTheMemory(t *testing.T) {
	t.Parallel()
	known := newUnusedSince()
	many := inventory{}
	for i := range mostUnused {
		many[image{price, strconv.Itoa(i)}] = nil
	}
	known.expired(many, needs{}, time.Now(), 0)
	require.Len(t, known.since, mostUnused/2)
	other := image{registry.Tenant{Namespace: "other", UID: "1"}.Repository("f"), "sha256:a"}
	require.Equal(t, []image{other}, known.expired(inventory{other: nil}, needs{}, time.Now(), 0))
}

func TestImageReferencesAreParsed(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("a", 64)
	for reference, want := range map[string][2]string{
		"registry:5000/shop/price:v1":           {"v1", ""},
		"registry:5000/shop/price":              {"latest", ""},
		"registry:5000/shop-price@" + digest:    {digest, digest},
		"registry:5000/shop-price:v1@" + digest: {digest, digest},
		"price":                                 {"latest", ""},
	} {
		require.Equal(t, want, [2]string{identifierOf(reference), digestOf(reference)}, reference)
	}
}
