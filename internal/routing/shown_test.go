package routing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/routing"
)

func TestASinkIsShownWithoutItsSecrets(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ sink, want string }{
		"nothing to hide":       {"http://price.shop.svc.cluster.local:8080/in", "http://price.shop.svc.cluster.local:8080/in"},
		"a user and a password": {"https://me:secret@api.example.com/in", "https://api.example.com/in"},
		"a token in the query":  {"https://api.example.com/in?token=secret#secret", "https://api.example.com/in"},
		"a broken one":          {"https://me:sec%ret@api.example.com", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, routing.ShownSink(tc.sink))
		})
	}
}
