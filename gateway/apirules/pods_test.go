package apirules

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/routing"
)

// at are the endpoints of Services.
type at map[types.NamespacedName][]routing.Endpoint

// Watch implements Endpoints.
func (a at) Watch(ctx context.Context, service types.NamespacedName, port int32, apply func([]routing.Endpoint)) error {
	if port == 8080 {
		apply(a[service])
	} else {
		apply(nil)
	}
	<-ctx.Done()
	return nil
}

func TestAServiceIsReachedAtAPodThatIsReadyOrElseAtOneThatEnds(t *testing.T) {
	t.Parallel()
	catalog := types.NamespacedName{Namespace: "shop", Name: "catalog"}
	ready, ends := routing.Endpoint{Address: "10.0.0.1:80", Ready: true}, routing.Endpoint{Address: "10.0.0.3:80", Terminating: true}
	starts := routing.Endpoint{Address: "10.0.0.2:80"}
	for name, tc := range map[string]struct {
		pods []routing.Endpoint
		want string // empty: none
	}{
		"ready":      {pods: []routing.Endpoint{starts, ready, ends}, want: ready.Address},
		"ends":       {pods: []routing.Endpoint{starts, ends}, want: ends.Address},
		"starts":     {pods: []routing.Endpoint{starts}},
		"none":       {},
		"ready ends": {pods: []routing.Endpoint{{Address: "10.0.0.4:80", Ready: true, Terminating: true}, ready}, want: ready.Address},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &pods{endpoints: at{catalog: tc.pods}}
			pod, err := p.choose(t.Context(), serviceAddress(&apirule.Backend{Service: catalog, Port: 8080, Address: "10.96.0.1"}))
			if tc.want == "" {
				require.ErrorIs(t, err, errNoPod)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, pod)
			_, err = p.choose(t.Context(), serviceAddress(&apirule.Backend{Service: catalog, Port: 9090}))
			require.ErrorIs(t, err, errNoPod, "another port")
		})
	}
}

func TestAServiceWithoutAPodIsUnavailable(t *testing.T) {
	t.Parallel()
	f := start(t, func(d *Deps, _ *Options) { d.Endpoints = at{} })
	f.serve(shopHost, open(f.service.address, "/*", "GET"))
	got := f.get("/")
	require.Equal(t, http.StatusServiceUnavailable, got.StatusCode)
	require.Equal(t, refusesConnections, got.text)
	require.Zero(t, f.service.requests(), "its cluster IP is not asked")
}
