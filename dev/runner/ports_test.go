package runner

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

func named(name string) func(*serverlessv1alpha2.Function) {
	return func(fn *serverlessv1alpha2.Function) { fn.Name = name }
}

// urls returns the URLs of all Functions, once each has one.
func (w *fixture) urls() map[string]string {
	w.t.Helper()
	found := map[string]string{}
	w.await("with a port each", func(Status) bool {
		for _, status := range w.Status() {
			found[status.Name] = status.URL
		}
		for _, url := range found {
			if url == "" {
				return false
			}
		}
		return true
	})
	return found
}

func TestAFunctionKeepsItsPortOverRestartsAndNewFunctions(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ports.json")
	options := Options{FirstPort: loopback.ReserveRow(t, 3), Ports: file}
	asleep := sleeps(0, 1)
	w := run(t, options)
	w.Apply(set(function("serve v1", asleep), function("serve v1", asleep, named("recorder"))), nil)
	before := w.urls()
	w.stop()

	w = run(t, options)
	w.Apply(set(function("serve v1", asleep, named("added")), function("serve v1", asleep, named("recorder"))), nil)
	after := w.urls()
	require.Equal(t, before["recorder"], after["recorder"], "its port is not that of its place in the list")
	require.NotContains(t, before, after["added"])
	require.NotEqual(t, before["pricing"], after["added"], "pricing may come back")
	w.stop()

	w = run(t, options)
	w.Apply(set(function("serve v1", asleep)), nil)
	require.Equal(t, before["pricing"], w.urls()["pricing"])
}

func TestTakenFrontPortIsReplacedForGoodAndReported(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ports.json")
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	port := taken.Addr().(*net.TCPAddr).Port
	require.NoError(t, os.WriteFile(file, []byte(`{"orders/pricing":`+strconv.Itoa(port)+`}`), 0o600))

	options := Options{FirstPort: loopback.Reserve(t), Ports: file} // which no other program takes meanwhile
	w := run(t, options)
	w.Apply(set(function("serve v1", sleeps(0, 1))), nil)
	url := w.urls()["pricing"]
	require.NotContains(t, url, ":"+strconv.Itoa(port))
	_, now, _ := strings.Cut(strings.TrimPrefix(url, "http://"), ":")
	require.Contains(t, w.logged(), "rouse: port "+strconv.Itoa(port)+" is taken by another program, so its own is "+now+" from now on")
	w.stop()

	require.NoError(t, taken.Close())
	w = run(t, options)
	w.Apply(set(function("serve v1", sleeps(0, 1))), nil)
	require.Equal(t, url, w.urls()["pricing"])
	require.NotContains(t, w.logged(), "taken")
}

func TestUnreadablePortsFileIsReplaced(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ports.json")
	require.NoError(t, os.WriteFile(file, []byte(`{`), 0o600))
	w := run(t, Options{Ports: file})
	w.Apply(set(function("serve v1", sleeps(0, 1))), nil)
	require.NotEmpty(t, w.urls()["pricing"])
	kept, err := readPorts(file)
	require.NoError(t, err)
	require.Contains(t, kept.given, pricing.String())
}

func TestPortsOfDeletedFunctionsAreForgottenAboveALimit(t *testing.T) {
	t.Parallel()
	p, err := readPorts("")
	require.NoError(t, err)
	all := map[types.NamespacedName]*unit{pricing: {}}
	require.NoError(t, p.give(pricing, 1, all))
	for i := range mostPorts {
		require.NoError(t, p.give(types.NamespacedName{Namespace: "orders", Name: strconv.Itoa(i)}, i+2, all))
	}
	require.Len(t, p.given, 2)
	require.Contains(t, p.given, pricing.String())
}
