package apirule

import (
	"testing"

	"github.com/stretchr/testify/require"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
)

func routes(t *testing.T, rules ...v2.Rule) []Route {
	t.Helper()
	var all []Route
	for i := range rules {
		route, err := NewRoute(&rules[i])
		require.NoError(t, err)
		all = append(all, route)
	}
	return all
}

func ruleFor(path string, methods ...v2.Method) v2.Rule { return v2.Rule{Path: path, Methods: methods} }

func TestRequestFindsTheFirstRuleWithItsPathAndMethod(t *testing.T) {
	t.Parallel()
	asymmetric := routes(t, ruleFor("/anything/{**}", "GET"), ruleFor("/anything/put", "PUT"))
	ordered := routes(t, ruleFor("/a/b", "GET"), ruleFor("/a/{*}", "GET"), ruleFor("/*", "GET", "DELETE"))
	shared := routes(t, ruleFor("/anything/{*}/one", "POST"), ruleFor("/anything/{**}", "GET", "POST"))
	split := routes(t, ruleFor("/anything/{*}/one", "POST"), ruleFor("/anything/{**}", "GET"), ruleFor("/anything/{**}", "POST"))
	whole := routes(t, ruleFor("/", "POST"), ruleFor("/{**}", "DELETE"), ruleFor("/*", "GET", "POST", "DELETE"))
	tests := map[string]struct {
		routes []Route
		method v2.Method
		path   string
		rule   int
		answer Answer
	}{
		"a wrong method for every rule":                       {asymmetric, "PUT", "/anything", 0, NotFound},
		"a method of another path":                            {asymmetric, "POST", "/anything/put", 0, NotFound},
		"a method of a later rule":                            {asymmetric, "PUT", "/anything/put", 1, Found},
		"a path of two rules":                                 {ordered, "GET", "/a/b", 0, Found},
		"a path of a general rule":                            {ordered, "GET", "/a/c", 1, Found},
		"a path of the last rule":                             {ordered, "GET", "/c", 2, Found},
		"a path that an earlier rule with other methods took": {ordered, "DELETE", "/a/b", 2, Excluded},
		"a method that the earlier rule lacks":                {shared, "GET", "/anything/x/one", 1, Excluded},
		"a method that the earlier rule has":                  {shared, "POST", "/anything/x/one", 0, Found},
		"a path beside the earlier rule's":                    {shared, "GET", "/anything/x/two", 1, Found},
		"a rule split by method":                              {split, "GET", "/anything/x/one", 1, Found},
		"earlier rules for the whole host":                    {whole, "GET", "/", 2, Found},
		"a method that no rule may have":                      {ordered, "FETCH", "/a/b", 0, NotFound},
		"a method in small letters":                           {ordered, "get", "/a/b", 0, NotFound},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rule, answer := Find(tc.routes, tc.method, tc.path)
			require.Equal(t, tc.answer, answer)
			require.Equal(t, tc.rule, rule)
		})
	}
}

func TestFindAllocatesNothing(t *testing.T) {
	all := routes(t, ruleFor("/a/b", "GET"), ruleFor("/a/{*}/c", "GET"), ruleFor("/b/{**}/c/d", "GET"), ruleFor("/*", "GET"))
	require.Zero(t, testing.AllocsPerRun(100, func() { Find(all, "GET", "/b/x/y/c/e") }))
}
