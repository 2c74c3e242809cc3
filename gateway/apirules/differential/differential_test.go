package differential

import (
	"context"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/gateway/apirules"
	"github.com/rouse-run/rouse/gateway/entrance"
	"github.com/rouse-run/rouse/gateway/jwt"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// silence is for how long a body may not come.
const silence = 5 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestGatewayAnswersAsEnvoyDoes(t *testing.T) {
	t.Parallel()
	a, b := newIssuer(t, "https://a.example"), newIssuer(t, "https://b.example/")
	corpus := newCorpus(map[string]*issuer{"a": a, "b": b})
	m := mesh{
		apiRules: corpus.apiRules, services: startBackends(t, corpus.apiRules), authorizers: startAuthorizers(t),
		jwks: map[string]string{a.uri: a.jwks, b.uri: b.jwks},
	}
	ours := serve(t, m)
	port := loopback.Reserve(t)
	theirs := net.JoinHostPort(loopback.Host, strconv.Itoa(port))
	folder, err := os.MkdirTemp("", "envoy-") //nolint:usetesting // a socket's path has to be short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	startEnvoy(t, configOf(m, port, folder), theirs)

	require.Greater(t, len(corpus.requests), 300)
	wanted, got := exchangeAll(t, theirs, corpus.requests), exchangeAll(t, ours, corpus.requests)
	shown := map[string]bool{}
	for i, sent := range corpus.requests {
		expected := partsThatDiffer(sent.name, shown)
		t.Run(sent.name, func(t *testing.T) { compare(t, wanted[i], got[i], expected) })
	}
	for _, each := range differences {
		for _, expression := range each.requests {
			require.True(t, shown[expression], "%s: no request has the name %s", each.subject, expression)
		}
	}
}

// partsThatDiffer are those of the replies to a request. It notes what has found the request.
func partsThatDiffer(name string, shown map[string]bool) []string {
	var expected []string
	for _, each := range differences {
		for _, expression := range each.requests {
			if regexp.MustCompile(expression).MatchString(name) {
				expected = append(expected, each.parts...)
				shown[expression] = true
			}
		}
	}
	return expected
}

// compare wants two replies alike, but for some parts of which at least one has to differ.
func compare(t *testing.T, envoy, gateway reply, expected []string) {
	t.Helper()
	found := parts(envoy, gateway)
	for _, part := range found {
		require.Contains(t, expected, part, "Envoy: %+v\nthe gateway: %+v", envoy, gateway)
	}
	if len(expected) > 0 {
		require.NotEmpty(t, found, "this is no difference any more: %+v", envoy)
	}
}

// startBackends starts one for each Service that rules name, and returns their ports.
func startBackends(t *testing.T, apiRules []apiRule) map[types.NamespacedName]int32 {
	t.Helper()
	ports := map[types.NamespacedName]int32{}
	for i := range apiRules {
		for at := range apiRules[i].spec.Rules {
			target := apiRules[i].target(&apiRules[i].spec.Rules[at])
			switch {
			case ports[target] != 0:
			case target.Name == refused:
				ports[target] = int32(loopback.Reserve(t))
			default:
				ports[target] = int32(startBackend(t, target.Name))
			}
		}
	}
	return ports
}

// onLoopback is where all Services have a pod, which listens at their port.
type onLoopback struct{}

// Watch implements expose.Endpoints.
func (onLoopback) Watch(ctx context.Context, _ types.NamespacedName, port int32, apply func([]routing.Endpoint)) error {
	apply([]routing.Endpoint{{Address: net.JoinHostPort(loopback.Host, strconv.Itoa(int(port))), Ready: true}})
	<-ctx.Done()
	return nil
}

// serve starts the gateway and returns its address.
func serve(t *testing.T, m mesh) string {
	t.Helper()
	guard := dialguard.Guard{AllowLoopback: true}
	keys := jwt.NewKeys(jwt.KeysOptions{Guard: guard, Now: time.Now})
	options := apirules.DefaultOptions()
	options.Authorizers, options.BodyTimeout = m.authorizers, silence
	exposed := apirules.New(apirules.Deps{
		Activate: func(http.ResponseWriter, *http.Request, types.NamespacedName, time.Duration) {
			panic("there are no Functions")
		},
		Keys: keys, Endpoints: onLoopback{}, Guard: guard, Now: time.Now, Registry: prometheus.NewRegistry(), Log: logr.Discard(),
	}, options)
	exposed.Set(decide(t, m))
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { keys.Run(ctx) })
	at := entrance.DefaultOptions()
	at.HTTPAddress, at.BodyTimeout = loopback.Address(t), silence
	outside := entrance.New(entrance.Deps{Registry: prometheus.NewRegistry(), Log: logr.Discard()}, at)
	running.Go(func() { _ = outside.Run(ctx, exposed) })
	t.Cleanup(func() {
		stop()
		running.Wait()
		exposed.Close()
	})
	require.Eventually(t, func() bool { return outside.Ready() == nil }, startTimeout, time.Millisecond)
	return at.HTTPAddress
}

// decide wants every APIRule served as it is.
func decide(t *testing.T, m mesh) []apirule.Exposure {
	t.Helper()
	cluster := &apirule.Objects{
		Gateways: map[types.NamespacedName]apirule.Gateway{
			{Namespace: "kyma-system", Name: "kyma-gateway"}: {Hosts: []string{"*.example.com"}},
		},
		Services:    map[types.NamespacedName]apirule.ServiceInfo{},
		Authorizers: map[string]bool{},
	}
	for name, port := range m.services {
		cluster.Services[name] = apirule.ServiceInfo{Selects: true, Address: loopback.Host, Ports: []int32{port}}
	}
	for i := range m.authorizers {
		cluster.Authorizers[m.authorizers[i].Name] = true
	}
	var resources []*v2.APIRule
	for i := range m.apiRules {
		resources = append(resources, m.apiRules[i].resource(i, m.services))
	}
	exposures := apirule.Decide(resources, cluster)
	for i := range exposures {
		require.Empty(t, exposures[i].Problems.String(), "APIRule at %s", m.apiRules[i].host)
	}
	return exposures
}
