package registry

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/internal/testing/registrytest"
)

const password = "correct horse"

func push(t *testing.T, at Registry, repository, tag string, size int64) (v1.Hash, error) {
	t.Helper()
	client, err := New(at)
	require.NoError(t, err)
	image, err := random.Image(size, 1)
	require.NoError(t, err)
	digest, err := image.Digest()
	require.NoError(t, err)
	reference, err := name.NewTag(at.Host + "/" + repository + ":" + tag)
	require.NoError(t, err)
	return digest, remote.Write(reference, image, append(client.options, remote.WithContext(t.Context()))...)
}

func TestARegistryIsAskedListedAndCleared(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		options []registrytest.Option
		at      func(*registrytest.Registry) Registry
	}{
		"over plain HTTP": {at: func(r *registrytest.Registry) Registry {
			return Registry{Host: r.Host, Insecure: true}
		}},
		"below a path": {at: func(r *registrytest.Registry) Registry {
			return Registry{Host: r.Host + "/team", Insecure: true}
		}},
		"with a password, over TLS": {
			options: []registrytest.Option{registrytest.WithUser("builder", password), registrytest.WithTLS()},
			at: func(r *registrytest.Registry) Registry {
				return Registry{Host: r.Host, Username: "builder", Password: password, CA: r.CA}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := tc.at(registrytest.Start(t, tc.options...))
			client, err := New(at)
			require.NoError(t, err)
			_, found, err := client.Digest(t.Context(), "shop-price", "1")
			require.NoError(t, err)
			require.False(t, found)

			want, err := push(t, at, "shop-price", "1", 10)
			require.NoError(t, err)
			digest, found, err := client.Digest(t.Context(), "shop-price", "1")
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, want.String(), digest)

			repositories, err := client.Repositories(t.Context())
			require.NoError(t, err)
			require.Equal(t, []string{"shop-price"}, repositories)
			tags, err := client.Tags(t.Context(), "shop-price")
			require.NoError(t, err)
			require.Equal(t, []string{"1"}, tags)

			for range 2 {
				require.NoError(t, client.DeleteTag(t.Context(), "shop-price", "1"))
			}
			_, found, err = client.Digest(t.Context(), "shop-price", "1")
			require.NoError(t, err)
			require.False(t, found)
			tags, err = client.Tags(t.Context(), "shop-price")
			require.NoError(t, err)
			require.Empty(t, tags)
		})
	}
}

func TestAnErrorHasACause(t *testing.T) {
	t.Parallel()
	answer := func(status int) func(*registrytest.Registry) {
		return func(r *registrytest.Registry) {
			r.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
				w.WriteHeader(status)
				return true
			})
		}
	}
	for name, tc := range map[string]struct {
		options []registrytest.Option
		at      Registry
		prepare func(*registrytest.Registry)
		want    error
		says    string
	}{
		"no credentials": {
			options: []registrytest.Option{registrytest.WithUser("builder", password)}, at: Registry{Insecure: true}, want: ErrForbidden,
		},
		"wrong credentials": {
			options: []registrytest.Option{registrytest.WithUser("builder", password)},
			at:      Registry{Insecure: true, Username: "builder", Password: "another secret"}, want: ErrForbidden,
		},
		"an unknown authority": {
			options: []registrytest.Option{registrytest.WithTLS()}, want: ErrUntrusted, says: "certificate signed by unknown authority",
		},
		"plain HTTP that is not allowed": {want: ErrUnavailable, says: "plain HTTP is not used"},
		"forbidden":                      {at: Registry{Insecure: true}, prepare: answer(http.StatusForbidden), want: ErrForbidden},
		"out of order":                   {at: Registry{Insecure: true}, prepare: answer(http.StatusBadGateway), want: ErrUnavailable},
		"too many requests":              {at: Registry{Insecure: true}, prepare: answer(http.StatusTooManyRequests), want: ErrUnavailable},
		"full":                           {at: Registry{Insecure: true}, prepare: answer(http.StatusInsufficientStorage), want: ErrFull},
		"full at the end of an upload":   {at: Registry{Insecure: true}, prepare: answer(http.StatusRequestedRangeNotSatisfiable), want: ErrFull},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := registrytest.Start(t, tc.options...)
			if tc.prepare != nil {
				tc.prepare(server)
			}
			at := tc.at
			at.Host = server.Host
			client, err := New(at)
			require.NoError(t, err)
			_, _, digestErr := client.Digest(t.Context(), "shop-price", "1")
			_, tagsErr := client.Tags(t.Context(), "shop-price")
			_, repositoriesErr := client.Repositories(t.Context())
			for _, err := range []error{digestErr, tagsErr, repositoriesErr, client.DeleteTag(t.Context(), "shop-price", "1")} {
				require.ErrorIs(t, err, tc.want)
				require.ErrorContains(t, err, tc.says)
				require.NotContains(t, err.Error(), "secret")
			}
		})
	}
}

func TestUnreachableRegistryIsUnavailable(t *testing.T) {
	t.Parallel()
	for name, host := range map[string]string{
		"no listener":  loopback.Address(t),
		"no such name": "registry.invalid:5000",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, insecure := range []bool{true, false} {
				client, err := New(Registry{Host: host, Insecure: insecure})
				require.NoError(t, err)
				_, _, err = client.Digest(t.Context(), "shop-price", "1")
				require.ErrorIs(t, err, ErrUnavailable)
				require.NotContains(t, err.Error(), "/v2/", "URLs of tries are noise")
			}
		})
	}
}

func TestCredentialsNeverTravelUnencryptedUnlessTheRegistryIsInsecure(t *testing.T) {
	t.Parallel()
	server := registrytest.Start(t)
	client, err := New(Registry{Host: server.Host, Username: "builder", Password: password})
	require.NoError(t, err)
	_, _, err = client.Digest(t.Context(), "shop-price", "1")
	require.ErrorIs(t, err, ErrUnavailable)
	require.Empty(t, server.Requests())
}

func TestFullDiskIsDistinguishedFromOtherFailures(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int64{
		"much too large":                   4 << 20,
		"only the last bytes do not fit":   1<<20 + 1,
		"less than a page is missing":      1<<20 - 2000,
		"the manifest does not fit either": 1<<20 - 9000,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := registrytest.Start(t, registrytest.WithSpace(1<<20))
			_, err := push(t, Registry{Host: server.Host, Insecure: true}, "shop-price", "1", size)
			require.ErrorIs(t, Explain(err), ErrFull)
		})
	}
}

func TestCancelledCallReturnsTheContextsError(t *testing.T) {
	t.Parallel()
	server := registrytest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	server.Intercept(func(_ http.ResponseWriter, request *http.Request) bool {
		cancel()
		<-request.Context().Done()
		return true
	})
	client, err := New(Registry{Host: server.Host, Insecure: true})
	require.NoError(t, err)
	_, _, err = client.Digest(ctx, "shop-price", "1")
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, ErrUnavailable)
}

func TestInvalidRegistryIsRejectedAtOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		at   Registry
		says string
	}{
		"no address":       {Registry{}, "the registry's address"},
		"a whole URL":      {Registry{Host: "https://registry.example.org"}, "the registry's address"},
		"CA without a PEM": {Registry{Host: "registry.example.org", CA: []byte("x")}, "no certificate in PEM form"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := New(tc.at)
			require.ErrorContains(t, err, tc.says)
		})
	}
}

func TestARegistryIsPrintedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	at := Registry{Host: "registry.example.org", Username: "builder", Password: password}
	for _, form := range []string{"%v", "%+v", "%#v", "%s"} {
		require.NotContains(t, fmt.Sprintf(form, at), password)
		require.NotContains(t, fmt.Sprintf(form, &at), password)
	}
}

func TestRepositoriesOfTenantsAreNeverTheSame(t *testing.T) {
	t.Parallel()
	tenants := []Tenant{{"team", "1"}, {"team", "2"}, {"team-prod", "1"}, {"team-prod-price", "1"}}
	seen := map[string]string{}
	for _, tenant := range tenants {
		for _, function := range []string{"price", "prod-price", "p", "prod-price-2"} {
			repository := tenant.Repository(function)
			require.Empty(t, seen[repository], "%s of %v is taken", repository, tenant)
			seen[repository] = function
			namespace, of, ok := FunctionOf(repository)
			require.True(t, ok)
			require.Equal(t, []string{tenant.Namespace, function}, []string{namespace, of})
			_, err := name.NewRepository("registry.example.com/"+repository, name.StrictValidation)
			require.NoError(t, err)
		}
	}
}

func TestForeignRepositoriesBelongToNoFunction(t *testing.T) {
	t.Parallel()
	for _, repository := range []string{"", "shop-price", "my_tool", "a_0a1b2c3d_", "a_0a1b2c3d_b_c", "x/a_0a1b2c3d_b", "rouse-base/example.org/runtime"} {
		_, _, ok := FunctionOf(repository)
		require.False(t, ok, repository)
	}
}

func TestTenantAccountsAreDistinguishedFromOthers(t *testing.T) {
	t.Parallel()
	for account, want := range map[string]bool{
		Tenant{"team", "1f0c"}.Account(): true, "rouse": false, "rouse-0a1b2c3d": false, "_0a1b2c3d": false, "team_0a1b2c3": false,
		"team_0a1b2c3d4e": false, "team_zzzzzzzz": false, "team_0a1b2c3d_x": false, "": false,
	} {
		require.Equal(t, want, IsAccount(account), account)
	}
}

func TestAPasswordFitsOneAccountAndOneKey(t *testing.T) {
	t.Parallel()
	key, other := []byte("a key of at least 14 bytes"), []byte("another key of at least 14")
	own := Password(key, "team_0a1b2c3d")
	require.Equal(t, own, Password(key, "team_0a1b2c3d"))
	require.NotEqual(t, own, Password(key, "team_0a1b2c3e"))
	require.NotEqual(t, own, Password(other, "team_0a1b2c3d"))
	require.Len(t, own, 43)
}
