package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/registry"
	"github.com/rouse-run/rouse/internal/testing/registrytest"
)

const secretWord = "open sesame"

func secret(namespace, name string, values map[string]string) *corev1.Secret {
	built := &corev1.Secret{Data: map[string][]byte{}}
	built.Namespace, built.Name = namespace, name
	built.Labels = map[string]string{v1alpha2.LabelRemoteRegistry: v1alpha2.RemoteRegistryConfig}
	for key, value := range values {
		built.Data[key] = []byte(value)
	}
	return built
}

func external(address string) map[string]string {
	return map[string]string{"username": "builder", "password": secretWord, "serverAddress": address, "registryAddress": address}
}

func TestASecretDescribesARegistry(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		values     map[string]string
		push, pull string
		insecure   bool
		auths      []string
	}{
		"an external one": {
			values: external("registry.example.com:5000"), push: "registry.example.com:5000", pull: "registry.example.com:5000",
			auths: []string{"registry.example.com:5000"},
		},
		"one with a path": {
			values: external("ghcr.io/team/"), push: "ghcr.io/team", pull: "ghcr.io/team", auths: []string{"ghcr.io", "ghcr.io/team", "ghcr.io/team/"},
		},
		"Docker Hub in Kyma's form": {
			values: map[string]string{
				"username": "u", "password": "p", "serverAddress": "https://index.docker.io/v1/", "registryAddress": "docker.io/u",
			},
			push: "docker.io/u", pull: "docker.io/u", auths: []string{"docker.io/u", "https://index.docker.io/v1/"},
		},
		"Docker Hub by its other name": {
			values: external("index.docker.io/u"), push: "index.docker.io/u", pull: "index.docker.io/u",
			auths: []string{"https://index.docker.io/v1/", "index.docker.io/u"},
		},
		"one for everybody, without TLS": {
			values: map[string]string{"registryAddress": "k3d-registry:5000", "insecure": "true"},
			push:   "k3d-registry:5000", pull: "k3d-registry:5000", insecure: true,
		},
		"the internal one": {
			values: map[string]string{
				"username": "u", "password": "p", "isInternal": "true",
				"pushRegAddr": "rouse-registry.rouse-system.svc.cluster.local:5000", "pullRegAddr": "localhost:32137",
			},
			push: "rouse-registry.rouse-system.svc.cluster.local:5000", pull: "localhost:32137", insecure: true,
			auths: []string{"localhost:32137", "rouse-registry.rouse-system.svc.cluster.local:5000"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := parse(secret("shop", "x", tc.values), nil, nil)
			require.NoError(t, err)
			require.Equal(t, tc.push, found.Push)
			require.Equal(t, tc.pull, found.Pull)
			require.Equal(t, tc.insecure, found.Insecure)
			require.Equal(t, name == "the internal one", found.Internal)
			require.Equal(t, tc.push+"/shop-price:1", found.Target("shop-price", "1"))
			require.Equal(t, tc.pull+"/shop-price@sha256:1", found.Image("shop-price", "sha256:1"))
			require.True(t, found.Has(found.Image("shop-price", "sha256:1")))
			require.False(t, found.Has("elsewhere.example.com/shop-price@sha256:1"))
			var config struct{ Auths map[string]any }
			login, err := found.DockerConfig(registry.Tenant{Namespace: "shop", UID: "1"})
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(login, &config))
			var auths []string
			for host := range config.Auths {
				auths = append(auths, host)
			}
			require.ElementsMatch(t, tc.auths, auths)
			require.NotContains(t, fmt.Sprint(found), secretWord)
		})
	}
}

// The controller's own account may access everything in the chart's registry, so no tenant gets it.
func TestEachTenantGetsAnAccountOfItsOwnInTheChartsRegistry(t *testing.T) {
	t.Parallel()
	found, err := parse(secret("rouse-system", "rouse-registry", map[string]string{
		"username": "rouse", "password": secretWord, "accountKey": "only for tests", "isInternal": "true",
		"pushRegAddr": "rouse-registry:5000", "pullRegAddr": "localhost:32137",
	}), nil, nil)
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, tenant := range []registry.Tenant{{Namespace: "shop", UID: "1"}, {Namespace: "shop", UID: "2"}, {Namespace: "shop-2", UID: "1"}} {
		login, err := found.DockerConfig(tenant)
		require.NoError(t, err)
		require.NotContains(t, string(login), secretWord)
		require.NotContains(t, string(login), "only for tests")
		var config struct {
			Auths map[string]struct{ Username, Password string }
		}
		require.NoError(t, json.Unmarshal(login, &config))
		for _, address := range []string{"rouse-registry:5000", "localhost:32137"} {
			require.Equal(t, tenant.Account(), config.Auths[address].Username)
			require.Equal(t, registry.Password([]byte("only for tests"), tenant.Account()), config.Auths[address].Password)
		}
		require.False(t, seen[string(login)])
		seen[string(login)] = true
	}
}

func TestAnInvalidRegistrySecretNamesItsRemedy(t *testing.T) {
	t.Parallel()
	with := func(key, value string) map[string]string {
		values := external("registry.example.com")
		values[key] = value
		return values
	}
	for name, tc := range map[string]struct {
		values map[string]string
		says   []string
	}{
		"no address":          {with("registryAddress", ""), []string{"the key registryAddress is missing", "Set it to"}},
		"no internal address": {with("isInternal", "true"), []string{"the key pushRegAddr is missing"}},
		"only a password":     {with("username", " "), []string{"only one of the keys username and password is set"}},
		"a URL":               {with("registryAddress", "https://registry.example.com"), []string{"registryAddress is a whole URL", "insecure"}},
		"no host":             {with("registryAddress", "not a host!"), []string{"registryAddress is not the address of a registry", "host[:port][/path]"}},
		"an invalid switch":   {with("insecure", "yes"), []string{`insecure is "yes"`, "true or false"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(secret("shop", "serverless-registry-config", tc.values), nil, nil)
			_, ok := errors.AsType[*InvalidError](err)
			require.True(t, ok, "%v", err)
			require.ErrorContains(t, err, "Secret shop/serverless-registry-config")
			for _, says := range tc.says {
				require.ErrorContains(t, err, says)
			}
			require.NotContains(t, err.Error(), secretWord)
		})
	}
}

func TestTheNearestSecretWins(t *testing.T) {
	t.Parallel()
	own := secret("shop", v1alpha2.RegistrySecret, external("own.example.com"))
	forAll := secret("rouse-system", v1alpha2.RegistrySecret, external("all.example.com"))
	standard := secret("rouse-system", "standard", external("standard.example.com"))
	unlabelled := secret("shop", v1alpha2.RegistrySecret, external("unlabelled.example.com"))
	unlabelled.Labels = nil
	elsewhere := secret("elsewhere", v1alpha2.RegistrySecret, external("elsewhere.example.com"))
	for name, tc := range map[string]struct {
		objects []client.Object
		secret  string
		want    string
	}{
		"the namespace's own Secret":          {[]client.Object{own, forAll, standard}, "standard", "own.example.com"},
		"then that for all":                   {[]client.Object{elsewhere, forAll, standard}, "standard", "all.example.com"},
		"then the default":                    {[]client.Object{elsewhere, standard}, "standard", "standard.example.com"},
		"one that is not meant so is ignored": {[]client.Object{unlabelled, standard}, "standard", "standard.example.com"},
		"no Secret":                           {[]client.Object{elsewhere}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tc.secret, tc.objects...)
			found, err := b.For(t.Context(), "shop")
			require.NoError(t, err)
			if tc.want == "" {
				require.Nil(t, found)
				return
			}
			require.Equal(t, tc.want, found.Push)
		})
	}
	_, err := newBench(t, "standard").For(t.Context(), "shop")
	require.ErrorContains(t, err, "Secret rouse-system/standard")
	require.ErrorContains(t, err, "does not exist")
}

type bench struct {
	*Resolver
	client client.Client
	reads  int
}

func newBench(t *testing.T, name string, objects ...client.Object) *bench {
	t.Helper()
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	b := &bench{}
	for i := range objects {
		objects[i] = objects[i].DeepCopyObject().(client.Object)
	}
	b.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	live := interceptor.NewClient(b.client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, object client.Object, o ...client.GetOption) error {
			b.reads++
			return inner.Get(ctx, key, object, o...)
		},
	})
	b.Resolver = NewResolver(b.client, live, RegistryOptions{ReleaseNamespace: "rouse-system", Secret: name}, nil)
	return b
}

func TestASecretIsReadAgainOnlyAfterAChange(t *testing.T) {
	t.Parallel()
	own := secret("shop", v1alpha2.RegistrySecret, external("own.example.com"))
	b := newBench(t, "", own)
	for range 3 {
		_, err := b.For(t.Context(), "shop")
		require.NoError(t, err)
	}
	require.Equal(t, 1, b.reads)

	require.NoError(t, b.client.Get(t.Context(), client.ObjectKeyFromObject(own), own))
	own.Data["registryAddress"] = []byte("other.example.com")
	require.NoError(t, b.client.Update(t.Context(), own))
	found, err := b.For(t.Context(), "shop")
	require.NoError(t, err)
	require.Equal(t, "other.example.com", found.Push)
	require.Equal(t, 2, b.reads)

	require.NoError(t, b.client.Delete(t.Context(), own))
	found, err = b.For(t.Context(), "shop")
	require.NoError(t, err)
	require.Nil(t, found)
	require.Empty(t, b.read)
}

func TestFunctionsOfARegistrySecret(t *testing.T) {
	t.Parallel()
	r := NewResolver(nil, nil, RegistryOptions{ReleaseNamespace: "rouse-system", Secret: "standard"}, nil)
	for name, want := range map[string][2]bool{
		"rouse-system/serverless-registry-config": {true, true},
		"rouse-system/standard":                   {true, false},
		"shop/serverless-registry-config":         {false, true},
		"shop/standard":                           {false, false},
	} {
		key := client.ObjectKey{}
		_, err := fmt.Sscanf(name, "rouse-system/%s", &key.Name)
		if key.Namespace = "rouse-system"; err != nil {
			key.Namespace = "shop"
			_, err = fmt.Sscanf(name, "shop/%s", &key.Name)
		}
		require.NoError(t, err)
		all, namespace := r.Concerns(key)
		require.Equal(t, want, [2]bool{all, namespace}, name)
	}
}

func TestAnUnavailableRegistryIsQueriedOnceForAllFunctions(t *testing.T) {
	t.Parallel()
	server := registrytest.Start(t)
	server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusBadGateway)
		return true
	})
	at, err := parse(secret("shop", "x", map[string]string{"registryAddress": server.Host, "insecure": "true"}), nil, nil)
	require.NoError(t, err)
	_, first := at.Holds(t.Context(), "shop-price", "1")
	require.ErrorIs(t, first, registry.ErrUnavailable)
	server.Requests()
	require.False(t, at.until.IsZero())
	at.until = time.Now().Add(time.Hour)
	_, err = at.Holds(t.Context(), "shop-other", "1")
	require.ErrorIs(t, err, registry.ErrUnavailable)
	require.Empty(t, server.Requests())

	server.Intercept(nil)
	at.until = time.Now().Add(-time.Second)
	found, err := at.Holds(t.Context(), "shop-price", "1")
	require.NoError(t, err)
	require.False(t, found)
}

func TestOptions(t *testing.T) {
	t.Parallel()
	valid := DefaultRegistryOptions()
	require.NoError(t, flags.Validate(&valid))
	wrong := RegistryOptions{ReleaseNamespace: "", Secret: "A"}
	err := flags.Validate(&wrong)
	require.ErrorContains(t, err, "--release-namespace")
	require.ErrorContains(t, err, "--registry-secret")
}

func TestTenantsRegistryIsGuardedAndTheOperatorsIsNot(t *testing.T) {
	t.Parallel()
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	here := strings.Replace(server.Listener.Addr().String(), "127.0.0.1", "localhost", 1)
	at := map[string]string{"registryAddress": here, "insecure": "true"}
	ask := func(b *bench) error {
		found, err := b.For(t.Context(), "shop")
		require.NoError(t, err)
		_, err = found.Holds(t.Context(), "shop-price", "1")
		return err
	}
	require.ErrorIs(t, ask(newBench(t, "", secret("shop", v1alpha2.RegistrySecret, at))), registry.ErrDenied)
	require.Zero(t, connections.Load())
	require.NoError(t, ask(newBench(t, "", secret("rouse-system", v1alpha2.RegistrySecret, at))))
	require.NoError(t, ask(newBench(t, "standard", secret("rouse-system", "standard", at))))
	require.NotZero(t, connections.Load())
}

func TestTenantsRegistryAtADeniedAddressIsInvalidWithoutARequest(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:5000", "169.254.169.254", "169.254.169.254:80/latest"} {
		_, err := newBench(t, "", secret("shop", v1alpha2.RegistrySecret, external(address))).For(t.Context(), "shop")
		_, invalid := errors.AsType[*InvalidError](err)
		require.True(t, invalid, "%v", err)
		require.ErrorContains(t, err, dialguard.ErrDenied.Error())
	}
}
