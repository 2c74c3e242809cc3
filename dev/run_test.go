package dev

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/instance"
	"github.com/rouse-run/rouse/dev/runner"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/internal/testing/output"
)

func TestAChainWakesAndGoesBackToSleep(t *testing.T) {
	t.Parallel()
	w := run(t, orders, func(o *Options) { o.Publish = []string{received} })
	await(t, "the invoice is recorded", func() bool { return strings.Contains(w.printed(t, "recorder"), "INV-order-1001") })
	await(t, "all are asleep", func() bool { return w.asleep(t, "pricing", "invoicing", "recorder") })
	for name, fn := range w.functions(t) {
		require.GreaterOrEqual(t, fn.Wakes, 1, name)
		require.Zero(t, *fn.Backlog, name)
	}
	require.Equal(t, "orders", w.Namespace)
	require.NoError(t, w.stop())
	require.Regexp(t, `rouse    stopped; nothing is pending\n$`, w.out.String())
	_, err := instance.Find(w.state, orders)
	require.ErrorIs(t, err, instance.ErrNone)
}

func TestRunWithOnceAccountsForEveryDelivery(t *testing.T) {
	t.Parallel()
	out := &output.Buffer{}
	o := DefaultOptions()
	o.Directory, o.State, o.Out, o.Once, o.Publish = orders, t.TempDir(), out, true, []string{received}
	for range 2 { // the second run must not use state of the first
		err := Run(t.Context(), o)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		require.NoError(t, err, out)
		require.Regexp(t, `^run ok: events=3 lost=0 wake_to_first_byte_p50_ms=[1-9][0-9]*$`, lines[len(lines)-1])
		entries, err := filepath.Glob(filepath.Join(stateOf(t, o), "once-*"))
		require.NoError(t, err)
		require.Empty(t, entries)
	}
}

func TestRunWithOnceFailsWithTheEventOrFunctionThatFailed(t *testing.T) {
	t.Parallel()
	const needs = "inline:\n      dependencies: '{\"dependencies\": {\"nothing\": \"file:nowhere.tgz\"}}'\n"
	for name, tc := range map[string]struct{ manifest, kind, want string }{
		"a dead letter": {
			greeter("module.exports.main = event => { event.setResponseStatus(400); return 'no' }"), "order.received",
			`^run failed: 1 event became a dead letter: order\.received 1 from shop at orders/greeter: sink refused the event, status 400$`,
		},
		"an event without a Subscription": {
			greeter(prints("up")), "order.other",
			`^run failed: 1 event was wanted by no Subscription: order\.other 1 from shop$`,
		},
		"an event of a Function without a Subscription": {
			greeter("module.exports.main = event => event.emitCloudEvent('order.greeted', 'greeter', {}, {id: '2'})"), "order.received",
			`^run failed: 1 event was wanted by no Subscription: order\.greeted 2 from greeter$`,
		},
		"a handler that throws while loading": {
			greeter("throw new Error('cannot start')"), "order.received",
			`^run failed: 1 Function did not load: orders/greeter: .*fn\.yaml:10: Error: cannot start \(exit status 1\)$`,
		},
		"a handler that is not JavaScript": {
			greeter("module.exports.main = event => {"), "order.received",
			`^run failed: 1 Function did not load: orders/greeter: .*fn\.yaml:1\d: SyntaxError: .*$`,
		},
		"one that always runs and throws": {
			strings.Replace(greeter("throw new Error('cannot start')"), "scaleConfig: {minReplicas: 0, maxReplicas: 1}", "replicas: 1", 1), "order.received",
			`^run failed: 1 Function did not load: orders/greeter: .*cannot start.*$`,
		},
		"a dependency that does not install": {
			strings.Replace(greeter(prints("up")), "inline:\n", needs, 1), "order.received",
			`^run failed: 1 Function did not load: orders/greeter: .*fn\.yaml:1: \w+: .*$`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			directory, out := t.TempDir(), &output.Buffer{}
			write(t, directory, "fn.yaml", tc.manifest)
			write(t, directory, "event.json", `{"specversion":"1.0","id":"1","source":"shop","type":"`+tc.kind+`","data":{"id":"1"}}`)
			o := DefaultOptions()
			o.Directory, o.State, o.Out, o.Once, o.Cooldown = directory, t.TempDir(), out, true, time.Second
			o.Publish = []string{filepath.Join(directory, "event.json")}
			require.ErrorIs(t, Run(t.Context(), o), ErrFailed)
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			require.Regexp(t, tc.want, lines[len(lines)-1])
		})
	}
}

func TestEventWithoutSubscriptionIsShownWithASuggestion(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	write(t, directory, "fn.yaml", greeter(prints("hello")))
	w := run(t, directory)
	mistyped := cloudevent.Event{ID: "1", Source: "shop", Type: "order.receivd"}
	require.NoError(t, newPublisher(w.Publish).publish(t.Context(), []cloudevent.Event{mistyped}))
	w.emit(t, "2", `{"id":"2"}`)
	await(t, "both are shown", func() bool {
		return strings.Contains(w.out.String(), "order.receivd 1 shop → nobody: stored; no Subscription takes it; did you mean order.received from shop?") &&
			strings.Contains(w.out.String(), "order.received 2 shop → ...: stored")
	})
}

func TestARequestWakesAFunction(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	write(t, directory, "fn.yaml", greeter("module.exports.main = () => 'hello'"))
	w := run(t, directory)
	await(t, "the Function's port", func() bool { return w.functions(t)["greeter"].URL != "" })
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.functions(t)["greeter"].URL, http.NoBody)
	require.NoError(t, err)
	response, err := loopback.Default.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	await(t, "it sleeps", func() bool { return w.asleep(t, "greeter") })
}

func TestChangedFileTakesEffectAtOnce(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	write(t, directory, "fn.yaml", greeter(prints("first version")))
	w := run(t, directory)
	w.emit(t, "1", `{"id":"1"}`)
	await(t, "the first version handles the event", func() bool { return strings.Contains(w.printed(t, "greeter"), "first version 1") })

	write(t, directory, "fn.yaml", greeter(prints("second version")))
	n := 1
	await(t, "the second version handles an event", func() bool {
		n++
		w.emit(t, strconv.Itoa(n), `{"id":"again"}`)
		return strings.Contains(w.printed(t, "greeter"), "second version again")
	})

	write(t, directory, "fn.yaml", greeter(prints("third version"))+"  nonsense: true\n")
	write(t, directory, "other.yaml", strings.ReplaceAll(greeter(prints("the other")), "greeter", "other"))
	await(t, "the rest goes on", func() bool { return w.consumers(t) == 2 })
	w.emit(t, "last", `{"id":"last"}`)
	await(t, "both have it", func() bool {
		return strings.Contains(w.printed(t, "other"), "the other last") && strings.Contains(w.printed(t, "greeter"), "version last")
	})
	require.Contains(t, w.out.String(), "fn.yaml:")
	require.Contains(t, w.out.String(), "nonsense")
}

func TestPendingEventsAreDeliveredAfterARestart(t *testing.T) {
	t.Parallel()
	directory, state := t.TempDir(), t.TempDir()
	keep := func(o *Options) { o.State = state }
	write(t, directory, "fn.yaml", greeter("throw new Error('cannot start')"))
	w := run(t, directory, keep)
	await(t, "its consumer is there", func() bool { return w.consumers(t) == 1 })
	w.emit(t, "1", `{"id":"kept"}`)
	await(t, "it fails", func() bool { return w.functions(t)["greeter"].Phase == runner.Failing })
	require.Contains(t, w.functions(t)["greeter"].LastError, "cannot start")
	require.NoError(t, w.stop())
	require.Regexp(t, `rouse    stopped; kept in `+regexp.QuoteMeta(w.state)+`/\S+: 1 event is pending \(1 for orders/greeter\); the next rouse dev`, w.out.String())

	write(t, directory, "fn.yaml", greeter(prints("it came:")))
	w = run(t, directory, keep)
	await(t, "it arrives", func() bool { return strings.Contains(w.printed(t, "greeter"), "it came: kept") })
	w.emit(t, "2", `{"id":"other"}`)
	require.NoError(t, w.stop())

	w = run(t, directory, keep, func(o *Options) { o.Fresh = true })
	w.emit(t, "3", `{"id":"new"}`)
	await(t, "a new one arrives", func() bool { return strings.Contains(w.printed(t, "greeter"), "it came: new") })
	require.NotContains(t, w.printed(t, "greeter"), "kept")
}

func TestFunctionKeepsItsPortAcrossNewFunctionsAndFresh(t *testing.T) {
	t.Parallel()
	directory, state := t.TempDir(), t.TempDir()
	write(t, directory, "fn.yaml", greeter(prints("up")))
	port := loopback.ReserveRow(t, 3) // of events and of both Functions: others look for theirs at the same time
	w := run(t, directory, func(o *Options) { o.State, o.Port = state, port })
	url := ""
	await(t, "the Function's port", func() bool { url = w.functions(t)["greeter"].URL; return url != "" })
	require.NoError(t, w.stop())

	write(t, directory, "added.yaml", strings.ReplaceAll(greeter(prints("up")), "greeter", "added"))
	w = run(t, directory, func(o *Options) { o.State, o.Port, o.Fresh = state, port, true })
	await(t, "both have one", func() bool { all := w.functions(t); return all["greeter"].URL != "" && all["added"].URL != "" })
	require.Equal(t, url, w.functions(t)["greeter"].URL)
}

func TestLoopingHandlerIsKilledAndItsEventIsRedelivered(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	loops := strings.Replace(greeter("module.exports.main = () => { for (;;); }"), "  runtime: nodejs22\n",
		"  runtime: nodejs22\n  env: [{name: FUNC_TIMEOUT, value: '0.1'}]\n", 1)
	write(t, directory, "fn.yaml", loops)
	w := run(t, directory)
	await(t, "its consumer is there", func() bool { return w.consumers(t) == 1 })
	w.emit(t, "1", `{"id":"1"}`)
	await(t, "it is reported", func() bool { return strings.Contains(w.printed(t, "greeter"), "handler greeter seems to loop") })
	await(t, "its time is over", func() bool { return strings.Contains(w.out.String(), "attempt 1: no answer from the sink in time") })
	await(t, "it is ended", func() bool { return w.functions(t)["greeter"].Restarts == 1 })
	await(t, "it is replaced", func() bool { return w.functions(t)["greeter"].Ready == 1 })

	write(t, directory, "fn.yaml", greeter(prints("mended")))
	await(t, "the event arrives", func() bool { return strings.Contains(w.printed(t, "greeter"), "mended 1") })
}

func TestStackTracesNameTheManifest(t *testing.T) {
	t.Parallel()
	directory, cache := t.TempDir(), t.TempDir()
	write(t, directory, "fn.yaml", greeter("const inner = event => event.data.a.b\nmodule.exports.main = event => inner(event)"))
	python := strings.NewReplacer("greeter", "other", "nodejs22", "python312")
	write(t, directory, "other.yaml", python.Replace(greeter("def main(event, context):\n    return event['data']['a']['b']")))
	w := run(t, directory, func(o *Options) { o.Cache = cache })
	await(t, "their consumers are there", func() bool { return w.consumers(t) == 2 })
	w.emit(t, "1", `{"id":"1"}`)
	await(t, "both have failed", func() bool {
		return strings.Contains(w.printed(t, "greeter"), "TypeError") && strings.Contains(w.printed(t, "other"), "KeyError")
	})
	require.Contains(t, w.printed(t, "greeter"), "    at inner ("+directory+"/fn.yaml:10)\n    at module.exports.main ("+directory+"/fn.yaml:11)\n")
	require.Contains(t, w.printed(t, "other"), "  File \""+directory+"/other.yaml\", line 11, in main\n    return event['data']['a']['b']\n")
	for _, name := range []string{"greeter", "other"} {
		require.NotContains(t, w.printed(t, name), cache)
		require.NotContains(t, w.printed(t, name), w.state)
		require.NotContains(t, w.printed(t, name), "handler.")
	}
}

func TestTheViewForgetsDeadLettersThatArePurged(t *testing.T) {
	t.Parallel()
	counts := make(chan map[types.NamespacedName]uint64, 1)
	greeter := types.NamespacedName{Namespace: "orders", Name: "greeter"}
	l := newDeadLetters(func(context.Context) (map[types.NamespacedName]uint64, error) {
		select {
		case next := <-counts:
			return next, nil
		default:
			return nil, context.Canceled // like an unavailable NATS
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.run(ctx) }()
	for _, next := range []map[types.NamespacedName]uint64{{greeter: 1}, {}} {
		_, changed := l.now()
		counts <- next
		<-changed
		now, _ := l.now()
		require.Equal(t, next, now)
	}
	cancel()
	require.NoError(t, <-ended)
}

// consumers returns the number of consumers in the admin API.
func (w *fixture) consumers(t *testing.T) int {
	t.Helper()
	var all struct {
		Subscriptions []struct{ Consumer bool }
	}
	w.get(t, w.Admin+"/v1/subscriptions", &all)
	return len(all.Subscriptions)
}

func TestASecondLocalModeForAFolderIsRefused(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	w := run(t, directory)
	o := DefaultOptions()
	o.Directory, o.State = directory, w.state
	err := Run(t.Context(), o)
	require.ErrorContains(t, err, "PID "+strconv.Itoa(os.Getpid()))
}

func TestStartReportsItsProgressAndItsEnd(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	write(t, directory, "fn.yaml", greeter("module.exports.main = () => 'hello'"))
	w := run(t, directory, func(o *Options) { o.Cache = t.TempDir() })
	await(t, "it is prepared", func() bool { return strings.Contains(w.out.String(), "rouse    up after ") })
	require.Regexp(t, `(?s)greeter  rouse: preparing the Node\.js runtime, once for this machine\n.*`+
		`greeter  rouse: done in \d+\.\d s: preparing the Node\.js runtime.*rouse    up after \d`, w.out.String())
	require.Empty(t, w.functions(t)["greeter"].Doing)
}

func TestFolderWithoutFunctionsIsReported(t *testing.T) {
	t.Parallel()
	w := run(t, t.TempDir())
	await(t, "the notice", func() bool { return strings.Contains(w.out.String(), "there is no Function in") })
}

func TestOccupiedPortIsReportedWithItsFlag(t *testing.T) {
	t.Parallel()
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	o := DefaultOptions()
	o.Directory, o.State, o.Port = t.TempDir(), t.TempDir(), portOf(taken)
	require.ErrorContains(t, Run(t.Context(), o), "--port")
	o.Port, o.APIRulesPort = 0, portOf(taken)
	require.ErrorContains(t, Run(t.Context(), o), "choose another with --apirules-port")
}

func TestInvalidOptionsAndEventsAreReported(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "event.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"id":"1"}`), 0o600))
	for name, tc := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"an invalid port":           {func(o *Options) { o.Port = 70000 }, "--port"},
		"another port":              {func(o *Options) { o.APIRulesPort = -1 }, "--apirules-port"},
		"no cooldown":               {func(o *Options) { o.Cooldown = 0 }, "--cooldown"},
		"once without events":       {func(o *Options) { o.Once = true }, "--publish"},
		"expect without once":       {func(o *Options) { o.Expect = file }, "--expect needs --once"},
		"expectations that are not": {func(o *Options) { o.Once, o.Expect = true, "no/such.yaml" }, "--expect: open no/such.yaml"},
		"wrong expectations":        {func(o *Options) { o.Once, o.Expect = true, file }, "read the expectations in " + file},
		"a folder that is not":      {func(o *Options) { o.Directory = "no/such" }, "folder no/such does not exist"},
		"a file that is not":        {func(o *Options) { o.Publish = []string{"no/such.json"} }, "no/such.json"},
		"a malformed event":         {func(o *Options) { o.Publish = []string{file} }, file},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := DefaultOptions()
			o.Directory, o.State = t.TempDir(), t.TempDir()
			tc.change(&o)
			require.ErrorContains(t, Run(t.Context(), o), tc.want)
		})
	}
}

func TestStoppedLocalModeLeavesNoProcess(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]syscall.Signal{"after Ctrl-C": syscall.SIGINT, "after it was killed hard": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			directory, state := t.TempDir(), t.TempDir()
			source := "require('child_process').spawn('sleep', ['86400'], {cwd: '" + directory + "'})\n" + prints("up")
			write(t, directory, "fn.yaml", greeter(source))
			command := exec.CommandContext(t.Context(), os.Args[0])
			command.Env = append(os.Environ(), roleDirectory+"="+directory, roleState+"="+state)
			out := &output.Buffer{}
			command.Stdout, command.Stderr = out, out
			require.NoError(t, command.Start())
			t.Cleanup(func() { _ = command.Process.Kill() })
			w := &fixture{state: state, out: out}
			await(t, "it is found", func() bool {
				var err error
				w.Instance, err = instance.Find(state, directory)
				return err == nil
			})
			await(t, "its consumer is there", func() bool { return w.consumers(t) == 1 })
			w.emit(t, "1", `{"id":"1"}`)
			await(t, "the Function runs", func() bool { return strings.Contains(w.printed(t, "greeter"), "up 1") })
			require.NotEmpty(t, left(t, directory), "the test finds its processes")

			require.NoError(t, command.Process.Signal(how))
			err := command.Wait()
			if how == syscall.SIGINT {
				require.NoError(t, err, out)
				require.Empty(t, left(t, directory), "all processes must have ended")
			}
			await(t, "the end of all processes", func() bool { return len(left(t, directory)) == 0 })
		})
	}
}

// left returns the processes whose working directory or arguments refer to a folder.
func left(t *testing.T, folder string) []string {
	t.Helper()
	var found []string
	processes, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	for _, process := range processes {
		directory, _ := os.Readlink(filepath.Join(process, "cwd"))
		arguments, _ := os.ReadFile(filepath.Join(process, "cmdline"))
		if strings.HasPrefix(directory, folder) || strings.Contains(string(arguments), folder) {
			found = append(found, filepath.Base(process)+" "+strings.ReplaceAll(string(arguments), "\x00", " "))
		}
	}
	return found
}

func TestAPausedSubscriptionLetsItsFunctionSleepUntilThePauseEnds(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	write(t, directory, "other.yaml", strings.ReplaceAll(greeter(prints("the other has")), "greeter", "other"))
	write(t, directory, "fn.yaml", greeter(prints("it has"))+"  paused: true\n")
	w := run(t, directory)
	await(t, "both consumers are there", func() bool { return w.consumers(t) == 2 })
	w.emit(t, "1", `{"id":"waited"}`)
	await(t, "the other was woken by it", func() bool { return strings.Contains(w.printed(t, "other"), "the other has waited") })
	await(t, "the other sleeps again", func() bool { return w.asleep(t, "other") })
	require.Zero(t, w.functions(t)["greeter"].Wakes)
	require.EqualValues(t, 1, w.backlog(t, "greeter"), "what waits is not shown")

	write(t, directory, "fn.yaml", greeter(prints("it has")))
	await(t, "the delivery of pending events", func() bool { return strings.Contains(w.printed(t, "greeter"), "it has waited") })
	await(t, "an empty backlog", func() bool { return w.backlog(t, "greeter") == 0 })
}

// backlog returns the backlog of a Subscription from the admin API.
func (w *fixture) backlog(t *testing.T, name string) uint64 {
	t.Helper()
	var all struct {
		Subscriptions []struct {
			Name    string
			Backlog uint64
		}
	}
	w.get(t, w.Admin+"/v1/subscriptions", &all)
	for _, sub := range all.Subscriptions {
		if sub.Name == name {
			return sub.Backlog
		}
	}
	require.Fail(t, "no such Subscription", name)
	return 0
}

func TestSlowStartIsReported(t *testing.T) {
	t.Parallel()
	out := &output.Buffer{}
	failed := errors.New("disk full")
	require.ErrorIs(t, reportIfSlow(out, time.Millisecond, "starting NATS", func() error {
		await(t, "it is reported", func() bool { return out.String() != "" })
		return failed
	}), failed)
	require.Regexp(t, `^\S+ rouse    starting NATS\n$`, out.String())

	quick := &output.Buffer{}
	require.NoError(t, reportIfSlow(quick, time.Hour, "starting NATS", func() error { return nil }))
	require.Empty(t, quick.String())
}

// facts returns the printed lines without time, kind and source.
func facts(printed string) []string {
	prefix := regexp.MustCompile(`^\S+ +(?:(?:function|problem|log) +(\S+) +)?(?:(?:rouse|stderr): )?`)
	var found []string
	for line := range strings.SplitSeq(strings.TrimSpace(printed), "\n") {
		found = append(found, prefix.ReplaceAllString(line, "$1 "))
	}
	return found
}

func TestPlainPrintsEachThingOnce(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	named := func(name, source string) string { return strings.ReplaceAll(greeter(source), "greeter", name) }
	write(t, directory, "refuser.yaml", named("refuser", "module.exports.main = event => { event.setResponseStatus(400); return 'no ' + event.data.id }"))
	write(t, directory, "broken.yaml", named("broken", "throw new Error('cannot start')"))
	write(t, directory, "packages.yaml", strings.Replace(named("packages", "module.exports.main = () => {}"), "inline:\n", "inline:\n      dependencies: '{\"dependencies\": {\"Lo Dash!\": \"1\"}}'\n", 1))
	w := run(t, directory)
	w.emit(t, "1", `{"id":"1"}`)
	const again = "it is started again in 1s"
	await(t, "all of them have failed", func() bool {
		text := w.out.String()
		return strings.Contains(text, again) && strings.Contains(text, "dead letter") && strings.Contains(text, "problem  packages")
	})
	require.NoError(t, w.stop())

	text := w.out.String()
	times := map[string]int{}
	for _, fact := range facts(text) {
		times[fact]++
	}
	for fact, n := range times {
		if strings.HasSuffix(fact, "refuser asleep") && n > 1 {
			n-- // before the event, and again after it when the others took long to fail
		}
		if !strings.Contains(fact, "handler did not load") && !strings.Contains(fact, "     at ") { // printed at each start
			require.Equal(t, 1, n, "%q in\n%s", fact, text)
		}
	}
	for _, once := range []string{
		"cannot start (exit status 1); " + again, "dead letter after 1 attempt", "refuser   ready", "packages  failing",
		" runs with Node.js ",
	} {
		require.LessOrEqual(t, strings.Count(text, once), 1, "%q in\n%s", once, text)
	}
	require.NotContains(t, text, "ready after", "only the view may report readiness")
}
