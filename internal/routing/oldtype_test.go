package routing

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
		"no old type":        {"my-shop", "my-shop.order.created.v1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := NameInOldType(tc.application, tc.eventType)
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.want != "", ok)
		})
	}
}

// FuzzOldType: what is made or cleaned is literal, and cleaning it again changes nothing.
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
		require.Equal(t, clean, again, "cleaning twice must change nothing")
	})
}
