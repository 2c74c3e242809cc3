package apirule

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

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
		"a path after rules for the whole host":               {whole, "GET", "/", 2, Found},
		"a method that no rule may have":                      {ordered, "FETCH", "/a/b", 0, NotFound},
		"a method in lower case":                              {ordered, "get", "/a/b", 0, NotFound},
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

func pattern(t *testing.T, text string) Pattern {
	t.Helper()
	parsed, err := ParsePattern(text)
	require.NoError(t, err, text)
	return parsed
}

func TestPatternMatchesPaths(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ matches, not []string }{
		"/":                     {[]string{"/"}, []string{"", "/a", "//"}},
		"/anything/one":         {[]string{"/anything/one"}, []string{"/anything/one/", "/anything", "/anything/one/two", "/Anything/one"}},
		"/example/":             {[]string{"/example/"}, []string{"/example", "/example//", "/example/a"}},
		"/example/{*}":          {[]string{"/example/a", "/example/a%20b", "/example/a+b", "/example/r*m", "/example/a%2Fb"}, []string{"/example/", "/example/a/", "/example", "/example/a/b"}},
		"/example/{*}/one":      {[]string{"/example/a/one"}, []string{"/example/one", "/example//one", "/example/a/b/one"}},
		"/example/{**}":         {[]string{"/example/", "/example/a", "/example/a/b/", "/example//"}, []string{"/example", "/examples/a"}},
		"/example/{**}/one":     {[]string{"/example/a/one", "/example/a/b/one", "/example//one"}, []string{"/example/one", "/example/a/one/", "/example/aone"}},
		"/{*}/example/{*}/{**}": {[]string{"/a/example/b/", "/a/example/b/c"}, []string{"/a/example/b", "//example/b/c"}},
		"/{**}":                 {[]string{"/", "/a", "/a/b", "//"}, []string{"", "a"}},
		"/*":                    {[]string{"/", "/a", "/a/b", "//"}, []string{"", "a"}},
		"/a/{**}/b/c":           {[]string{"/a/x/b/c", "/a/b/c/b/c"}, []string{"/a/b/c", "/a/x/c"}},
		"/%C3%A4":               {[]string{"/%C3%A4"}, []string{"/%c3%A4"}},
	}
	for text, tc := range tests {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			for _, path := range tc.matches {
				require.True(t, pattern(t, text).Matches(path), path)
			}
			for _, path := range tc.not {
				require.False(t, pattern(t, text).Matches(path), path)
			}
		})
	}
}

func TestOperatorsMatchOnlyCharactersOfPaths(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/a b", "/a\"", "/a\x00", "/\u00e4", "/%", "/%2", "/%2g", "/a?b", "/a#b", "/a\\b", "/{*}"} {
		for _, text := range []string{"/{*}", "/{**}", "/*"} {
			require.False(t, pattern(t, text).Matches(path), "%s: %q", text, path)
		}
	}
}

func TestPathOfARuleIsRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		want error
	}{
		"none":                          {"", ErrPathMalformed},
		"no slash":                      {"a", ErrPathMalformed},
		"an operator within a segment":  {"/a{*}", ErrPathMalformed},
		"a star within a path":          {"/a/*", ErrPathMalformed},
		"a query":                       {"/a?b", ErrPathMalformed},
		"half an escape":                {"/a%2", ErrPathMalformed},
		"two {**}":                      {"/a/{**}/b/{**}", ErrTwoAnySegments},
		"two {**} with another between": {"/a/{**}/{*}/{**}", ErrTwoAnySegments},
		"{*} after {**}":                {"/a/{**}/b/{*}", ErrOperatorAfterAny},
		"too many characters":           {"/" + strings.Repeat("a", MaxPathLength), ErrPathTooLong},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ParsePattern(tc.text)
			require.Equal(t, tc.want, err)
		})
	}
}

func TestPathIsWellFormedWhenTheCRDAcceptsIt(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("../../charts/rouse/files/crds/gateway.kyma-project.io_apirules.yaml")
	require.NoError(t, err)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, yaml.UnmarshalStrict(file, crd))
	paths := combinations([]string{"", "a", oneSegment, anySegments, "*", "a%", "%aF", "a{*}", "-._~!$&'()+,;=:@", "?", "é"}, 3)
	for _, version := range crd.Spec.Versions {
		spec := version.Schema.OpenAPIV3Schema.Properties["spec"]
		accepted := regexp.MustCompile(spec.Properties["rules"].Items.Schema.Properties["path"].Pattern)
		for _, path := range append(paths, "", "a", "*") {
			require.Equal(t, accepted.MatchString(path), wellFormed.MatchString(path), path)
		}
	}
}

func TestAnEarlierPathCoversALaterOne(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		paths []string
		want  []string // paths that the earlier one covers
	}{
		{[]string{"/{**}"}, nil},
		{[]string{"/abc/{**}"}, nil},
		{[]string{"/abc", "/abc/{**}"}, nil},
		{[]string{"/abc", "/abc/{*}"}, nil},
		{[]string{"/abc/", "/abc/{*}"}, nil},
		{[]string{"/abc/", "/abc/{**}"}, nil},
		{[]string{"/abc/{*}", "/abc/"}, nil},
		{[]string{"/abc/{**}", "/abc/"}, []string{"/abc/"}},
		{[]string{"/abc/{**}", "/abc"}, nil},
		{[]string{"/abc/def/ghi", "/abc/{*}/ghi"}, nil},
		{[]string{"/abc/{*}/ghi", "/abc/def/ghi"}, []string{"/abc/def/ghi"}},
		{[]string{"/abc/def", "/abc/def/ghi", "/abc/def/ghi", "/abc/def"}, []string{"/abc/def/ghi", "/abc/def"}},
		{[]string{"/abc/def", "/abc/{**}/ghi", "/abc/{**}", "/{**}/ghi", "/{**}", "/{**}/def/ghi"}, []string{"/{**}/def/ghi"}},
		{[]string{"/{**}", "/{**}/def/ghi"}, []string{"/{**}/def/ghi"}},
		{[]string{"/abc/{**}/ghi", "/{*}/{*}/ghi"}, nil},
		{[]string{"/abc/{**}/ghi", "/abc/{*}/ghi"}, []string{"/abc/{*}/ghi"}},
		{[]string{"/abc/{**}/ghi", "/abc/ghi"}, nil},
		{[]string{"/abc/{**}/ghi", "/abc/x/y/ghi"}, []string{"/abc/x/y/ghi"}},
		{[]string{"/abc/{**}/def/ghi", "/abc/{**}/ghi", "/abc/{**}"}, nil},
		{[]string{"/abc/{**}", "/abc/{**}/ghi", "/abc/{**}/def/ghi"}, []string{"/abc/{**}/ghi", "/abc/{**}/def/ghi"}},
		{[]string{"/abc/def", "/abc/def/ghi", "/abc/def/foo", "/def/ghi"}, nil},
		{[]string{"/abc/{*}/def", "/abc/{*}/ghi", "/abc/{*}/foo/bar", "/abc/{*}"}, nil},
		{[]string{"/abc/{**}/def", "/abc/{**}/ghi", "/abc/{**}/foo/bar"}, nil},
		{[]string{"/abc/{*}", "/abc/def"}, []string{"/abc/def"}},
		{[]string{"/abc/{**}", "/abc/def"}, []string{"/abc/def"}},
		{[]string{"/abc/def", "/abc/{*}"}, nil},
		{[]string{"/abc/{**}", "/bca/{**}/abc"}, nil},
		{[]string{"/abc/{**}/def", "/abc/def/{**}/def"}, []string{"/abc/def/{**}/def"}},
		{[]string{"/a/{**}/abc", "/a/b/{**}/abc/abcd"}, nil},
		{[]string{"/*", "/abc"}, []string{"/abc"}},
		{[]string{"/*", "/"}, []string{"/"}},
		{[]string{"/*", "/{**}"}, []string{"/{**}"}},
		{[]string{"/{**}", "/*"}, []string{"/*"}},
		{[]string{"/{*}", "/{*}"}, []string{"/{*}"}},
		{[]string{"/{*}", "/{**}"}, nil},
		{[]string{"/{*}/{*}", "/{**}/a"}, nil},
		{[]string{"/{**}/a", "/{*}/b/a"}, []string{"/{*}/b/a"}},
	} {
		t.Run(strings.Join(tc.paths, " "), func(t *testing.T) {
			t.Parallel()
			var covered []string
			for i, path := range tc.paths {
				if slices.ContainsFunc(tc.paths[:i], func(earlier string) bool { return pattern(t, earlier).Covers(pattern(t, path)) }) {
					covered = append(covered, path)
				}
			}
			require.Equal(t, tc.want, covered)
		})
	}
}

// All patterns of a few segments are compared with all paths of some more segments, some of which no pattern names.
func TestPatternCoversExactlyThePatternsWhosePathsItMatches(t *testing.T) {
	t.Parallel()
	var patterns []Pattern
	for _, text := range combinations([]string{"", "a", "b", oneSegment, anySegments}, 3) {
		if parsed, err := ParsePattern(text); err == nil {
			patterns = append(patterns, parsed)
		}
	}
	paths := combinations([]string{"", "a", "b", "c"}, 6)
	matching := make([][]bool, len(patterns))
	for i, p := range patterns {
		matching[i] = make([]bool, len(paths))
		for j, path := range paths {
			matching[i][j] = p.Matches(path)
		}
	}
	for i, p := range patterns {
		for j, other := range patterns {
			want := true
			for k := range paths {
				want = want && (matching[i][k] || !matching[j][k])
			}
			if want != p.Covers(other) {
				require.Equal(t, want, p.Covers(other), "%s covers %s", p, other)
			}
		}
	}
}

// combinations returns all paths of at most so many segments.
func combinations(segments []string, most int) []string {
	all, longest := []string(nil), []string{""}
	for range most {
		var longer []string
		for _, path := range longest {
			for _, segment := range segments {
				longer = append(longer, path+"/"+segment)
			}
		}
		all, longest = append(all, longer...), longer
	}
	return all
}

func TestPatternFitsLongerSegments(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ fits, not []string }{
		"/foo":   {[]string{"/foobar", "/foox/{*}", "/{*}", "/{*}/a", "/*", "/{**}/b"}, []string{"/foo", "/foo/{**}", "/bar", "/fo"}},
		"/a/foo": {[]string{"/a/{*}", "/a/foob", "/a/{**}", "/{*}/foob"}, []string{"/a", "/a/", "/foob", "/b/{**}", "/{*}"}},
		"/":      {[]string{"/a", "/{*}", "/*"}, []string{"/"}},
	}
	for stem, tc := range tests {
		for _, text := range tc.fits {
			require.True(t, pattern(t, text).FitsLonger(stem), "%s %s", stem, text)
		}
		for _, text := range tc.not {
			require.False(t, pattern(t, text).FitsLonger(stem), "%s %s", stem, text)
		}
	}
}

// FuzzPattern checks that a path without operators matches itself as a pattern, and that no text makes the parser
// panic.
func FuzzPattern(f *testing.F) {
	for _, seed := range []string{"/", "/*", "/a/{*}/b", "/a/{**}", "/{**}/{*}", "/%41", "//", "/a//b/"} {
		f.Add(seed, "/a/b")
	}
	f.Fuzz(func(t *testing.T, text, path string) {
		parsed, err := ParsePattern(text)
		if err != nil {
			return
		}
		require.True(t, parsed.Covers(parsed))
		if len(parsed.head) > 0 && !parsed.any && !strings.Contains(text, oneSegment) {
			require.True(t, parsed.Matches(text))
		}
		require.True(t, !parsed.Matches(path) || pattern(t, everything).Matches(path), "a pattern matches only paths")
	})
}
