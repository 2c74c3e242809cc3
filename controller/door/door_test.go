package door

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/controller/apirules"
	"github.com/rouse-run/rouse/controller/keyring"
	"github.com/rouse-run/rouse/internal/door"
	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

const (
	timeout = time.Minute
	tick    = 20 * time.Millisecond
)

var cluster = envtest.New()

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(cluster.Main(m))
}

// fakeHosts are the hosts of Doors, by their names, and the reports of a bridge.
type fakeHosts struct {
	mu  sync.Mutex
	all map[string]apirules.DoorHost

	reports chan []byte
}

func (f *fakeHosts) Of(d *v1alpha1.Door) (apirules.DoorHost, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	host, known := f.all[d.Spec.Host]
	return host, known
}

func (f *fakeHosts) WatchDoorReports(ctx context.Context, apply func([]byte)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case data := <-f.reports:
			apply(data)
		}
	}
}

// fixture is a namespace with a controller.
type fixture struct {
	client.Client
	namespace string
	hosts     *fakeHosts
	changed   chan event.GenericEvent
	keys      types.NamespacedName
}

func start(t *testing.T) *fixture {
	t.Helper()
	environment := cluster.Environment(t)
	f := &fixture{
		Client: environment.Client, namespace: environment.Namespace(t), changed: make(chan event.GenericEvent),
		hosts: &fakeHosts{all: map[string]apirules.DoorHost{"hooks": {Host: "hooks.example.com"}}, reports: make(chan []byte)},
	}
	f.keys = types.NamespacedName{Namespace: f.namespace, Name: "rouse-doors"}
	require.NoError(t, f.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: f.keys.Name}}))
	skip := true
	mgr, err := ctrl.NewManager(environment.Config, ctrl.Options{
		Scheme: environment.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &skip},
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{f.namespace: {}}},
	})
	require.NoError(t, err)
	ring, err := keyring.New(mgr, f.keys)
	require.NoError(t, err)
	options := Options{Share: door.Share{Doors: 2}}
	require.NoError(t, Setup(mgr, Parts{Hosts: f.hosts, Changed: f.changed, Reports: f.hosts, Keyring: ring}, options))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = mgr.Start(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return f
}

// create makes a Door of GitHub that change changes.
func (f *fixture) create(t *testing.T, name string, change func(*v1alpha1.DoorSpec)) *v1alpha1.Door {
	t.Helper()
	d := &v1alpha1.Door{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name},
		Spec: v1alpha1.DoorSpec{
			Gateway: "kyma-system/kyma-gateway", Host: "hooks", Path: "/" + name,
			Webhook: &v1alpha1.DoorWebhook{Scheme: v1alpha1.SchemeGitHub, SecretName: "github"},
		},
	}
	change(&d.Spec)
	require.NoError(t, f.Create(t.Context(), d))
	return d
}

func (f *fixture) secret(t *testing.T, name string, data map[string][]byte) {
	t.Helper()
	require.NoError(t, f.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}, Data: data}))
}

// awaitReady returns the status once Ready has a reason.
func (f *fixture) awaitReady(t *testing.T, d *v1alpha1.Door, reason string) (message string, status v1alpha1.DoorStatus) {
	t.Helper()
	found := &v1alpha1.Door{}
	require.Eventually(t, func() bool {
		if f.Get(t.Context(), client.ObjectKeyFromObject(d), found) != nil {
			return false
		}
		ready := meta.FindStatusCondition(found.Status.Conditions, v1alpha1.ConditionReady)
		if ready != nil {
			message = ready.Message
		}
		return ready != nil && ready.Reason == reason
	}, timeout, tick, reason)
	return message, found.Status
}

func unchanged(*v1alpha1.DoorSpec) {}

func TestADoorIsReadyOnceItsSecretIsThereAndItsHostIsServed(t *testing.T) {
	t.Parallel()
	f := start(t)
	d := f.create(t, "github", unchanged)
	message, _ := f.awaitReady(t, d, v1alpha1.ReasonSecretMissing)
	require.Contains(t, message, "Secret github")
	f.secret(t, "github", map[string][]byte{"current": []byte("new"), "previous": []byte("old"), "other": []byte("mine")})
	_, status := f.awaitReady(t, d, v1alpha1.ReasonOpen)
	require.Equal(t, "https://hooks.example.com/github", status.URL)
	ring := &corev1.Secret{}
	require.NoError(t, f.Get(t.Context(), f.keys, ring))
	require.Equal(t, map[string][]byte{door.KeyName(d, "current"): []byte("new"), door.KeyName(d, "previous"): []byte("old")}, ring.Data)
}

// authority issues certificates of clients.
var authority = func() string {
	pair, err := loopback.MakeClient("authority", nil)
	if err != nil {
		panic(err)
	}
	return string(pair.Certificate)
}()

func TestReadySaysWhyRequestsBecomeNoEvents(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.secret(t, "github", map[string][]byte{"current": []byte("new")})
	f.hosts.all["taken"] = apirules.DoorHost{Problem: "Host is occupied by another APIRule bank/price"}
	f.hosts.all["slow"] = apirules.DoorHost{Host: "slow.example.com", Pending: "1 of 2 gateways have not loaded it yet"}
	f.hosts.all["routed"] = apirules.DoorHost{Host: "routed.example.com", Routed: true}
	routed := f.create(t, "routed", func(s *v1alpha1.DoorSpec) {
		s.Host, s.Webhook, s.CloudEvents = "routed", nil, &v1alpha1.DoorCloudEvents{}
		s.ClientCertificates = &v1alpha1.DoorClientCertificates{CA: authority, Subjects: []string{"commerce"}}
	})
	message, _ := f.awaitReady(t, routed, v1alpha1.ReasonNotExposed)
	require.Contains(t, message, "which ends TLS")
	require.NoError(t, f.Delete(t.Context(), routed))
	taken := f.create(t, "a", func(s *v1alpha1.DoorSpec) { s.Host = "taken" })
	message, _ = f.awaitReady(t, taken, v1alpha1.ReasonNotExposed)
	require.Contains(t, message, "bank/price")
	slow := f.create(t, "b", func(s *v1alpha1.DoorSpec) { s.Host = "slow" })
	f.awaitReady(t, slow, v1alpha1.ReasonLoading)
	third := f.create(t, "c", unchanged)
	message, _ = f.awaitReady(t, third, v1alpha1.ReasonShareExceeded)
	require.Contains(t, message, "may have 2")
	require.NoError(t, f.Delete(t.Context(), slow))
	require.NoError(t, f.Delete(t.Context(), taken))
	f.awaitReady(t, third, v1alpha1.ReasonOpen)
	same := f.create(t, "same", func(s *v1alpha1.DoorSpec) { s.Path = "/c" })
	message, _ = f.awaitReady(t, same, v1alpha1.ReasonNotExposed)
	require.Contains(t, message, "Door c has the same host and path")
	require.NoError(t, f.Delete(t.Context(), same))
	broken := f.create(t, "broken", func(s *v1alpha1.DoorSpec) { s.Webhook.Event.Type = "body.action" })
	message, _ = f.awaitReady(t, broken, v1alpha1.ReasonInvalid)
	require.Contains(t, message, "spec.webhook.event.type")
}

func TestTheStatusTellsWhatBridgesReport(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.secret(t, "github", map[string][]byte{"current": []byte("new")})
	d := f.create(t, "github", unchanged)
	f.awaitReady(t, d, v1alpha1.ReasonOpen)
	at := time.Unix(1792000000, 0)
	f.hosts.reports <- []byte("nonsense")
	f.hosts.reports <- door.EncodeReports(map[types.UID]*door.Report{d.UID: {Accepted: at, Key: "previous", KeyUsed: at}})
	f.hosts.reports <- door.EncodeReports(map[types.UID]*door.Report{d.UID: {Refused: at, Reason: "the request has no signature", Expires: at}})
	f.changed <- event.GenericEvent{Object: d}
	require.Eventually(t, func() bool {
		_, status := f.awaitReady(t, d, v1alpha1.ReasonOpen)
		return status.LastAccepted != nil && status.LastRefused != nil && status.LastRefused.Reason == "the request has no signature" &&
			status.LastKey != nil && status.LastKey.Name == "previous" && status.CertificateExpires != nil
	}, timeout, tick)
}
