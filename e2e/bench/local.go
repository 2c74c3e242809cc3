package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/e2e/verbs"
)

// benchLocal measures how long a sleeping Function takes in local mode from the moment its event is stored to the
// first line that its handler prints, in both languages. Beside it, in the same rounds, the bare HTTP server of the same
// interpreter is started and asked once.
func benchLocal(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("local", flag.ExitOnError)
	rounds := flags.Int("rounds", 20, "how many wakes of each language, and how many bare starts")
	program := flags.String("rouse", "bin/rouse", "the built command")
	_ = flags.Parse(args)
	return runLocal(ctx, *rounds, *program)
}

func runLocal(ctx context.Context, rounds int, program string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	folder, err := os.MkdirTemp("", "rouse-bench-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	m := mode{folder: folder, rouse: verbs.Rouse{
		Program: program, Where: []string{"--dir", folder}, Env: []string{"XDG_STATE_HOME=" + folder + "/.state"},
	}}
	stop, err := m.start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	measured, bare := map[string][]time.Duration{}, map[string][]time.Duration{}
	for round := range rounds {
		for _, l := range localLanguages() {
			wake, err := m.wake(ctx, l, round)
			if err != nil {
				return err
			}
			alone, err := l.bare(ctx)
			if err != nil {
				return err
			}
			fmt.Printf("round %2d  %-6s  wake %4d ms  bare %4d ms\n", round+1, l.name, wake.Milliseconds(), alone.Milliseconds())
			measured[l.name], bare[l.name] = append(measured[l.name], wake), append(bare[l.name], alone)
		}
	}
	fmt.Print("local")
	for _, l := range localLanguages() {
		fmt.Printf(" %s_p50_ms=%.0f %s_p95_ms=%.0f bare_%s_p50_ms=%.0f", l.name, rig.Milliseconds(measured[l.name], 50),
			l.name, rig.Milliseconds(measured[l.name], 95), l.name, rig.Milliseconds(bare[l.name], 50))
	}
	fmt.Println()
	return nil
}

const (
	// bound is how long any step may take.
	bound = 2 * time.Minute
	look  = 50 * time.Millisecond
)

// mode is a local mode with a Function of each language.
type mode struct {
	folder string
	rouse  verbs.Rouse
}

// start returns when all Functions sleep.
func (m mode) start(ctx context.Context) (stop func(), err error) {
	for _, l := range localLanguages() {
		if err := os.WriteFile(filepath.Join(m.folder, l.name+".yaml"), []byte(l.manifest()), 0o600); err != nil {
			return nil, fmt.Errorf("write a Function: %w", err)
		}
	}
	running, end := context.WithCancel(ctx)
	dev := verbs.Rouse{Program: m.rouse.Program, Env: m.rouse.Env}.Command(running, "dev", m.folder, "--plain", "--cooldown", "200ms")
	if err := dev.Start(); err != nil {
		end()
		return nil, fmt.Errorf("start local mode: %w", err)
	}
	stop = func() {
		end()
		_ = dev.Wait() // it was interrupted
	}
	for _, l := range localLanguages() {
		if err := m.awaitAsleep(ctx, l); err != nil {
			stop()
			return nil, err
		}
	}
	return stop, nil
}

// wake publishes an event and returns how long after it was stored its handler printed a line.
func (m mode) wake(ctx context.Context, l localLanguage, round int) (time.Duration, error) {
	if err := m.awaitAsleep(ctx, l); err != nil {
		return 0, err
	}
	id := fmt.Sprintf("%s-%d-%d", l.name, round, time.Now().UnixNano())
	if _, err := m.rouse.Run(ctx, "publish", "--type", "wake."+l.name, "--source", benchName, "--id", id, "--data", "{}"); err != nil {
		return 0, err
	}
	var printed struct {
		Time time.Time
		Text string
	}
	err := m.rouse.Follow(ctx, func(line []byte) bool {
		return json.Unmarshal(line, &printed) == nil && strings.HasSuffix(printed.Text, "took "+id)
	}, "logs", "--follow", "bench/"+l.name, "-o", "json")
	if err != nil {
		return 0, err
	}
	var stored struct{ Time time.Time }
	if err := m.rouse.Read(ctx, &stored, "events", "tail", "--id", id, "--kind", "stored", "--since", "5m", "--limit", "1"); err != nil {
		return 0, err
	}
	return printed.Time.Sub(stored.Time), nil
}

// awaitAsleep waits until a Function has no replica. Local mode has no other way to be asked.
func (m mode) awaitAsleep(ctx context.Context, l localLanguage) error {
	var last error
	for deadline := time.Now().Add(bound); time.Now().Before(deadline); time.Sleep(look) {
		var functions []struct {
			Name, Phase string
		}
		last = m.rouse.Read(ctx, &functions, "functions")
		for _, f := range functions {
			if f.Name == l.name && f.Phase == "asleep" {
				return nil
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errors.Join(fmt.Errorf("%s does not fall asleep within %s", l.name, bound), last)
}

// localLanguage is one that Functions are written in.
type localLanguage struct {
	name    string
	runtime string
	handler string   // prints the id of its event at once
	server  []string // a bare HTTP server that prints its port
}

func localLanguages() []localLanguage {
	return []localLanguage{
		{
			name: "node", runtime: "nodejs22",
			handler: "module.exports.main = (event) => { console.log('took ' + event['ce-id']) }",
			server: []string{"node", "-e", `require('node:http').createServer((_, res) => res.end('x'))
				.listen(0, '127.0.0.1', function () { console.log(this.address().port) })`},
		},
		{
			name: "python", runtime: "python312",
			handler: "def main(event, context):\n          print('took ' + event['ce-id'], flush=True)",
			server: []string{"python3", "-c", `import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'x')
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(('127.0.0.1', 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()`},
		},
	}
}

// manifest is a Function that sleeps, and its Subscription.
func (l localLanguage) manifest() string {
	return fmt.Sprintf(`apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
metadata: {name: %[1]s, namespace: bench}
spec:
  runtime: %[2]s
  scaleConfig: {minReplicas: 0, maxReplicas: 1}
  source:
    inline:
      source: |
        %[3]s
---
apiVersion: eventing.kyma-project.io/v1alpha2
kind: Subscription
metadata: {name: %[1]s, namespace: bench}
spec:
  source: bench
  types: [wake.%[1]s]
  sink: http://%[1]s.bench.svc.cluster.local
`, l.name, l.runtime, l.handler)
}

// bare is how long the bare server takes from its start to the first byte of an answer.
func (l localLanguage) bare(ctx context.Context) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	server := exec.CommandContext(ctx, l.server[0], l.server[1:]...)
	out, err := server.StdoutPipe()
	if err != nil {
		return 0, fmt.Errorf("start a bare server: %w", err)
	}
	began := time.Now()
	if err := server.Start(); err != nil {
		return 0, fmt.Errorf("start a bare server: %w", err)
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait() // it was killed
	}()
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("read the port of a bare server: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+strings.TrimSpace(port), nil)
	if err != nil {
		return 0, fmt.Errorf("ask a bare server: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("ask a bare server: %w", err)
	}
	_, err = io.ReadFull(response.Body, make([]byte, 1))
	took = time.Since(began)
	return took, errors.Join(err, response.Body.Close())
}
