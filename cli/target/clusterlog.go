package target

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/cli/exit"
)

// join is the interval at which a follower looks for new pods.
const join = time.Second

// errNotStarted is returned for a container that has not started.
var errNotStarted = errors.New("the container has not started")

// Log implements Target.
func (c *cluster) Log(ctx context.Context, namespace, name string, o LogOptions, handle func(Line)) error {
	if name != "" {
		if _, err := c.mustExist(ctx, namespace, name); err != nil {
			return err
		}
	}
	f := &follower{cluster: c, namespace: namespace, function: name, options: o, handle: handle, read: map[string]time.Time{}, busy: map[string]bool{}}
	if most := c.options.LogRate; most > 0 {
		f.pace = rate.NewLimiter(rate.Limit(most), most)
	}
	if !o.Follow {
		return f.once(ctx)
	}
	return f.follow(ctx)
}

// follower reads the logs of all pods of a Function, or of all Functions when none is named.
type follower struct {
	cluster             *cluster
	namespace, function string
	options             LogOptions
	pace                *rate.Limiter

	mu     sync.Mutex
	handle func(Line)
	read   map[string]time.Time // by pod: the time of the last line
	busy   map[string]bool      // pods that are being read
}

// once reads the existing lines and sorts them by time.
func (f *follower) once(ctx context.Context) error {
	pods, err := f.cluster.pods(ctx, f.namespace, functionPods(f.function))
	if err != nil {
		return err
	}
	if len(pods) == 0 {
		return exit.Errorf(exit.NotFound, "%s, and so no log; -f waits for the next one", f.asleep())
	}
	var all []Line
	for i := range pods {
		err := f.stream(ctx, &pods[i], func(line Line) { all = append(all, line) })
		if err != nil && !errors.Is(err, errNotStarted) {
			return err
		}
	}
	slices.SortStableFunc(all, func(a, b Line) int { return a.Time.Compare(b.Time) })
	for _, line := range all {
		f.handle(line)
	}
	return nil
}

// follow reads each pod as soon as it starts.
func (f *follower) follow(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var readers sync.WaitGroup
	defer readers.Wait()
	ticker := time.NewTicker(join)
	defer ticker.Stop()
	for {
		pods, err := f.cluster.pods(ctx, f.namespace, functionPods(f.function))
		if err != nil {
			stop(err)
			return err
		}
		if len(pods) == 0 {
			f.cluster.options.Note(f.asleep() + ": waiting for the next one")
		}
		for i := range pods {
			if !f.begin(&pods[i]) {
				continue
			}
			readers.Go(func() {
				if err := f.reader(ctx, &pods[i]); err != nil {
					stop(err)
				}
			})
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// asleep describes that there are no pods.
func (f *follower) asleep() string {
	if f.function == "" {
		return "all Functions of namespace " + f.namespace + " sleep: they have no pods"
	}
	return "Function " + f.function + " sleeps: it has no pods"
}

// begin reports whether a pod has an unread log. The log of a terminated container is read once.
func (f *follower) begin(pod *corev1.Pod) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	running := slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == functionContainer && s.State.Running != nil
	})
	_, before := f.read[pod.Name]
	if f.busy[pod.Name] || before && !running {
		return false
	}
	f.busy[pod.Name] = true
	return true
}

// reader reads the log of a pod until its container ends.
func (f *follower) reader(ctx context.Context, pod *corev1.Pod) error {
	err := f.stream(ctx, pod, func(line Line) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if line.Time.After(f.read[pod.Name]) {
			f.read[pod.Name] = line.Time
			f.handle(line)
		}
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.busy, pod.Name)
	if errors.Is(err, errNotStarted) || exit.CodeOf(err) == exit.NotFound || ctx.Err() != nil {
		return nil
	}
	return err
}

// stream reads the log of the container with the handler.
func (f *follower) stream(ctx context.Context, pod *corev1.Pod, handle func(Line)) error {
	response, err := f.open(ctx, pod.Name, f.query(pod.Name))
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	log := paced{ctx: ctx, log: response.Body, pace: f.pace}
	return readLines(ctx, pod.Name, log, f.cluster.options.MaxLine, func(text string) {
		line := f.line(pod.Name, text)
		line.Function = pod.Labels[v1alpha2.LabelFunctionName]
		handle(line)
	})
}

// readLines calls handle with each line of a pod's log.
func readLines(ctx context.Context, pod string, log io.Reader, most int, handle func(text string)) error {
	lines := bufio.NewReader(log)
	for {
		text, err := readLine(lines, most)
		if text != "" {
			handle(strings.TrimSuffix(text, "\n"))
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && ctx.Err() != nil:
			return nil //nolint:nilerr // nobody reads on
		case err != nil:
			return exit.Errorf(exit.Unreachable, "read the log of pod %s: %w", pod, err)
		}
	}
}

// readLine reads a line, of which it keeps the first bytes, or all for 0.
func readLine(lines *bufio.Reader, most int) (string, error) {
	if most == 0 {
		return lines.ReadString('\n')
	}
	var kept []byte
	for {
		part, err := lines.ReadSlice('\n')
		kept = append(kept, part[:min(len(part), most-len(kept))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return string(kept), err
		}
	}
}

// paced reads a log at the pace that all replicas of a Function share; nil: as fast as it comes.
type paced struct {
	ctx  context.Context //nolint:containedctx // of this reader's one log
	log  io.Reader
	pace *rate.Limiter
}

// Read implements io.Reader.
func (p paced) Read(buffer []byte) (int, error) {
	if p.pace == nil {
		return p.log.Read(buffer)
	}
	n, err := p.log.Read(buffer[:min(len(buffer), p.pace.Burst())])
	if n > 0 {
		if late := p.pace.WaitN(p.ctx, n); late != nil {
			err = late
		}
	}
	return n, err
}

// line parses the timestamp that the API server adds to each line.
func (f *follower) line(pod, text string) Line {
	line := Line{Namespace: f.namespace, Replica: pod, Stream: "stdout", Text: text}
	stamp, rest, found := strings.Cut(text, " ")
	if at, err := time.Parse(time.RFC3339Nano, stamp); err == nil {
		line.Time, line.Text = at, ""
		if found {
			line.Text = rest
		}
	}
	return line
}

// open requests the log of a pod.
func (f *follower) open(ctx context.Context, pod string, query url.Values) (*http.Response, error) {
	base, _, err := rest.DefaultServerUrlFor(f.cluster.config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	address := base.JoinPath("api/v1/namespaces", f.namespace, "pods", pod, "log")
	address.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("read the log of pod %s: %w", pod, err)
	}
	response, err := f.cluster.http.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, exit.Errorf(exit.Unreachable, "%s does not answer: %w", f.cluster.name, withoutURL(err))
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer func() { _ = response.Body.Close() }()
	var status metav1.Status
	_ = json.NewDecoder(response.Body).Decode(&status) // the code is enough without it
	switch response.StatusCode {
	case http.StatusBadRequest:
		return nil, errNotStarted
	case http.StatusForbidden:
		return nil, exit.Errorf(exit.Unreachable, "you may not get pods/log in namespace %s: ask for a role with that verb in %s", f.namespace, f.cluster.name)
	case http.StatusNotFound:
		return nil, exit.Errorf(exit.NotFound, "pod %s is gone", pod)
	}
	return nil, exit.Errorf(exit.Failed, "read the log of pod %s: %d %s", pod, response.StatusCode, status.Message)
}

// query returns a query that continues after the last line that was read.
func (f *follower) query(pod string) url.Values {
	query := url.Values{"container": {functionContainer}, "timestamps": {"true"}, "follow": {strconv.FormatBool(f.options.Follow)}}
	f.mu.Lock()
	last, before := f.read[pod]
	f.mu.Unlock()
	switch {
	case before:
		query.Set("sinceTime", last.UTC().Format(time.RFC3339))
		return query
	case f.options.Tail >= 0:
		query.Set("tailLines", strconv.Itoa(f.options.Tail))
	}
	if f.options.Since > 0 {
		query.Set("sinceSeconds", strconv.Itoa(int(max(1, f.options.Since.Seconds()))))
	}
	return query
}
