package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/eventbridge/admin"
	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/internal/testing/oidctest"
)

const (
	bridgeToken = "the-token-for-bridges"
	timeout     = 2 * time.Minute
)

// cluster takes ID tokens of issued as well as its own.
var (
	cluster *envtest.Cluster
	issued  *oidctest.Issuer
)

func TestMain(m *testing.M) { os.Exit(testAll(m)) }

func testAll(m *testing.M) int {
	started, err := oidctest.Start(oidctest.Behaviour{User: "jane", Lifetime: time.Hour})
	if err != nil {
		panic(err)
	}
	issued = started
	defer issued.Close()
	dir, err := os.MkdirTemp("", "issuer-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ca := filepath.Join(dir, "ca.crt")
	if err := os.WriteFile(ca, issued.CA(), 0o600); err != nil {
		panic(err)
	}
	cluster = envtest.New(envtest.WithFlags(map[string]string{
		"oidc-issuer-url": issued.URL, "oidc-client-id": oidctest.ClientID, "oidc-ca-file": ca, "oidc-username-prefix": userPrefix,
	}, nil))
	return cluster.Main(m)
}

// userPrefix begins the names of the issuer's users in the cluster.
const userPrefix = "oidc:"

// rig is a dashboard of a real API server, and a bridge with its admin API.
type rig struct {
	*envtest.Environment

	url     string
	roots   http.RoundTripper
	records *journal.Journal
	letters *letters
	log     *output
}

// output is a log that is written and read at the same time.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(line)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func newRig(t *testing.T, change func(*options)) *rig {
	t.Helper()
	return newRigWith(t, change, nil)
}

// newRigWith is newRig with what exists in the namespace of Rouse before the dashboard starts.
func newRigWith(t *testing.T, change func(*options), exist func(r *rig, rouse string)) *rig {
	t.Helper()
	env := cluster.Environment(t)
	r := &rig{Environment: env, records: journal.New(1000), letters: newLetters(), log: &output{}}
	bridge := httptest.NewServer(admin.New(admin.Deps{
		Store: r.letters, Journal: r.records, Wakes: journal.NewWakes(), Access: identity.Token(bridgeToken), Log: discard(),
	}))
	t.Cleanup(bridge.Close)
	o := defaultOptions()
	o.rouseNamespace = env.Namespace(t)
	r.pod(t, o.rouseNamespace, "eventbridge", map[string]int32{"admin": portOf(t, bridge.URL), "http": 8080})
	o.bridgeTokenFile = filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(o.bridgeTokenFile, []byte(bridgeToken), 0o600))
	o.sessions.Review = time.Second
	serving := httptest.NewUnstartedServer(nil)
	o.issuer.Home = "https://" + serving.Listener.Addr().String()
	if change != nil {
		change(o)
	}
	if exist != nil {
		exist(r, o.rouseNamespace)
	}
	require.NoError(t, o.parseProxies())
	require.NoError(t, o.parseAlerts())
	logs := daemon.DefaultLogOptions()
	s, err := newServer(env.Config, kube.ReviewsBy(env.Client), o, prometheus.NewRegistry(), logs.NewLogger(r.log))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	for _, part := range s.ground {
		running.Go(func() { _ = part(ctx) })
	}
	serving.Config.Handler = daemon.CancelHandler(ctx, s.handler)
	serving.StartTLS()
	t.Cleanup(func() {
		cancel()
		serving.Close()
		running.Wait()
	})
	r.url, r.roots = serving.URL, serving.Client().Transport
	return r
}

func portOf(t *testing.T, url string) int32 {
	t.Helper()
	_, text, err := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	port, err := strconv.ParseInt(text, 10, 32)
	require.NoError(t, err)
	return int32(port)
}

// pod makes a ready pod of Rouse on this machine.
func (r *rig) pod(t *testing.T, namespace, component string, ports map[string]int32) {
	t.Helper()
	container := corev1.Container{Name: component, Image: "x"}
	for name, port := range ports {
		container.Ports = append(container.Ports, corev1.ContainerPort{Name: name, ContainerPort: port})
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: component, Labels: map[string]string{
			"app.kubernetes.io/part-of": "rouse", "app.kubernetes.io/component": component,
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{container}},
	}
	require.NoError(t, r.Client.Create(t.Context(), pod))
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "127.0.0.1", PodIPs: []corev1.PodIP{{IP: "127.0.0.1"}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	require.NoError(t, r.Client.Status().Update(t.Context(), pod))
}

// tenant is a ServiceAccount with rights in its namespace.
type tenant struct {
	namespace, token string
	account          *corev1.ServiceAccount
}

// rules returns the rights by which a dashboard works, a part of the roles view and edit of the chart.
func rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"serverless.kyma-project.io"}, Resources: []string{"functions"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"eventing.kyma-project.io"}, Resources: []string{"subscriptions"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{"rouse.run"}, Resources: []string{"deadletters"}, Verbs: []string{"get", "list", "delete"}},
		{APIGroups: []string{"rouse.run"}, Resources: []string{"deadletters/redrive", "functions/invoke"}, Verbs: []string{"create"}},
		{APIGroups: []string{"rouse.run"}, Resources: []string{"events"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"rouse.run"}, Resources: []string{"schedules"}, Verbs: []string{"list"}},
	}
}

// tenant makes a ServiceAccount with rights, a Function and a Subscription in a namespace of its own.
func (r *rig) tenant(t *testing.T, rights []rbacv1.PolicyRule) tenant {
	t.Helper()
	return r.tenantIn(t, r.Namespace(t), rights)
}

func (r *rig) tenantIn(t *testing.T, namespace string, rights []rbacv1.PolicyRule) tenant {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "reader"}
	made := tenant{namespace: namespace, account: &corev1.ServiceAccount{ObjectMeta: meta}}
	for _, object := range []client.Object{
		made.account,
		&rbacv1.Role{ObjectMeta: meta, Rules: rights},
		&rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "reader"}},
		},
	} {
		require.NoError(t, r.Client.Create(t.Context(), object))
	}
	for _, manifest := range []string{functionManifest, subscriptionManifest} {
		object := envtest.Object(t, manifest)
		object.SetNamespace(namespace)
		require.NoError(t, r.Client.Create(t.Context(), object))
	}
	made.token = r.tokenOf(t, made.account)
	return made
}

const (
	functionManifest = `
apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
metadata: {name: pricing}
spec: {runtime: nodejs22, source: {inline: {source: "module.exports.main = () => 1"}}}
`
	subscriptionManifest = `
apiVersion: eventing.kyma-project.io/v1alpha2
kind: Subscription
metadata: {name: orders}
spec: {source: shop, types: [order.received], sink: "http://pricing.x.svc.cluster.local"}
`
)

func (r *rig) tokenOf(t *testing.T, account *corev1.ServiceAccount, audiences ...string) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	require.NoError(t, r.Client.SubResource("token").Create(t.Context(), account, request))
	return request.Status.Token
}

// browser keeps cookies.
type browser struct {
	rig    *rig
	client *http.Client
	header http.Header
}

func (r *rig) browser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &browser{r, &http.Client{Transport: r.roots, Jar: jar, Timeout: timeout}, http.Header{
		"Content-Type": {"application/json"}, "Sec-Fetch-Site": {"same-origin"},
	}}
}

// send returns the response of a request. Its body is closed when the test ends.
func (b *browser) send(t *testing.T, method, path, body string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, b.rig.url+path, strings.NewReader(body))
	require.NoError(t, err)
	request.Header = b.header.Clone()
	if body == "" {
		request.Body = http.NoBody
	}
	response, err := b.client.Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// ask returns the status and the body of a response.
func (b *browser) ask(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	response := b.send(t, method, path, body) //nolint:bodyclose // send does
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

// logIn logs in as soon as the API server knows the tenant's rights.
func (b *browser) logIn(t *testing.T, as tenant) {
	t.Helper()
	require.Eventually(t, func() bool {
		status, _ := b.ask(t, http.MethodPost, "/api/v1/login", `{"token":"`+as.token+`"}`)
		return status == http.StatusOK
	}, timeout, 500*time.Millisecond)
}

// letters is a store of dead letters.
type letters struct {
	mu       sync.Mutex
	all      map[uint64]admin.DeadLetterDetail
	redriven []uint64
}

func newLetters() *letters { return &letters{all: map[uint64]admin.DeadLetterDetail{}} }

func (l *letters) add(sequence uint64, namespace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[sequence] = admin.DeadLetterDetail{DeadLetter: admin.DeadLetter{
		Sequence: sequence, Namespace: namespace, Subscription: "orders", Reason: "SinkRejected", ID: "event-of-" + namespace,
	}, Event: json.RawMessage(`{"data":"secret-of-` + namespace + `"}`)}
}

// in returns those of a namespace.
func (l *letters) in(namespace string, sequence uint64) []admin.DeadLetterDetail {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []admin.DeadLetterDetail
	for _, letter := range l.all {
		if (namespace == "" || letter.Namespace == namespace) && (sequence == 0 || letter.Sequence == sequence) {
			found = append(found, letter)
		}
	}
	return found
}

func (l *letters) List(_ context.Context, query admin.Query) (page admin.Page, err error) {
	for _, letter := range l.in(query.Namespace, query.Sequence) {
		page.DeadLetters = append(page.DeadLetters, letter.DeadLetter)
	}
	return page, nil
}

func (l *letters) Get(_ context.Context, sequence uint64) (admin.DeadLetterDetail, error) {
	for _, letter := range l.in("", sequence) {
		return letter, nil
	}
	return admin.DeadLetterDetail{}, failure.ErrDeadLetterNotFound
}

func (l *letters) take(s admin.Selection) (sequences []uint64) {
	for _, letter := range l.in(s.Namespace, s.Sequence) {
		sequences = append(sequences, letter.Sequence)
		l.mu.Lock()
		delete(l.all, letter.Sequence)
		l.mu.Unlock()
	}
	return sequences
}

func (l *letters) Redrive(_ context.Context, s admin.Selection) (admin.Redriven, error) {
	taken := l.take(s)
	if len(taken) == 0 {
		return admin.Redriven{}, failure.ErrDeadLetterNotFound
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.redriven = append(l.redriven, taken...)
	return admin.Redriven{Redriven: uint64(len(taken))}, nil
}

func (l *letters) RedriveEdited(ctx context.Context, s admin.Selection, _ []byte) (admin.Redriven, error) {
	return l.Redrive(ctx, s)
}

func (l *letters) Purge(_ context.Context, s admin.Selection) (uint64, error) {
	return uint64(len(l.take(s))), nil
}

func (l *letters) RetryNow(context.Context, types.NamespacedName) (admin.Retried, error) {
	return admin.Retried{}, nil
}

func (l *letters) Subscriptions(context.Context) ([]admin.Subscription, error) { return nil, nil }

func (l *letters) Kyma(context.Context) (admin.Kyma, error) { return admin.Kyma{}, nil }
