package credentials

import (
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	<-waits // it has begun
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
	require.Equal(t, before, logged, "it writes nothing")
}

func TestAJobThatCannotWriteSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	objects, err := client.New(env.Config, client.Options{})
	require.NoError(t, err)
	o := options()
	o.Namespace, o.KEDANamespace, o.Timeout = env.Namespace(t), "nowhere", time.Second
	err = Make(t.Context(), objects, o, funcr.New(func(string, string) {}, funcr.Options{}))
	require.EqualError(t, err, `write the Secret rouse-scaler-keda: there is no namespace "nowhere": make it, or name KEDA's in keda.namespace`)
}
