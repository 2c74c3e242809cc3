package credentials

import (
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/testing/envtest"
)

// cluster is the control plane of all tests here.
var cluster = envtest.New()

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

func TestAJobWaitsForTheNamespaceOfKEDAAndLogsNoPassword(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	objects, err := client.New(env.Config, client.Options{})
	require.NoError(t, err)
	o := options()
	o.Namespace, o.KEDANamespace, o.Timeout = env.Namespace(t), "keda-of-"+env.Namespace(t), time.Minute

	var logged string
	waits := make(chan struct{}, 100)
	log := funcr.New(func(_, args string) {
		logged += args + "\n"
		select {
		case waits <- struct{}{}:
		default:
		}
	}, funcr.Options{})
	made := make(chan error, 1)
	go func() { made <- Make(t.Context(), objects, o, log) }()
	<-waits // it has started
	require.NoError(t, objects.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.KEDANamespace}}))
	require.NoError(t, <-made)

	for _, name := range Needed(o) {
		secret := &corev1.Secret{}
		require.NoError(t, objects.Get(t.Context(), name, secret))
		for key, value := range secret.Data {
			if key == "password" || key == "accountKey" || key == "controller" || key == "tls.key" {
				require.NotContains(t, logged, string(value), "%s of %s", key, name)
			}
		}
	}
	before := logged
	require.NoError(t, Make(t.Context(), objects, o, log), "a second Job")
	require.Equal(t, before, logged, "it must not write again")
}

func TestCredentialsReportAMissingNamespace(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	objects, err := client.New(env.Config, client.Options{})
	require.NoError(t, err)
	o := options()
	o.Namespace, o.KEDANamespace, o.Timeout = env.Namespace(t), "nowhere", time.Second
	err = Make(t.Context(), objects, o, funcr.New(func(string, string) {}, funcr.Options{}))
	require.EqualError(t, err, `write Secret rouse-scaler-keda: namespace "nowhere" does not exist: create it, or set keda.namespace to KEDA's`)
}

func options() *Options {
	return &Options{
		Release: "rouse", Namespace: "rouse-system", NATSUsers: []string{"controller", "scaler"},
		RegistryPush: "rouse-registry.rouse-system.svc:5000", RegistryPull: "localhost:32137", KEDANamespace: "keda", Timeout: 1,
	}
}

// written returns all Secrets after one Job.
func written(t *testing.T, known map[types.NamespacedName]*corev1.Secret) map[types.NamespacedName]*corev1.Secret {
	t.Helper()
	changed, err := Decide(options(), known)
	require.NoError(t, err)
	all := map[types.NamespacedName]*corev1.Secret{}
	maps.Copy(all, known)
	for _, secret := range changed {
		all[types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}] = secret
	}
	return all
}

func TestInstallationWithoutSecretsGetsTheRequiredOnes(t *testing.T) {
	t.Parallel()
	all := written(t, nil)
	require.Len(t, all, 5)
	for _, name := range Needed(options()) {
		require.Contains(t, all, name)
		require.Equal(t, "rouse-credentials", all[name].Labels["app.kubernetes.io/managed-by"])
	}
	nats := all[options().nats()].Data
	require.Len(t, nats["controller"], 26)
	require.NotEqual(t, nats["controller"], nats["scaler"])
	require.Equal(t, "rouse_controller_password: \""+string(nats["controller"])+"\"\nrouse_scaler_password: \""+string(nats["scaler"])+"\"\n", string(nats["passwords.conf"]))
	registry := all[options().registry()]
	require.Equal(t, "config", registry.Labels["serverless.kyma-project.io/remote-registry"])
	require.Equal(t, "true", string(registry.Data["isInternal"]))
	require.NotEqual(t, registry.Data["password"], registry.Data["accountKey"])
}

func TestExistingCredentialsStayUnchanged(t *testing.T) {
	t.Parallel()
	all := written(t, nil)
	changed, err := Decide(options(), all)
	require.NoError(t, err)
	require.Empty(t, changed)
}

func TestOnlyMissingCredentialsAreGenerated(t *testing.T) {
	t.Parallel()
	all := written(t, nil)
	nats := options().nats()
	before := all[nats].DeepCopy()
	delete(all[nats].Data, "scaler")
	all[nats].Labels["team"] = "a"
	after := written(t, all)[nats]
	require.Equal(t, before.Data["controller"], after.Data["controller"])
	require.NotEmpty(t, after.Data["scaler"])
	require.NotEqual(t, before.Data["scaler"], after.Data["scaler"])
	require.Contains(t, string(after.Data["passwords.conf"]), string(after.Data["scaler"]))
	require.Equal(t, "a", after.Labels["team"])
}

func TestCertificatesOfTwoAuthoritiesAreMadeTogether(t *testing.T) {
	t.Parallel()
	mixed := written(t, nil)
	mixed[options().keda()] = written(t, nil)[options().keda()]
	after := written(t, mixed)
	require.NotEqual(t, mixed[options().scaler()].Data["ca.crt"], after[options().scaler()].Data["ca.crt"])
	require.Equal(t, after[options().scaler()].Data["ca.crt"], after[options().keda()].Data["ca.crt"])
}

func TestTheScalerAndKEDATrustEachOther(t *testing.T) {
	t.Parallel()
	all := written(t, nil)
	load := func(name types.NamespacedName) (tls.Certificate, *x509.CertPool) {
		data := all[name].Data
		pair, err := tls.X509KeyPair(data["tls.crt"], data["tls.key"])
		require.NoError(t, err)
		pool := x509.NewCertPool()
		require.True(t, pool.AppendCertsFromPEM(data["ca.crt"]))
		return pair, pool
	}
	scaler, authority := load(options().scaler())
	keda, kedas := load(options().keda())
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{scaler}, ClientCAs: authority, ClientAuth: tls.RequireAndVerifyClientCert})
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	shaken := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			defer func() { _ = conn.Close() }()
			err = conn.(*tls.Conn).HandshakeContext(t.Context())
		}
		shaken <- err
	}()
	plain, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", listener.Addr().String())
	require.NoError(t, err)
	conn := tls.Client(plain, &tls.Config{RootCAs: kedas, Certificates: []tls.Certificate{keda}, ServerName: "rouse-scaler.rouse-system.svc.cluster.local"})
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.HandshakeContext(t.Context()))
	require.NoError(t, <-shaken)
}

func TestContradictingOptionsAreRejected(t *testing.T) {
	t.Parallel()
	require.NoError(t, flags.Validate(options()))
	for want, change := range map[string]func(*Options){
		"--namespace must not be empty": func(o *Options) { o.Namespace = "" },
		"--registry-push-address":       func(o *Options) { o.RegistryPull = "" },
		"--timeout":                     func(o *Options) { o.Timeout = 0 },
	} {
		o := options()
		change(o)
		require.True(t, strings.HasPrefix(flags.Validate(o).Error(), want), want)
	}
}
