// Package runtime measures how many requests a second a Function's server answers on one core, beside the bare HTTP
// server that it is built on: what it leaves is what the runtime's features cost. Servers take turns, round by round,
// so that all see the same machine; the load comes from another core.
package runtime

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"
)

const (
	serverCore = "0"
	loadCore   = "1"
	// pinned marks the process that runs on loadCore.
	pinned = "BENCH_RUNTIME_PINNED"
)

type options struct {
	rounds      int
	connections int
	duration    time.Duration
	root        string
}

// Run is the benchmark with its flags.
func Run(ctx context.Context, args []string) error {
	var o options
	flags := flag.NewFlagSet("runtime", flag.ExitOnError)
	flags.IntVar(&o.rounds, "rounds", 7, "how often each server gets its turn")
	flags.IntVar(&o.connections, "connections", 16, "how many connections are busy at once")
	flags.DurationVar(&o.duration, "duration", time.Second, "how long a turn is")
	flags.StringVar(&o.root, "root", ".", "the repository's root")
	_ = flags.Parse(args)
	return run(ctx, o)
}

func run(ctx context.Context, o options) error {
	if err := pin(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	root, err := filepath.Abs(o.root)
	if err != nil {
		return fmt.Errorf("find the repository: %w", err)
	}
	directory, err := os.MkdirTemp("", "bench-runtime-")
	if err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(directory) }()

	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusOK)
	}))
	defer collector.Close()

	fmt.Println("building the layers and starting the servers ...")
	var servers []*server
	for _, l := range languages() {
		found, err := l.servers(ctx, root, directory, collector.URL+"/v1/traces")
		if err != nil {
			return err
		}
		servers = append(servers, found...)
	}
	for _, s := range servers {
		defer s.stop()
		if err := s.start(ctx); err != nil {
			return err
		}
	}
	if err := measure(ctx, servers, o); err != nil {
		return err
	}
	return report(os.Stdout, servers)
}

// pin moves this process to the core of the load, once: there is no way to move all threads of a running one.
func pin() error {
	if os.Getenv(pinned) != "" {
		return nil
	}
	if runtime.NumCPU() < 2 {
		return errors.New("needs two cores: one for the server, one for the load")
	}
	taskset, err := exec.LookPath("taskset")
	if err != nil {
		return fmt.Errorf("pin to a core: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("pin to a core: %w", err)
	}
	arguments := append([]string{taskset, "-c", loadCore, self}, os.Args[1:]...)
	return syscall.Exec(taskset, arguments, append(os.Environ(), pinned+"=1"))
}

// measure lets every server warm up, and then gives them turns.
func measure(ctx context.Context, servers []*server, o options) error {
	for round := range o.rounds + 1 {
		for _, s := range servers {
			l, err := drive(ctx, s.address, o.connections, o.duration)
			if err != nil {
				return fmt.Errorf("drive %s: %w; it printed: %s", s.name, err, s.output)
			}
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("drive %s: %w", s.name, err)
			}
			if round > 0 {
				s.loads = append(s.loads, l)
			}
			if s.rss, err = memory(s.process.Process.Pid); err != nil {
				return err
			}
		}
	}
	return nil
}

// request is what every connection sends again and again. The client is written by hand because net/http takes more of
// a core for a request than the fastest of the measured servers.
const request = "GET / HTTP/1.1\r\nHost: bench\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n"

// load is what one run found out.
type load struct {
	requests  int
	elapsed   time.Duration
	latencies []time.Duration
}

func (l load) perSecond() float64 { return float64(l.requests) / l.elapsed.Seconds() }

// drive keeps the given number of connections busy for some time: each sends its next request when it has the answer.
func drive(ctx context.Context, address string, connections int, duration time.Duration) (load, error) {
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	var (
		group  sync.WaitGroup
		mutex  sync.Mutex
		total  load
		failed error
	)
	begin := time.Now()
	for range connections {
		group.Go(func() {
			latencies, err := repeat(ctx, address)
			mutex.Lock()
			defer mutex.Unlock()
			total.latencies = append(total.latencies, latencies...)
			failed = errors.Join(failed, err)
		})
	}
	group.Wait()
	total.elapsed = time.Since(begin)
	total.requests = len(total.latencies)
	return total, failed
}

// repeat uses one connection until the time is over.
func repeat(ctx context.Context, address string) ([]time.Duration, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close() }()
	answers := bufio.NewReader(conn)
	latencies := make([]time.Duration, 0, 4096)
	for ctx.Err() == nil {
		begin := time.Now()
		if _, err := io.WriteString(conn, request); err != nil {
			return nil, fmt.Errorf("send request: %w", err)
		}
		if err := readAnswer(answers); err != nil {
			return nil, fmt.Errorf("read answer: %w", err)
		}
		latencies = append(latencies, time.Since(begin))
	}
	return latencies, nil
}

// readAnswer takes one whole answer off the connection, and insists on the right one.
func readAnswer(answers *bufio.Reader) error {
	status, err := answers.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(status, []byte("HTTP/1.1 200")) {
		return fmt.Errorf("answer is %q", status)
	}
	length := -1
	for {
		line, err := answers.ReadSlice('\n')
		if err != nil {
			return err
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			break
		}
		name, value, _ := strings.Cut(string(line), ":")
		if strings.EqualFold(name, "Content-Length") {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return fmt.Errorf("content length: %w", err)
			}
		}
	}
	if length != len(greeting) {
		return fmt.Errorf("answer has %d bytes instead of %d", length, len(greeting))
	}
	_, err = answers.Discard(length)
	return err
}

// median is the middle value; 0 when there are none.
func median[T cmp.Ordered](values []T) T {
	return rank(values, 0.5)
}

// rank is the value that the given share of the values does not exceed; 0 when there are none.
func rank[T cmp.Ordered](values []T, share float64) T {
	if len(values) == 0 {
		var zero T
		return zero
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(share*float64(len(sorted)-1))]
}

// over collects one figure of all rounds.
func over[T any](loads []load, figure func(load) T) []T {
	figures := make([]T, 0, len(loads))
	for _, l := range loads {
		figures = append(figures, figure(l))
	}
	return figures
}

// ratio is the share of the bare server's throughput, round by round, so that both have had the same machine.
func ratio(s, bare *server) float64 {
	var shares []float64
	for i, l := range s.loads {
		if i < len(bare.loads) && bare.loads[i].requests > 0 {
			shares = append(shares, l.perSecond()/bare.loads[i].perSecond())
		}
	}
	return median(shares)
}

// report prints the table and then the line that says it all: for each language the worse of its APIs, untraced as
// wherever there is no collector.
func report(w io.Writer, servers []*server) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	rows := []string{"runtime\trequests/s\tp50 ms\tp99 ms\tRSS MiB\tof bare\t"}
	bare := map[string]*server{}
	worst := map[string]float64{}
	for _, s := range servers {
		share := "1.00"
		if s.of == "" {
			bare[s.name] = s
		} else {
			value := ratio(s, bare[s.of])
			share = fmt.Sprintf("%.2f", value)
			language, _, _ := strings.Cut(s.name, " ")
			if known, ok := worst[language]; !s.traced && (!ok || value < known) {
				worst[language] = value
			}
		}
		rows = append(rows, fmt.Sprintf("%s\t%.0f\t%.2f\t%.2f\t%d\t%s\t", s.name, median(over(s.loads, load.perSecond)),
			milliseconds(median(over(s.loads, load.p50))), milliseconds(median(over(s.loads, load.p99))), s.rss, share))
	}
	if _, err := fmt.Fprintln(table, strings.Join(rows, "\n")); err != nil {
		return fmt.Errorf("print table: %w", err)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print table: %w", err)
	}
	_, err := fmt.Fprintf(w, "runtime node_ratio=%s python_ratio=%s\n", figure(worst, "nodejs"), figure(worst, "python"))
	return err
}

func figure(worst map[string]float64, language string) string {
	if value, ok := worst[language]; ok {
		return fmt.Sprintf("%.2f", value)
	}
	return "none"
}

func (l load) p50() time.Duration { return rank(l.latencies, 0.5) }
func (l load) p99() time.Duration { return rank(l.latencies, 0.99) }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
