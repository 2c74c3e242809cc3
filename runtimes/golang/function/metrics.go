package function

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// methods are the methods that metrics distinguish; all others are combined.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "other"}

// bounds are the bounds of the durations' histogram, in seconds.
var bounds = []float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}

type counts struct {
	calls, failures int64
	seconds         float64
	buckets         [15]int64 // the last is for all larger ones
}

// metrics counts the calls of the handler.
type metrics struct {
	mu       sync.Mutex
	byMethod map[string]*counts
	began    time.Time
}

func newMetrics() *metrics { return &metrics{byMethod: map[string]*counts{}, began: time.Now()} }

func (m *metrics) count(method string, took time.Duration, failed bool) {
	if !slices.Contains(methods, method) {
		method = "other"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.byMethod[method]
	if of == nil {
		of = &counts{}
		m.byMethod[method] = of
	}
	of.calls++
	if failed {
		of.failures++
	}
	of.seconds += took.Seconds()
	bucket, _ := slices.BinarySearch(bounds, took.Seconds())
	of.buckets[bucket]++
}

const metricsType = "text/plain; version=0.0.4; charset=utf-8"

// write writes Prometheus' text format.
func (m *metrics) write(w *strings.Builder) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fmt.Fprint(w, "# HELP function_calls_total Calls of the handler.\n# TYPE function_calls_total counter\n")
	m.each(func(method string, of *counts) {
		fmt.Fprintf(w, "function_calls_total{method=%q} %d\n", method, of.calls)
	})
	fmt.Fprint(w, "# HELP function_failures_total Calls that the handler failed.\n# TYPE function_failures_total counter\n")
	m.each(func(method string, of *counts) {
		fmt.Fprintf(w, "function_failures_total{method=%q} %d\n", method, of.failures)
	})
	fmt.Fprint(w, "# HELP function_duration_seconds Duration of calls.\n# TYPE function_duration_seconds histogram\n")
	m.each(func(method string, of *counts) { of.write(w, method) })
	writeProcess(w, m.began)
}

func (m *metrics) each(write func(string, *counts)) {
	for _, method := range methods {
		if of := m.byMethod[method]; of != nil {
			write(method, of)
		}
	}
}

func (c *counts) write(w *strings.Builder, method string) {
	var total int64
	for i, count := range c.buckets {
		total += count
		bound := "+Inf"
		if i < len(bounds) {
			bound = strconv.FormatFloat(bounds[i], 'g', -1, 64)
		}
		fmt.Fprintf(w, "function_duration_seconds_bucket{le=%q,method=%q} %d\n", bound, method, total)
	}
	fmt.Fprintf(w, "function_duration_seconds_sum{method=%q} %g\nfunction_duration_seconds_count{method=%q} %d\n", method, c.seconds, method, total)
}

func writeProcess(w *strings.Builder, began time.Time) {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	fmt.Fprintf(w, "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %d\n", began.Unix())
	fmt.Fprintf(w, "# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes %d\n", resident())
	fmt.Fprintf(w, "# TYPE go_goroutines gauge\ngo_goroutines %d\n", runtime.NumGoroutine())
	fmt.Fprintf(w, "# TYPE go_memstats_heap_inuse_bytes gauge\ngo_memstats_heap_inuse_bytes %d\n", memory.HeapInuse)
}

// resident returns the resident memory, or 0 where it is unknown.
func resident() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

const (
	// loadPath is the path of the load report, for scaling by HTTP.
	loadPath = "/.well-known/rouse/load"
	// headerVia is a header of requests that their sender counts too.
	headerVia = "Rouse-Via"
)

// sender is the kind of a request's sender, for the load.
type sender int

const (
	other sender = iota
	gateway
	eventbridge
	senders
)

func senderOf(header http.Header) sender {
	via := header[headerVia]
	switch {
	case len(via) != 1:
	case via[0] == "gateway":
		return gateway
	case via[0] == "eventbridge":
		return eventbridge
	}
	return other
}

// load counts the received requests, and those in progress.
type load struct {
	requests atomic.Int64
	running  [senders]atomic.Int64
}

// begin counts a request until end is called with its sender.
func (l *load) begin(header http.Header) sender {
	from := senderOf(header)
	l.requests.Add(1)
	l.running[from].Add(1)
	return from
}

func (l *load) end(from sender) { l.running[from].Add(-1) }

// answer writes the counts as JSON.
func (l *load) answer(w http.ResponseWriter) {
	viaGateway, viaEventbridge := l.running[gateway].Load(), l.running[eventbridge].Load()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	running := l.running[other].Load() + viaGateway + viaEventbridge
	_, _ = fmt.Fprintf(w, `{"requests":%d,"running":%d,"viaGateway":%d,"viaEventbridge":%d}`, // the client may have disconnected
		l.requests.Load(), running, viaGateway, viaEventbridge)
}

// logRequest writes a line of Apache's combined format.
func logRequest(r *http.Request, status int, size int64) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	_, _ = fmt.Fprintf(os.Stdout, "%s - - [%s] %s %d %d %s %s\n", host, time.Now().Format("02/Jan/2006:15:04:05 -0700"),
		strconv.QuoteToASCII(r.Method+" "+r.RequestURI+" "+r.Proto), status, size, quoted(r.Referer()), quoted(r.UserAgent()))
}

func quoted(text string) string {
	if text == "" {
		return `"-"`
	}
	return strconv.QuoteToASCII(text)
}
