package registryproxy

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/registry"
)

const uuid = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"

var (
	blob   = "sha256:" + strings.Repeat("0f", 32)
	team   = registry.Tenant{Namespace: "team", UID: "1"}
	own    = team.Repository("price")
	other  = registry.Tenant{Namespace: "team-prod", UID: "1"}.Repository("price")
	later  = registry.Tenant{Namespace: "team", UID: "2"}.Repository("price")
	base   = "rouse-base/example.org_5000/team/runtime"
	copied = buildplan.CopyTag("v1", blob)
)

func TestATenantReadsAndWritesItsOwnRepositoriesAndNoOthers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		method, path string
		want         bool
	}{
		"logs in":                         {http.MethodGet, "/v2/", true},
		"pulls its image":                 {http.MethodGet, "/v2/" + own + "/manifests/" + blob, true},
		"pulls a layer of it":             {http.MethodGet, "/v2/" + own + "/blobs/" + blob, true},
		"looks for a tag":                 {http.MethodHead, "/v2/" + own + "/manifests/1", true},
		"lists its tags":                  {http.MethodGet, "/v2/" + own + "/tags/list", true},
		"begins an upload":                {http.MethodPost, "/v2/" + own + "/blobs/uploads/", true},
		"goes on with it":                 {http.MethodPatch, "/v2/" + own + "/blobs/uploads/" + uuid + "?_state=x", true},
		"ends it":                         {http.MethodPut, "/v2/" + own + "/blobs/uploads/" + uuid + "?digest=" + blob, true},
		"gives it up":                     {http.MethodDelete, "/v2/" + own + "/blobs/uploads/" + uuid, true},
		"pushes a manifest":               {http.MethodPut, "/v2/" + own + "/manifests/1", true},
		"pulls a copy of a base":          {http.MethodGet, "/v2/" + base + "/manifests/" + blob, true},
		"adds a layer to a copy":          {http.MethodPost, "/v2/" + base + "/blobs/uploads/", true},
		"deletes its image":               {http.MethodDelete, "/v2/" + own + "/manifests/" + blob, false},
		"deletes a layer":                 {http.MethodDelete, "/v2/" + own + "/blobs/" + blob, false},
		"deletes a copy of a base":        {http.MethodDelete, "/v2/" + base + "/manifests/" + blob, false},
		"names a copy as it likes":        {http.MethodPut, "/v2/" + base + "/manifests/latest", false},
		"lists all repositories":          {http.MethodGet, "/v2/_catalog", false},
		"pulls another's image":           {http.MethodGet, "/v2/" + other + "/manifests/" + blob, false},
		"lists another's tags":            {http.MethodGet, "/v2/" + other + "/tags/list", false},
		"pushes for another":              {http.MethodPut, "/v2/" + other + "/manifests/1", false},
		"uploads for another":             {http.MethodPost, "/v2/" + other + "/blobs/uploads/", false},
		"pulls of a later namespace":      {http.MethodGet, "/v2/" + later + "/manifests/" + blob, false},
		"reads another's by an escape":    {http.MethodGet, "/v2/" + own + "%2f..%2f" + other + "/manifests/" + blob, false},
		"reads another's by dots":         {http.MethodGet, "/v2/" + own + "/../" + other + "/manifests/" + blob, false},
		"reads another's by base's dots":  {http.MethodGet, "/v2/rouse-base/../" + other + "/manifests/" + blob, false},
		"has a level below its own":       {http.MethodGet, "/v2/" + own + "/" + other + "/manifests/" + blob, false},
		"reads with two slashes":          {http.MethodGet, "/v2//" + other + "/manifests/" + blob, false},
		"reads what is not specified":     {http.MethodGet, "/debug/vars", false},
		"reads the root":                  {http.MethodGet, "/", false},
		"writes by reading's path":        {http.MethodPost, "/v2/" + own + "/tags/list", false},
		"ends an upload that has no name": {http.MethodPut, "/v2/" + own + "/blobs/uploads/", false},
		"lists uploads":                   {http.MethodGet, "/v2/" + other + "/blobs/uploads/" + uuid, false},
		"hides a repository in another":   {http.MethodGet, "/v2/" + other + "/manifests/x/" + own + "/manifests/" + blob, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u, err := url.ParseRequestURI(tc.path)
			require.NoError(t, err)
			got := Decide(Account{Name: team.Account()}, tc.method, u)
			require.Equal(t, tc.want, got.Allowed)
			require.Empty(t, got.Digest)
			require.True(t, Decide(Account{Name: "rouse", Admin: true}, tc.method, u).Allowed)
		})
	}
}

func TestACopyOfABaseIsWhatItsTagSays(t *testing.T) {
	t.Parallel()
	u, err := url.ParseRequestURI("/v2/" + base + "/manifests/" + copied)
	require.NoError(t, err)
	require.Equal(t, Access{Allowed: true, Kind: "manifests", Digest: blob}, Decide(Account{Name: team.Account()}, http.MethodPut, u))
}

func TestLayersAreMountedFromWhereTheAccountMayReadOnly(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"mount=" + blob + "&from=" + base:                      "from=" + url.QueryEscape(base) + "&mount=" + url.QueryEscape(blob),
		"mount=" + blob + "&from=" + own:                       "from=" + own + "&mount=" + url.QueryEscape(blob),
		"mount=" + blob + "&from=" + other:                     "",
		"mount=" + blob:                                        "",
		"mount=" + blob + "&from=" + own + "&from=" + other:    "",
		"mount=" + blob + "&from=" + other + "&digest=" + uuid: "digest=" + uuid,
	} {
		u, err := url.ParseRequestURI("/v2/" + own + "/blobs/uploads/?" + query)
		require.NoError(t, err)
		require.Equal(t, Access{Allowed: true, Kind: "uploads", Query: want}, Decide(Account{Name: team.Account()}, http.MethodPost, u), query)
	}
}

// Whatever is asked, an account never touches a path that does not begin with its own repositories or rouse-base.
func FuzzDecide(f *testing.F) {
	f.Add("GET", "/v2/"+own+"/manifests/1")
	f.Add("PUT", "/v2/"+base+"/manifests/"+copied)
	f.Add("POST", "/v2/"+other+"/blobs/uploads/?from="+own)
	f.Fuzz(func(t *testing.T, method, path string) {
		u, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		if !Decide(Account{Name: team.Account()}, method, u).Allowed || u.Path == "/v2/" || u.Path == "/v2" {
			return
		}
		ours := strings.HasPrefix(u.Path, "/v2/"+registry.RepositoryPrefix(team.Account())) || strings.HasPrefix(u.Path, "/v2/rouse-base/")
		if !ours || strings.Contains(u.Path, "..") || strings.Contains(u.Path, "//") || method == http.MethodDelete && !strings.Contains(u.Path, "/uploads/") {
			t.Errorf("%s %s is allowed", method, path)
		}
	})
}
