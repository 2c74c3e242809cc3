package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

type invoke struct {
	*session

	method  string
	path    string
	data    string
	headers []string
	timeout time.Duration
	event   cloudevent.Event
}

func newInvoke(streams Streams) *cobra.Command {
	i := &invoke{}
	cmd := &cobra.Command{
		Use:   "invoke FUNCTION",
		Short: "Call a Function and wait for its response",
		Long: `Call a Function over HTTP. One that sleeps is woken first. The body of its answer goes to the output, the status to
standard error; the exit code is 5 when the status is 400 or more.

With --event the Function gets a CloudEvent, without a Subscription and without retries.`,
		Example: `  rouse invoke pricing
  rouse invoke orders/pricing -d '{"id": "1001"}' -H 'x-request-id: 7'
  rouse invoke pricing --event order.received --source shop -d @order.json
  rouse invoke pricing --context production --path /health -X GET`,
		Args: exactly(1, "the Function"),
		RunE: func(cmd *cobra.Command, args []string) error { return i.run(cmd, args[0]) },
	}
	i.session = ask(streams, cmd)
	cmd.ValidArgsFunction = once(i.complete(functionNames))
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVarP(&i.method, "request", "X", "", "method (default: GET, or POST with data or an event)")
	fs.StringVarP(&i.data, "data", "d", "", "body; @FILE reads it from a file, @- from the input")
	fs.StringArrayVarP(&i.headers, "header", "H", nil, "header, as 'name: value'; may be repeated")
	fs.StringVar(&i.path, "path", "/", "path and query")
	fs.StringVar(&i.event.Type, "event", "", "send a CloudEvent of this type")
	fs.StringVar(&i.event.Source, "source", "rouse-invoke", "source of the event")
	fs.StringVar(&i.event.ID, "id", "", "id of the event (default: a random one)")
	fs.DurationVar(&i.timeout, "timeout", 5*time.Minute, "how long to wait, waking included")
	i.completeFlag(cmd, "event", eventTypes(new(string)))
	return cmd
}

func (i *invoke) run(cmd *cobra.Command, fn string) error {
	body, err := i.body(cmd.Flags().Changed("data"))
	if err != nil {
		return err
	}
	header, err := i.header(body)
	if err != nil {
		return err
	}
	return i.with(func(conn *target.Connection) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), i.timeout)
		defer cancel()
		err := i.call(ctx, conn, fn, header, body)
		if errors.Is(err, context.DeadlineExceeded) && cmd.Context().Err() == nil {
			return exit.Errorf(exit.Failed, "Function %s did not respond within %s; raise --timeout", fn, i.timeout)
		}
		return err
	})
}

func (i *invoke) body(given bool) ([]byte, error) {
	if !given {
		return nil, nil
	}
	return i.readData(i.data)
}

func (i *invoke) header(body []byte) (http.Header, error) {
	header := http.Header{}
	if i.method == "" {
		i.method = http.MethodGet
		if body != nil || i.event.Type != "" {
			i.method = http.MethodPost
		}
	}
	if body != nil {
		header.Set("Content-Type", "application/json")
	}
	if i.event.Type != "" {
		if i.event.ID == "" {
			i.event.ID = rand.Text()
		}
		i.event.Data = body
		if body != nil {
			i.event.DataContentType = "application/json"
		}
		if err := i.event.Validate(); err != nil {
			return nil, exit.Errorf(exit.Usage, "--event: %w", err)
		}
		i.event.SetHeader(header)
	}
	for _, line := range i.headers {
		name, value, found := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !found || name == "" {
			return nil, exit.Errorf(exit.Usage, "--header %q: write it as 'name: value'", line)
		}
		header.Set(name, strings.TrimSpace(value))
	}
	return header, nil
}

func (i *invoke) call(ctx context.Context, conn *target.Connection, fn string, header http.Header, body []byte) error {
	namespace, name, err := i.function(conn, fn)
	if err != nil {
		return err
	}
	i.reportProgress("waiting for Function " + name)
	base, err := conn.Function(ctx, namespace, name)
	if err != nil {
		return err
	}
	address, err := join(base, i.path)
	if err != nil {
		return err
	}
	i.reportProgress("waiting for the answer of Function " + name)
	for {
		response, err := i.send(ctx, name, address, header, body)
		if err != nil {
			return err
		}
		pause, again := comeAgain(response)
		if !again {
			defer func() { _ = response.Body.Close() }()
			if older := response.Header.Get(activation.HeaderOlder); older != "" && conn.Local {
				i.note("an older version of Function %s answers; the newest does not run: %s", name, output.Clean(older))
			}
			return i.printAnswer(name, response)
		}
		i.reportProgress(reasonOf(response))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// comeAgain reports whether the request reached no replica, and after which delay to retry it. A cold start may take longer than a gateway
// holds a request.
func comeAgain(response *http.Response) (pause time.Duration, again bool) {
	const soonest, latest = 1, 30
	switch response.Header.Get(activation.HeaderRefused) {
	case activation.RefusedTimeout, activation.RefusedOverload:
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After")) // 0 without a number
		return time.Duration(min(max(seconds, soonest), latest)) * time.Second, true
	}
	return 0, false
}

// reasonOf returns the gateway's error message when the response did not come from the Function.
func reasonOf(response *http.Response) string {
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10)) // optional: the request is retried without it
	return strings.TrimSpace(string(text))
}

// send calls a Function once. The caller closes the body of the response.
func (i *invoke) send(ctx context.Context, name, address string, header http.Header, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, strings.ToUpper(i.method), address, bytes.NewReader(body))
	if err != nil {
		return nil, exit.Errorf(exit.Usage, "--request %q: not a valid HTTP method", i.method)
	}
	request.Header = header.Clone()
	if host := header.Get("Host"); host != "" {
		request.Host = host
	}
	client := &http.Client{
		Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, exit.Errorf(exit.Unreachable, "Function %s did not respond: %w", name, err)
	}
	return response, nil
}

func (i *invoke) printAnswer(name string, response *http.Response) error {
	i.note("%s", output.Clean(response.Status))
	body := &ended{out: i.Out}
	if _, err := io.Copy(body, response.Body); err != nil {
		return fmt.Errorf("read the response of Function %s: %w", name, err)
	}
	if body.open && output.IsTerminal(i.Out) { // the prompt of the shell begins a line of its own; files and pipes get the body alone
		if _, err := fmt.Fprintln(i.Out); err != nil {
			return err
		}
	}
	if response.StatusCode >= http.StatusBadRequest {
		return exit.Errorf(exit.Refused, "Function %s answered %d", name, response.StatusCode)
	}
	return nil
}

// ended is a writer that knows whether its last line is open.
type ended struct {
	out  io.Writer
	open bool
}

// Write implements io.Writer.
func (e *ended) Write(content []byte) (int, error) {
	if n := len(content); n > 0 {
		e.open = content[n-1] != '\n'
	}
	return e.out.Write(content)
}

// join appends a path with a query to a URL.
func join(base, path string) (string, error) {
	address, err := url.Parse(base)
	if err != nil {
		return "", fmt.Errorf("the Function's URL: %w", err)
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	relative, err := url.Parse(path)
	if err != nil || relative.Host != "" {
		return "", exit.Errorf(exit.Usage, "--path %q: not a valid path", path)
	}
	return address.ResolveReference(relative).String(), nil
}

// ago formats an age for people.
func ago(since, now time.Time) string {
	passed := now.Sub(since)
	switch {
	case passed < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(passed.Seconds())))
	case passed < time.Hour:
		return fmt.Sprintf("%dm", int(passed.Minutes()))
	case passed < 48*time.Hour:
		return fmt.Sprintf("%dh", int(passed.Hours()))
	}
	return fmt.Sprintf("%dd", int(passed.Hours()/24))
}
