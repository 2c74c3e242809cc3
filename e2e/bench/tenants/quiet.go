package tenants

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
	"github.com/rouse-run/rouse/e2e/framework/sources"
	"github.com/rouse-run/rouse/e2e/rig"
)

const (
	nodeJS    = "nodejs22"
	eventType = "quiet.v1"
	hostLabel = "quiet"
	// between is how long the publisher waits between two events.
	between = 20 * time.Millisecond
	// ended bounds each thing that the quiet tenant does.
	ended = 5 * time.Minute
)

// eventKind is the one kind that is done many times a round.
const eventKind = "event"

// kinds are what is measured, in the order in which it is done and shown.
var kinds = []string{"apply", eventKind, "wake", "git", "build"}

// measured are durations by kind.
type measured map[string][]time.Duration

// quiet is a tenant that does a few things that every tenant does.
type quiet struct {
	cluster    *framework.Cluster
	namespace  string
	kinds      []string
	events     int
	refused    int // attempts to publish
	repository *sources.Repository
	done       int // rounds of the run, so that no name or answer comes twice
}

func (q *quiet) prepare(ctx context.Context) (err error) {
	if q.namespace, err = q.cluster.CreateNamespace(ctx, "quiet"); err != nil {
		return err
	}
	if err := q.cluster.StartLedger(ctx, q.namespace); err != nil {
		return err
	}
	server, err := sources.Start(ctx, q.cluster, q.namespace)
	if err != nil {
		return err
	}
	if q.repository, err = server.Repository(ctx, "quiet", false); err != nil {
		return err
	}
	if err := q.commit(ctx, "first"); err != nil {
		return err
	}
	fast := map[string]string{"rouse.run/polling-interval": "1", "rouse.run/cooldown-period": "1"}
	manifest := strings.Join([]string{
		framework.Function{Name: "events", Runtime: nodeJS, Source: framework.ReportingHandler("")}.YAML(),
		// So many at a time that no event waits for the reports of those before it, which are events too.
		framework.Subscription{Name: "events", Namespace: q.namespace, Type: eventType, Sink: "events", InFlight: 100}.YAML(),
		framework.Function{Name: "sleeper", Runtime: nodeJS, Source: answer("awake"), Asleep: true, Annotations: fast}.YAML(),
		framework.APIRule{Name: "sleeper", Host: hostLabel, Service: "sleeper", Gateway: framework.OwnGateway}.YAML(),
		framework.Function{
			Name: "deployed", Runtime: nodeJS, Git: &framework.Git{URL: q.repository.HTTP(), Reference: "main", BaseDir: "/"},
		}.YAML(),
	}, "---\n")
	if err := q.cluster.ApplyYAML(ctx, q.namespace, manifest); err != nil {
		return err
	}
	if err := q.cluster.AwaitState(ctx, q.namespace, "sleeper", "Ready", "", ended); err != nil {
		return err
	}
	if err := q.cluster.AwaitSubscribed(ctx, q.namespace, "events"); err != nil {
		return err
	}
	return q.cluster.AwaitAnswer(ctx, q.namespace, "deployed", "first", ended)
}

func (q *quiet) end(ctx context.Context) error {
	if q.namespace == "" {
		return nil
	}
	return q.cluster.DeleteNamespace(ctx, q.namespace)
}

// measure does everything once a round.
func (q *quiet) measure(ctx context.Context, when string, rounds int) (measured, error) {
	all := measured{}
	for round := range rounds {
		q.done++
		for _, what := range q.kinds {
			took, err := q.do(ctx, what)
			if err != nil {
				return nil, fmt.Errorf("round %d %s, %s: %w", round+1, when, what, err)
			}
			all[what] = append(all[what], took...)
			fmt.Printf("%d/%d  %-7s  %-6s %8.0f ms\n", round+1, rounds, when, what, float64(framework.Percentile(took, 99).Microseconds())/1000)
		}
	}
	return all, nil
}

func (q *quiet) do(ctx context.Context, what string) ([]time.Duration, error) {
	if what == eventKind {
		return q.publish(ctx)
	}
	once := map[string]func(context.Context) (time.Duration, error){"apply": q.apply, "wake": q.wake, "git": q.deploy, "build": q.build}
	took, err := once[what](ctx)
	return []time.Duration{took}, err
}

// apply is the time until a new Function without dependencies runs.
func (q *quiet) apply(ctx context.Context) (time.Duration, error) {
	return q.run(ctx, framework.Function{Name: "applied-" + strconv.Itoa(q.done), Runtime: nodeJS, Source: answer("applied")})
}

// build is the time until a new Function runs whose dependencies nobody has built yet.
func (q *quiet) build(ctx context.Context) (time.Duration, error) {
	return q.run(ctx, framework.Function{
		Name: "built-" + strconv.Itoa(q.done), Runtime: nodeJS, Source: answer("built"),
		Dependencies: fmt.Sprintf(`{"name":"quiet-%s-%d","dependencies":{"is-number":"7.0.0"}}`, q.namespace, q.done),
	})
}

func (q *quiet) run(ctx context.Context, function framework.Function) (took time.Duration, err error) {
	began := time.Now()
	if err := q.cluster.ApplyYAML(ctx, q.namespace, function.YAML()); err != nil {
		return 0, err
	}
	running, err := q.cluster.MomentOfRunning(ctx, q.namespace, function.Name, 1)
	if err != nil {
		return 0, err
	}
	applied, err := q.cluster.Function(ctx, q.namespace, function.Name)
	if err != nil {
		return 0, err
	}
	if err := q.cluster.Delete(ctx, applied); err != nil {
		return 0, fmt.Errorf("delete %s: %w", function.Name, err)
	}
	return running.Sub(began), q.cluster.AwaitNoPods(ctx, q.namespace, function.Name, ended)
}

// publish is how long each event took from its publisher until a handler had it. The publisher is at the Service, as one in a pod is, and
// not behind the API server; one that is refused comes again, which takes its time.
func (q *quiet) publish(ctx context.Context) ([]time.Duration, error) {
	bridge, err := q.addressOf(ctx, "rouse-eventbridge")
	if err != nil {
		return nil, err
	}
	published := map[string]time.Time{}
	keys := make([]string, q.events)
	for i := range keys {
		key := fmt.Sprintf("%s-%d-%d", q.namespace, q.done, i)
		keys[i], published[key] = key, time.Now()
		if err := q.send(ctx, bridge+"/publish", key); err != nil {
			return nil, err
		}
		time.Sleep(between)
	}
	entries, err := q.cluster.AwaitLedger(ctx, q.namespace, keys, ended)
	if err != nil {
		return nil, err
	}
	took := make([]time.Duration, 0, len(keys))
	for _, key := range keys {
		handled := time.UnixMicro(int64(entries[key].At * 1000))
		took = append(took, handled.Sub(published[key]))
	}
	return took, nil
}

func (q *quiet) send(ctx context.Context, url, key string) error {
	for began := time.Now(); ; q.refused++ {
		event := rig.Event{ID: key, Source: framework.Source, Type: eventType, Data: fmt.Sprintf(`{"key":%q}`, key)}
		status, _, err := event.Publish(ctx, http.DefaultClient, url)
		if err != nil {
			return err
		}
		if status == http.StatusNoContent {
			return nil
		}
		if time.Since(began) > ended {
			return fmt.Errorf("publish %s: the answer is %d", key, status)
		}
		time.Sleep(between)
	}
}

// addressOf is where a Service of Rouse's is for who is in the cluster.
func (q *quiet) addressOf(ctx context.Context, name string) (string, error) {
	service := &corev1.Service{}
	if err := q.cluster.Get(ctx, client.ObjectKey{Namespace: framework.System, Name: name}, service); err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	return "http://" + service.Spec.ClusterIP, nil
}

// wake is how long a request to a Function at zero took until its answer came, from outside.
func (q *quiet) wake(ctx context.Context) (time.Duration, error) {
	if err := q.cluster.AwaitNoPods(ctx, q.namespace, "sleeper", ended); err != nil {
		return 0, err
	}
	gateway, err := q.addressOf(ctx, "rouse-gateway-http")
	if err != nil {
		return 0, err
	}
	began := time.Now()
	for {
		status, err := ask(ctx, gateway, hostLabel+"."+framework.OwnDomain)
		if err != nil {
			return 0, err
		}
		if status == http.StatusOK {
			return time.Since(began), nil
		}
		if time.Since(began) > ended { // a caller who is told to come again does
			return 0, fmt.Errorf("the gateway answers %d", status)
		}
		time.Sleep(between)
	}
}

func ask(ctx context.Context, url, host string) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("make a request: %w", err)
	}
	request.Host = host
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: ended}).Do(request)
	if err != nil {
		return 0, fmt.Errorf("ask %s: %w", host, err)
	}
	return response.StatusCode, response.Body.Close()
}

// deploy is how long it took from a commit until pods answer by it.
func (q *quiet) deploy(ctx context.Context) (time.Duration, error) {
	want := fmt.Sprintf("commit %d", q.done)
	if err := q.commit(ctx, want); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := q.cluster.Annotate(ctx, q.namespace, "deployed", map[string]string{"rouse.run/check-git": want}); err != nil {
		return 0, err
	}
	for {
		got, err := q.cluster.Answer(ctx, q.namespace, "deployed")
		if err == nil && got == want {
			return time.Since(began), nil
		}
		if time.Since(began) > ended {
			return 0, fmt.Errorf("the Function answers %q: %w", got, err)
		}
		time.Sleep(between)
	}
}

func (q *quiet) commit(ctx context.Context, text string) error {
	_, err := q.repository.Commit(ctx, "main", map[string]string{"handler.js": answer(text)})
	return err
}

func answer(text string) string { return fmt.Sprintf("module.exports.main = () => '%s'\n", text) }
