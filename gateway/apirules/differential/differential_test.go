package differential

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// silence is how long a body may stall.
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

// partsThatDiffer returns the differing parts of the replies to a request. It records what has found the request.
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
		Services: map[types.NamespacedName]apirule.ServiceInfo{},
	}
	for name, port := range m.services {
		cluster.Services[name] = apirule.ServiceInfo{Selects: true, Address: loopback.Host, Ports: []int32{port}}
	}
	for i := range m.authorizers {
		cluster.Authorizers = append(cluster.Authorizers, m.authorizers[i].Name)
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

const (
	namespace = "shop"
	gateway   = "kyma-system/kyma-gateway"
)

// apiRule is one of the test, at a full host.
type apiRule struct {
	host    string
	service string
	spec    v2.APIRuleSpec
}

// rulesAt is an APIRule with a Service of its own.
func rulesAt(host, service string, rules ...v2.Rule) apiRule {
	at := gateway
	return apiRule{host: host, service: service, spec: v2.APIRuleSpec{Hosts: []v2.Host{v2.Host(host)}, Gateway: &at, Rules: rules}}
}

func (r apiRule) withCORS(policy v2.CORSPolicy) apiRule {
	r.spec.CORSPolicy = &policy
	return r
}

func (r apiRule) withTimeout(timeout v2.Timeout) apiRule {
	r.spec.Timeout = &timeout
	return r
}

func (r *apiRule) target(rule *v2.Rule) types.NamespacedName {
	name := r.service
	if rule.Service != nil {
		name = rule.Service.Name
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// resource returns the Kubernetes object with ports of this machine.
func (r *apiRule) resource(index int, ports map[types.NamespacedName]int32) *v2.APIRule {
	resource := &v2.APIRule{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("rule-%03d", index)}}
	resource.Spec = *r.spec.DeepCopy()
	for i := range resource.Spec.Rules {
		target := r.target(&r.spec.Rules[i])
		resource.Spec.Rules[i].Service = &v2.Service{Name: target.Name, Port: ports[target]}
	}
	return resource
}

// open is a rule without authentication.
func open(path string, methods ...v2.Method) v2.Rule {
	yes := true
	return v2.Rule{Path: path, Methods: orGet(methods), NoAuth: &yes}
}

func withTokens(path string, jwt v2.JWT, methods ...v2.Method) v2.Rule {
	return v2.Rule{Path: path, Methods: orGet(methods), JWT: &jwt}
}

func asking(path string, extAuth v2.ExtAuth, methods ...v2.Method) v2.Rule {
	return v2.Rule{Path: path, Methods: orGet(methods), ExtAuth: &extAuth}
}

func orGet(methods []v2.Method) []v2.Method {
	if len(methods) == 0 {
		return []v2.Method{"GET"}
	}
	return methods
}

const (
	// restAfter is the pause within a slow body.
	restAfter = 300 * time.Millisecond
	// exchangeTimeout is beyond what any answer takes.
	exchangeTimeout = time.Minute
	// atATime has the slow answers wait together.
	atATime = 8
)

// reply is the part of a response that has to be equal.
type reply struct {
	status int
	header map[string]string
	body   string
	// whole reports that the body ended properly.
	whole bool
	// behind is what followed the last response of a connection.
	behind string
}

// untold are response headers that may differ: those of the transport, and those with which a gateway identifies
// itself.
func untold(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "x-envoy-") || slices.Contains([]string{
		"date", "server", "x-request-id", "connection", "keep-alive", "content-length", "transfer-encoding",
	}, name)
}

// exchangeAll sends all requests, some at a time, and has the replies in their order.
func exchangeAll(t *testing.T, address string, requests []request) []reply {
	t.Helper()
	replies := make([]reply, len(requests))
	next := make(chan int)
	var senders sync.WaitGroup
	for range atATime {
		senders.Go(func() {
			for i := range next {
				replies[i] = exchange(t.Context(), address, requests[i])
			}
		})
	}
	for i := range requests {
		next <- i
	}
	close(next)
	senders.Wait()
	return replies
}

// exchange sends a request as it is and reads the response. Without one, the status is 0 and the body is the reason.
func exchange(ctx context.Context, address string, sent request) reply {
	dialer := net.Dialer{Timeout: exchangeTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return reply{body: err.Error()}
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(exchangeTimeout)); err != nil {
		return reply{body: err.Error()}
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	sending.Go(func() {
		_, err := io.WriteString(conn, sent.text) // it may be answered before it is read
		if err == nil && sent.rest != "" {
			time.Sleep(restAfter)
			_, _ = io.WriteString(conn, sent.rest)
		}
	})

	method, _, _ := strings.Cut(sent.text, " ")
	from := bufio.NewReader(conn)
	response, err := http.ReadResponse(from, &http.Request{Method: method})
	for err == nil && response.StatusCode == http.StatusContinue {
		response, err = http.ReadResponse(from, &http.Request{Method: method})
	}
	if err != nil {
		return reply{body: err.Error()}
	}
	defer func() { _ = response.Body.Close() }()
	defer func() { _ = conn.Close() }() // before what is still being sent is waited for
	got := read(response, from)
	if sent.last {
		behind, err := io.ReadAll(from)
		if got.behind = string(behind); errors.Is(err, os.ErrDeadlineExceeded) {
			got.behind += " and the connection goes on"
		}
	}
	return got
}

func read(response *http.Response, from io.Reader) reply {
	got := reply{status: response.StatusCode, header: map[string]string{}}
	body := io.Reader(response.Body)
	if response.StatusCode == http.StatusSwitchingProtocols {
		body = from
	}
	text, err := io.ReadAll(body)
	got.body, got.whole = string(text), err == nil
	for name, values := range response.Header {
		if !untold(name) {
			slices.Sort(values)
			got.header[name] = strings.Join(values, " | ")
		}
	}
	return got
}

// parts lists what is not alike in two replies.
func parts(a, b reply) []string {
	var found []string
	note := func(part string, equal bool) {
		if !equal {
			found = append(found, part)
		}
	}
	note("status", a.status == b.status)
	note("body", a.body == b.body)
	note("end", a.whole == b.whole)
	note("behind", a.behind == "" && b.behind == "")
	for name := range a.header {
		note(name, a.header[name] == b.header[name])
	}
	for name := range b.header {
		if _, both := a.header[name]; !both {
			note(name, false)
		}
	}
	slices.Sort(found)
	return found
}
