package credentials

import (
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func options() *Options {
	return &Options{
		Release: "rouse", Namespace: "rouse-system", NATSUsers: []string{"controller", "scaler"},
		RegistryPush: "rouse-registry.rouse-system.svc:5000", RegistryPull: "localhost:32137", KEDANamespace: "keda", Timeout: 1,
	}
}

// written are all Secrets after one Job.
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

func TestAnInstallationWithoutSecretsGetsThoseThatItNeeds(t *testing.T) {
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

func TestWhatIsThereStaysAsItIs(t *testing.T) {
	t.Parallel()
	all := written(t, nil)
	changed, err := Decide(options(), all)
	require.NoError(t, err)
	require.Empty(t, changed)
}

func TestOnlyWhatIsMissingIsMade(t *testing.T) {
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

func TestOptionsThatContradictEachOtherAreRefused(t *testing.T) {
	t.Parallel()
	require.NoError(t, options().Validate())
	for want, change := range map[string]func(*Options){
		"--release and --namespace": func(o *Options) { o.Namespace = "" },
		"--registry-push-address":   func(o *Options) { o.RegistryPull = "" },
		"--timeout":                 func(o *Options) { o.Timeout = 0 },
	} {
		o := options()
		change(o)
		require.True(t, strings.HasPrefix(o.Validate().Error(), want), want)
	}
}
