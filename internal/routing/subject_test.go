package routing

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCleanSource(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ source, want string }{
		"keeps letters, digits and dashes": {"shop-1", "shop-1"},
		"removes dots":                     {"com.example.shop", "comexampleshop"},
		"removes wildcards":                {"a*b>c", "abc"},
		"removes slashes":                  {`/shop/eu\west`, "shopeuwest"},
		"removes ASCII white space only":   {"a b\tc\nd\fe\rf\u00a0g", "abcdef\u00a0g"},
		"keeps characters outside ASCII":   {"Bücher-本", "Bücher-本"},
		"cleans everything at once": {
			"source1-Part1/2-Part*2\\3-Ä.te--<>  <>s__t!!a@  \t @*p##p%%",
			"source1-Part12-Part23-Äte--<<s__t!!a@@p##p%%",
		},
		"may leave nothing": {". */", ""},
		"of nothing":        {"", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, CleanSource(tc.source))
		})
	}
}

func TestCleanType(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ eventType, want string }{
		"keeps dots":          {"order.created.v1", "order.created.v1"},
		"keeps empty segment": {"order..v1", "order..v1"},
		"does not merge":      {"a.b.c.d.e.v1", "a.b.c.d.e.v1"},
		"cleans everything at once": {
			"prefix.  testapp.\tSegment1.Segment2>*.Segment3<.Segment4>>-Part1/2-Part2\\3-Ä.Segment5-Part1-Ä.v1",
			"prefix.testapp.Segment1.Segment2.Segment3<.Segment4-Part12-Part23-Ä.Segment5-Part1-Ä.v1",
		},
		"may leave an empty segment": {"order.*.v1", "order..v1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, CleanType(tc.eventType))
		})
	}
}

func TestSubject(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		source, eventType string
		exact             bool
		want              string
	}{
		"standard joins the clean source and the clean type": {
			source: "com.example/shop", eventType: "order.cre*ated.v1", want: "kyma.comexampleshop.order.created.v1",
		},
		"exact takes the type as it is and ignores the source": {
			source: "shop", eventType: "sap.kyma.custom.shop.order.created.v1", exact: true,
			want: "kyma.sap.kyma.custom.shop.order.created.v1",
		},
		"exact keeps wildcards": {
			eventType: "shop.order.*", exact: true, want: "kyma.shop.order.*",
		},
		"an empty source leaves an empty segment": {
			eventType: "order.created", want: "kyma..order.created",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, Subject(tc.source, tc.eventType, tc.exact))
		})
	}
}

func TestHasEmptySegment(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		subject string
		want    bool
	}{
		"no empty segment":         {"kyma.shop.order", false},
		"one segment":              {"kyma", false},
		"nothing":                  {"", true},
		"at the start":             {".shop", true},
		"in the middle":            {"kyma..order", true},
		"at the end":               {"kyma.shop.", true},
		"white space is something": {"kyma. .order", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, HasEmptySegment(tc.subject))
		})
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ subjects, want []string }{
		"keeps the order":                     {[]string{"b.1", "a.1", "c.1"}, []string{"b.1", "a.1", "c.1"}},
		"keeps the first of equals":           {[]string{"a.1", "b.1", "a.1"}, []string{"a.1", "b.1"}},
		"drops a subject of a later wildcard": {[]string{"a.1", "a.*"}, []string{"a.*"}},
		"drops a subject of an earlier one":   {[]string{"a.>", "a.1.2", "a.*"}, []string{"a.>"}},
		"a star is one token":                 {[]string{"a.*", "a.1.2"}, []string{"a.*", "a.1.2"}},
		"a tail wildcard requires a token":    {[]string{"a.1.>", "a.1"}, []string{"a.1.>", "a.1"}},
		"a star does not cover a tail":        {[]string{"a.*", "a.>"}, []string{"a.>"}},
		"keeps partial overlaps":              {[]string{"a.*.c", "a.b.*"}, []string{"a.*.c", "a.b.*"}},
		"a star inside a token is no pattern": {[]string{"a.b*", "a.bc"}, []string{"a.b*", "a.bc"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, filters(tc.subjects))
		})
	}
}

// isLiteralToken is NATS's rule for a token of a subject under which a message is stored.
func isLiteralToken(token string) bool {
	return token != "" && !strings.ContainsAny(token, "\t\n\f\r .*>")
}

func FuzzCleanSource(f *testing.F) {
	f.Add("source1-Part1/2-Part*2\\3-Ä.te--<>  <>s__t!!a@  \t @*p##p%%")
	f.Add("")
	f.Add("\xff.\x00")
	f.Fuzz(func(t *testing.T, source string) {
		clean := CleanSource(source)
		require.True(t, clean == "" || isLiteralToken(clean), "%q is not a token", clean)
		require.Equal(t, clean, CleanSource(clean), "cleaning must be idempotent")
	})
}

func FuzzCleanType(f *testing.F) {
	f.Add("prefix.  testapp.\tSegment1.Segment2>*.Segment3<.Segment4>>-Part1/2-Part2\\3-Ä.v1")
	f.Add("..")
	f.Fuzz(func(t *testing.T, eventType string) {
		clean := CleanType(eventType)
		require.Equal(t, clean, CleanType(clean), "cleaning must be idempotent")
		require.Equal(t, strings.Count(eventType, "."), strings.Count(clean, "."), "segments must stay")
		for token := range strings.SplitSeq(clean, ".") {
			require.True(t, token == "" || isLiteralToken(token), "%q is not a token", token)
		}
	})
}

func FuzzSubject(f *testing.F) {
	f.Add("shop", "order.created.v1", false)
	f.Add("", "order.>", true)
	f.Add("a", "b.\x00", true)
	f.Add("", "a..b", false)
	f.Fuzz(func(t *testing.T, source, eventType string, exact bool) {
		subject := Subject(source, eventType, exact)
		if err := checkFilter(subject); err != nil {
			require.ErrorIs(t, err, ErrInvalidSubject)
			return
		}
		tokens := strings.Split(subject, ".")
		require.Equal(t, SubjectPrefix, tokens[0])
		for i, token := range tokens {
			if exact && (token == "*" || token == ">" && i == len(tokens)-1) {
				continue
			}
			require.NotEmpty(t, token)
			require.False(t, strings.ContainsAny(token, "\t\n\f\r \x00"), "%q contains white space", token)
			require.True(t, exact || isLiteralToken(token), "%q is not a token", token)
		}
	})
}

func TestATypeMatchesTheSubjectsOfItsEvents(t *testing.T) {
	t.Parallel()
	require.True(t, TypeMapping{Subject: "kyma.shop.order.v1"}.Matches("kyma.shop.order.v1"))
	require.False(t, TypeMapping{Subject: "kyma.shop.order.v1"}.Matches("kyma.shop.order.v2"))
	require.True(t, TypeMapping{Subject: "kyma.order.>"}.Matches("kyma.order.received.v1"))
	require.False(t, TypeMapping{Subject: "kyma.order.>"}.Matches("kyma.order"))
}

func TestCleanOldType(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ eventType, want, wantErr string }{
		"a clean one":                       {eventType: OldPrefix + ".shop.order.created.v1", want: OldPrefix + ".shop.order.created.v1"},
		"many segments become one object":   {eventType: OldPrefix + ".my-app.Account.Root.Created.v1", want: OldPrefix + ".myapp.AccountRoot.Created.v1"},
		"everything but letters and digits": {eventType: OldPrefix + ".a_b.o>*.c d.v-1Ä", want: OldPrefix + ".ab.o.cd.v1"},
		"a part of the object that is lost": {eventType: OldPrefix + ".shop.-.order.created.v1", want: OldPrefix + ".shop.order.created.v1"},
		"too short":                         {eventType: OldPrefix + ".shop.created.v1", wantErr: "event type must have an application, an object"},
		"an empty segment":                  {eventType: OldPrefix + ".shop.order..v1", wantErr: "event type must have an application, an object"},
		"nothing":                           {eventType: OldPrefix + ".", wantErr: "event type must have"},
		"a segment that is lost":            {eventType: OldPrefix + ".shop.order.created.-", wantErr: "empty segments after cleaning: sap.kyma.custom.shop.order.created."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.True(t, IsOldType(tc.eventType))
			clean, err := CleanOldType(tc.eventType)
			if tc.wantErr != "" {
				require.ErrorContains(t, err, tc.wantErr)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, clean)
		})
	}
	require.False(t, IsOldType(OldPrefix))
	require.False(t, IsOldType("sap.kyma.customer.created.v1"))
}

func TestOldType(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ application, name, version, want string }{
		"two segments":              {"shop", "order.created", "v1", OldPrefix + ".shop.order.created.v1"},
		"one segment":               {"shop", "created", "v1", OldPrefix + ".shop.created.v1"},
		"many segments":             {"my-shop", "Account.Root.Created", "v1", OldPrefix + ".myshop.AccountRoot.Created.v1"},
		"a version of two segments": {"shop", "order.created", "1.0-beta", OldPrefix + ".shop.order.created.1.0-beta"},
		"a version with wildcards":  {"shop", "order.created", "v1 >*", OldPrefix + ".shop.order.created.v1"},
		"no application":            {"--", "order.created", "v1", ""},
		"no object":                 {"shop", "Ä.created", "v1", ""},
		"no operation":              {"shop", "order.Ä", "v1", ""},
		"no version":                {"shop", "order.created", ">", ""},
		"half a version":            {"shop", "order.created", "1.", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := OldType(tc.application, tc.name, tc.version)
			require.Equal(t, tc.want != "", ok)
			if ok {
				require.Equal(t, tc.want, got)
			}
		})
	}
}

func TestNameInOldType(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ application, eventType, want string }{
		"as it is":           {"my-shop", OldPrefix + ".my-shop.order.created.v1", "order.created.v1"},
		"as it is published": {"my-shop", OldPrefix + ".myshop.order.created.v1", "order.created.v1"},
		"another":            {"my-shop", OldPrefix + ".my-shop2.order.created.v1", ""},
		"not an old type":    {"my-shop", "my-shop.order.created.v1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := NameInOldType(tc.application, tc.eventType)
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.want != "", ok)
		})
	}
}

// FuzzOldType checks that generated and cleaned types are literal, and that cleaning is idempotent.
func FuzzOldType(f *testing.F) {
	f.Add("my-shop", "Account.Root.Created", "v1")
	f.Add("a.b", "..", "1.0")
	f.Add("", "\xff.é", "> *")
	f.Fuzz(func(t *testing.T, application, name, version string) {
		literal := func(eventType string) {
			require.True(t, IsOldType(eventType), "%q", eventType)
			for token := range strings.SplitSeq(eventType, ".") {
				require.True(t, isLiteralToken(token), "%q is not a token", token)
			}
		}
		if eventType, ok := OldType(application, name, version); ok {
			literal(eventType)
			rest, found := NameInOldType(application, eventType)
			require.True(t, found)
			require.NotEmpty(t, rest)
		}
		clean, err := CleanOldType(OldPrefix + "." + application + "." + name + "." + version)
		if err != nil {
			return
		}
		literal(clean)
		again, err := CleanOldType(clean)
		require.NoError(t, err)
		require.Equal(t, clean, again, "cleaning must be idempotent")
	})
}
