package registryproxy

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/registry"
	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/internal/testing/registrytest"
)

var key = []byte("only for tests")

// fixture is the real registry behind the proxy.
type fixture struct {
	host     string
	registry *registrytest.Registry
	proxy    *Proxy
}

func start(t *testing.T, change func(*Options)) fixture {
	t.Helper()
	return startWith(t, change, nil)
}

func startWith(t *testing.T, change func(*Options), bound func(*limits)) fixture {
	t.Helper()
	behind := registrytest.Start(t)
	options := DefaultOptions()
	options.Upstream = "http://" + behind.Host
	if change != nil {
		change(&options)
	}
	require.NoError(t, flags.Validate(&options))
	proxy, err := New(Deps{Username: "rouse", Password: "of the controller", Key: key, Registry: prometheus.NewRegistry(), Log: logr.Discard()}, options)
	require.NoError(t, err)
	if bound != nil {
		l := defaultLimits()
		bound(&l)
		proxy.budgets = newBudgets(options, l)
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return fixture{host: strings.TrimPrefix(server.URL, "http://"), registry: behind, proxy: proxy}
}

// as is how a tenant reaches the registry.
func as(t *testing.T, tenant registry.Tenant) []remote.Option {
	t.Helper()
	account := tenant.Account()
	return options(t, authn.AuthConfig{Username: account, Password: registry.Password(key, account)})
}

func options(t *testing.T, login authn.AuthConfig) []remote.Option {
	t.Helper()
	return []remote.Option{remote.WithAuth(authn.FromConfig(login)), remote.WithContext(t.Context()), remote.WithRetryPredicate(func(error) bool { return false })}
}

func (f fixture) reference(t *testing.T, reference string) name.Reference {
	t.Helper()
	parsed, err := name.ParseReference(f.host+"/"+reference, name.Insecure)
	require.NoError(t, err)
	return parsed
}

func image(t *testing.T) (v1.Image, string) {
	t.Helper()
	made, err := random.Image(2000, 2)
	require.NoError(t, err)
	digest, err := made.Digest()
	require.NoError(t, err)
	return made, digest.String()
}

func requireStatus(t *testing.T, want int, err error) {
	t.Helper()
	var answer *transport.Error
	require.ErrorAs(t, err, &answer)
	require.Equal(t, want, answer.StatusCode)
}

func TestTenantsShareARegistryAndNothingInIt(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	shop, thief := registry.Tenant{Namespace: "shop", UID: "1"}, registry.Tenant{Namespace: "shop-2", UID: "2"}
	secret, digest := image(t)
	theirs := f.reference(t, shop.Repository("price")+":1")
	require.NoError(t, remote.Write(theirs, secret, as(t, shop)...))
	pulled, err := remote.Image(f.reference(t, shop.Repository("price")+"@"+digest), as(t, shop)...)
	require.NoError(t, err)
	_, err = pulled.Layers()
	require.NoError(t, err)

	_, err = remote.Get(theirs, as(t, thief)...)
	requireStatus(t, http.StatusForbidden, err)
	_, err = remote.List(theirs.Context(), as(t, thief)...)
	requireStatus(t, http.StatusForbidden, err)
	other, _ := image(t)
	requireStatus(t, http.StatusForbidden, remote.Write(theirs, other, as(t, thief)...))
	requireStatus(t, http.StatusForbidden, remote.Delete(f.reference(t, shop.Repository("price")+"@"+digest), as(t, shop)...))
	_, err = remote.Catalog(t.Context(), theirs.Context().Registry, as(t, shop)...)
	requireStatus(t, http.StatusForbidden, err)
	for _, login := range []authn.AuthConfig{{}, {Username: shop.Account(), Password: "guessed"}, {Username: "rouse", Password: "guessed"}, {Username: "rouse"}} {
		_, err = remote.Get(theirs, options(t, login)...)
		requireStatus(t, http.StatusUnauthorized, err)
	}

	admin := options(t, authn.AuthConfig{Username: "rouse", Password: "of the controller"})
	repositories, err := remote.Catalog(t.Context(), theirs.Context().Registry, admin...)
	require.NoError(t, err)
	require.Equal(t, []string{shop.Repository("price")}, repositories)
	require.NoError(t, remote.Delete(f.reference(t, shop.Repository("price")+"@"+digest), admin...))
}

// A layer that is mounted is not uploaded, so the client need not have it: who may mount, may read.
func TestALayerOfAnotherTenantIsNotMounted(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	shop, thief := registry.Tenant{Namespace: "shop", UID: "1"}, registry.Tenant{Namespace: "thief", UID: "2"}
	secret, _ := image(t)
	require.NoError(t, remote.Write(f.reference(t, shop.Repository("price")+":1"), secret, as(t, shop)...))
	layers, err := secret.Layers()
	require.NoError(t, err)
	digest, err := layers[0].Digest()
	require.NoError(t, err)

	account := thief.Account()
	for _, query := range []string{"mount=" + digest.String() + "&from=" + shop.Repository("price"), "mount=" + digest.String()} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			"http://"+f.host+"/v2/"+thief.Repository("mine")+"/blobs/uploads/?"+query, nil)
		require.NoError(t, err)
		request.SetBasicAuth(account, registry.Password(key, account))
		response, err := loopback.Default.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusAccepted, response.StatusCode, "an upload begins; 201 would be a mount")
	}
	layer, err := remote.Layer(f.reference(t, thief.Repository("mine")).Context().Digest(digest.String()), as(t, thief)...)
	require.NoError(t, err)
	_, err = layer.Compressed()
	requireStatus(t, http.StatusNotFound, err)
}

func TestACopyOfABaseIsSharedAndCannotBeReplaced(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	first, second := registry.Tenant{Namespace: "first", UID: "1"}, registry.Tenant{Namespace: "second", UID: "2"}
	base, digest := image(t)
	copied := "rouse-base/example.org/runtime:" + buildplan.CopyTag("v1", digest)
	require.NoError(t, remote.Write(f.reference(t, copied), base, as(t, first)...))
	_, err := remote.Get(f.reference(t, "rouse-base/example.org/runtime@"+digest), as(t, second)...)
	require.NoError(t, err)

	evil, _ := image(t)
	for _, to := range []string{copied, "rouse-base/example.org/runtime:v1", "rouse-base/example.org/runtime:latest"} {
		requireStatus(t, http.StatusForbidden, remote.Write(f.reference(t, to), evil, as(t, second)...))
	}
	requireStatus(t, http.StatusForbidden, remote.Delete(f.reference(t, "rouse-base/example.org/runtime@"+digest), as(t, second)...))
	found, err := remote.Get(f.reference(t, copied), as(t, second)...)
	require.NoError(t, err)
	require.Equal(t, digest, found.Digest.String())
}

func TestATenantThatSendsTooMuchIsStoppedAloneAndInTime(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options) { o.BytesPerHour = 1 << 20 })
	greedy, modest := registry.Tenant{Namespace: "greedy", UID: "1"}, registry.Tenant{Namespace: "modest", UID: "2"}
	large, err := random.Image(2_000_000, 1)
	require.NoError(t, err)
	requireStatus(t, http.StatusTooManyRequests, remote.Write(f.reference(t, greedy.Repository("junk")+":1"), large, as(t, greedy)...))
	small, _ := image(t)
	require.NoError(t, remote.Write(f.reference(t, modest.Repository("price")+":1"), small, as(t, modest)...))
}

func TestRequestsOfATenantAtATimeAreBounded(t *testing.T) {
	t.Parallel()
	f := startWith(t, func(o *Options) { o.Requests = 2 }, func(l *limits) { l.turnTimeout = time.Millisecond })
	hanging := make(chan struct{})
	arrived := make(chan struct{}, 1)
	f.registry.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") {
			arrived <- struct{}{}
			<-hanging
		}
		return false
	})
	slow, other := registry.Tenant{Namespace: "slow", UID: "1"}, registry.Tenant{Namespace: "other", UID: "2"}
	ask := func(ctx context.Context, tenant registry.Tenant, path string) int {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.host+"/v2/"+tenant.Repository("a")+path, nil)
		if err != nil {
			return 0
		}
		request.SetBasicAuth(tenant.Account(), registry.Password(key, tenant.Account()))
		response, err := loopback.Default.Do(request)
		if err != nil {
			return 0
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	ended := make(chan int, 1)
	go func() { ended <- ask(t.Context(), slow, "/blobs/"+blob) }()
	<-arrived
	require.Equal(t, http.StatusTooManyRequests, ask(t.Context(), slow, "/tags/list"))
	require.Equal(t, http.StatusNotFound, ask(t.Context(), other, "/tags/list"))
	close(hanging)
	require.Equal(t, http.StatusNotFound, <-ended)
	require.Equal(t, http.StatusNotFound, ask(t.Context(), slow, "/tags/list"))
}

func TestOptionsNameTheFlagThatIsWrong(t *testing.T) {
	t.Parallel()
	o := Options{Upstream: "nowhere"}
	err := flags.Validate(&o)
	for _, flag := range []string{"--upstream", "--bytes-per-hour", "--images-per-hour", "--max-requests"} {
		require.ErrorContains(t, err, flag)
	}
}

// noted is a store that hears of requests.
type noted struct {
	mu   sync.Mutex
	uris []string
}

func (n *noted) Note(r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.uris = append(n.uris, r.Method+" "+r.URL.RequestURI())
}

// What it does not hear of, it could remove while the registry relies on it.
func TestTheStoreHearsOfEachRequestThatReachesTheRegistry(t *testing.T) {
	t.Parallel()
	f, store := start(t, nil), &noted{}
	f.proxy.deps.Store = store
	shop := registry.Tenant{Namespace: "shop", UID: "1"}
	made, digest := image(t)
	f.registry.Requests()
	require.NoError(t, remote.Write(f.reference(t, shop.Repository("price")+":1"), made, as(t, shop)...))
	_, err := remote.Get(f.reference(t, shop.Repository("price")+"@"+digest), as(t, shop)...)
	require.NoError(t, err)
	admin := options(t, authn.AuthConfig{Username: "rouse", Password: "of the controller"})
	require.NoError(t, remote.Delete(f.reference(t, shop.Repository("price")+":1"), admin...))
	var reached []string
	for _, request := range f.registry.Requests() {
		reached = append(reached, request.Method+" "+request.URI)
	}
	store.mu.Lock()
	defer store.mu.Unlock()
	require.Greater(t, len(reached), 8)
	require.ElementsMatch(t, reached, store.uris)
}
