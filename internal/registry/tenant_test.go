package registry

import (
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/stretchr/testify/require"
)

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

func TestRepositoriesOfOthersAreOfNoFunction(t *testing.T) {
	t.Parallel()
	for _, repository := range []string{"", "shop-price", "my_tool", "a_0a1b2c3d_", "a_0a1b2c3d_b_c", "x/a_0a1b2c3d_b", "rouse-base/example.org/runtime"} {
		_, _, ok := FunctionOf(repository)
		require.False(t, ok, repository)
	}
}

func TestAccountsOfTenantsAreToldFromOthers(t *testing.T) {
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
