package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"time"
)

// language is one that Functions are written in.
type language struct {
	name    string
	runtime string
	handler string   // prints the id of its event at once
	server  []string // a bare HTTP server that prints its port
}

func languages() []language {
	return []language{
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
func (l language) manifest() string {
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
func (l language) bare(ctx context.Context) (took time.Duration, err error) {
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
