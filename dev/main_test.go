package dev

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/dev/instance"
	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/dev/runner"
	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/internal/testing/output"
)

// roleDirectory, roleState and roleCache make the test binary run local mode.
const (
	roleDirectory = "ROUSE_TEST_DEV_DIRECTORY"
	roleState     = "ROUSE_TEST_DEV_STATE"
)

func TestMain(m *testing.M) {
	process.Keep()
	if directory := os.Getenv(roleDirectory); directory != "" {
		os.Exit(beLocalMode(directory, os.Getenv(roleState)))
	}
	os.Exit(m.Run())
}

// beLocalMode runs local mode like the command.
func beLocalMode(directory, state string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	o := DefaultOptions()
	o.Directory, o.State, o.Plain, o.Out = directory, state, true, os.Stdout
	if err := Run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

const (
	// testTimeout allows for slow machines and the installation of packages.
	testTimeout  = 3 * time.Minute
	pollInterval = 20 * time.Millisecond
	orders       = "../samples/orders"
	received     = orders + "/events/order-received.json"
)

// fixture is a local mode that runs in this process.
type fixture struct {
	instance.Instance

	state string
	out   *output.Buffer
	stop  func() error // and wait
}

// run starts a local mode and waits until it announces itself.
func run(t *testing.T, directory string, change ...func(*Options)) *fixture {
	t.Helper()
	o := DefaultOptions()
	w := &fixture{out: &output.Buffer{}}
	o.Directory, o.State, o.Plain, o.Out = directory, t.TempDir(), true, w.out
	for _, c := range change {
		c(&o)
	}
	w.state = o.State
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	var err error
	go func() {
		defer close(ended)
		err = Run(ctx, o)
	}()
	w.stop = func() error {
		cancel()
		<-ended
		return err
	}
	t.Cleanup(func() {
		_ = w.stop()
		if t.Failed() {
			t.Logf("output:\n%s", w.out)
			log, _ := os.ReadFile(filepath.Join(stateOf(t, o), logFile))
			t.Logf("log:\n%s", log)
		}
	})
	await(t, "the local mode is found", func() bool {
		select {
		case <-ended:
			require.FailNow(t, "it ended", "%v\n%s", err, w.out)
		default:
		}
		var found error
		w.Instance, found = instance.Find(o.State, directory)
		return found == nil
	})
	return w
}

func stateOf(t *testing.T, o Options) string {
	t.Helper()
	folder, err := instance.Folder(o.State, o.Directory)
	require.NoError(t, err)
	return folder
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); !holds(); time.Sleep(pollInterval) {
		require.True(t, time.Now().Before(deadline), "it does not come to hold that %s", what)
	}
}

func (w *fixture) get(t *testing.T, url string, into any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+w.Token)
	response, err := loopback.Default.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.NoError(t, json.NewDecoder(response.Body).Decode(into))
}

func (w *fixture) functions(t *testing.T) map[string]Function {
	t.Helper()
	var list List
	w.get(t, w.Control+"/v1/functions", &list)
	found := map[string]Function{}
	for _, fn := range list.Functions {
		found[fn.Name] = fn
	}
	return found
}

// printed returns the output of a Function.
func (w *fixture) printed(t *testing.T, name string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		w.Control+"/v1/functions/orders/"+name+"/log?tail=-1", http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+w.Token)
	response, err := loopback.Default.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	var text strings.Builder
	for lines := json.NewDecoder(response.Body); lines.More(); {
		var line process.Line
		require.NoError(t, lines.Decode(&line))
		text.WriteString(line.Text + "\n")
	}
	return text.String()
}

// emit publishes an event of the shop.
func (w *fixture) emit(t *testing.T, id, data string) {
	t.Helper()
	body := fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"shop","type":"order.received","datacontenttype":"application/json","data":%s}`, id, data)
	events, err := parseEvents([]byte(body))
	require.NoError(t, err)
	require.NoError(t, newPublisher(w.Publish).publish(t.Context(), events))
}

func (w *fixture) asleep(t *testing.T, names ...string) bool {
	t.Helper()
	all := w.functions(t)
	for _, name := range names {
		if all[name].Phase != runner.Asleep {
			return false
		}
	}
	return true
}

// write writes a file into a folder.
func write(t *testing.T, directory, name, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(directory, name), []byte(content), 0o600))
}

// greeter returns a Function that prints, with its Subscription.
func greeter(source string) string {
	return `apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
metadata: {name: greeter, namespace: orders}
spec:
  runtime: nodejs22
  scaleConfig: {minReplicas: 0, maxReplicas: 1}
  source:
    inline:
      source: |
        ` + strings.ReplaceAll(source, "\n", "\n        ") + `
---
apiVersion: eventing.kyma-project.io/v1alpha2
kind: Subscription
metadata: {name: greeter, namespace: orders}
spec:
  source: shop
  types: [order.received]
  sink: http://greeter.orders.svc.cluster.local
`
}

func prints(text string) string {
	return "module.exports.main = event => { console.log('" + text + "', event.data.id) }"
}
