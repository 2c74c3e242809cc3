package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/e2e/rig"
)

const (
	publishers     = 32
	publishTimeout = 10 * time.Second // for one attempt
	publishBound   = 2 * time.Minute  // for all attempts with one event
	publishPause   = 50 * time.Millisecond
)

// publish sends each event to one bridge after the other, until one responds with 204. It counts the events in
// progress.
func (s *stage) publish(ctx context.Context, spread time.Duration, progress chan<- int) error {
	group, ctx := errgroup.WithContext(ctx)
	next := make(chan int)
	group.Go(func() error {
		defer close(next)
		start := time.Now()
		for i := range s.events {
			pause(ctx, time.Until(start.Add(spread*time.Duration(i)/time.Duration(len(s.events)))))
			select {
			case next <- i:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	client := &http.Client{Timeout: publishTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: publishers}}
	defer client.CloseIdleConnections()
	for range publishers {
		group.Go(func() error {
			for i := range next {
				if err := s.publishInOrder(ctx, client, i); err != nil {
					return err
				}
				progress <- i
			}
			return nil
		})
	}
	return group.Wait()
}

// publishInOrder publishes an event of an ordered Subscription after its predecessor has been stored.
func (s *stage) publishInOrder(ctx context.Context, client *http.Client, id int) error {
	at, ordered := orderedEventOf(id)
	if ordered && at.before >= 0 {
		select {
		case <-s.events[at.before].stored:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.publishing.RLock()
	defer s.publishing.RUnlock()
	s.events[id].begun = time.Now()
	if err := s.publishOne(ctx, client, id); err != nil {
		return err
	}
	s.events[id].published = true
	if ordered {
		close(s.events[id].stored)
	}
	return nil
}

func (s *stage) publishOne(ctx context.Context, client *http.Client, id int) error {
	var err error
	deadline := time.Now().Add(publishBound)
	for attempt := 0; time.Now().Before(deadline) && ctx.Err() == nil; attempt++ {
		if err = s.attempt(ctx, client, id, s.bridges[(id+attempt)%bridges].port); err == nil {
			return nil
		}
		pause(ctx, publishPause*time.Duration(min(attempt, 10)))
	}
	return fmt.Errorf("publish event %d: %w", id, err)
}

func (s *stage) attempt(ctx context.Context, client *http.Client, id, port int) error {
	b := scenario()[id%len(scenario())]
	event := rig.Event{ID: strconv.Itoa(id), Source: source, Type: b.eventType(), Data: `{"number":` + strconv.Itoa(id) + `}`}
	if at, ordered := orderedEventOf(id); ordered {
		event.Header = map[string]string{"Ce-" + keyAttribute: strconv.Itoa(at.key)}
	}
	status, answer, err := event.Publish(ctx, client, "http://127.0.0.1:"+strconv.Itoa(port)+"/publish")
	if err == nil && status != http.StatusNoContent {
		err = fmt.Errorf("%d: %s", status, answer)
	}
	return err
}

// sink records the id of each event in its journal before it responds with 204, so that a kill loses no record.
type sink struct {
	journal     *os.File
	fail, hang  int
	refuseEvery int
	slow        time.Duration
	healed      atomic.Bool
	healing     chan struct{} // closed with healed
}

func sinkRole(ctx context.Context, ready func(string), args []string) error {
	s := &sink{healing: make(chan struct{})}
	flags := flag.NewFlagSet("sink", flag.ContinueOnError)
	port := flags.Int("port", 0, "")
	path := flags.String("journal", "", "")
	flags.IntVar(&s.fail, "fail", 0, "")
	flags.IntVar(&s.hang, "hang", 0, "")
	flags.IntVar(&s.refuseEvery, "refuse-every", 0, "")
	flags.DurationVar(&s.slow, "slow", 0, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	if s.journal, err = os.OpenFile(*path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		return fmt.Errorf("open the journal: %w", err)
	}
	defer func() { _ = s.journal.Close() }()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", s.receive)
	mux.HandleFunc("GET /heal", func(http.ResponseWriter, *http.Request) {
		if s.healed.CompareAndSwap(false, true) {
			close(s.healing)
		}
	})
	return rig.Serve(ctx, *port, ready, mux)
}

func (s *sink) receive(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	id := r.Header.Get("Ce-Id")
	time.Sleep(time.Duration(rand.Float64() * float64(s.slow)))
	if !s.healed.Load() {
		switch dice := rand.IntN(100); {
		case dice < s.fail:
			http.Error(w, "it does not work", http.StatusInternalServerError)
			return
		case dice < s.fail+s.hang:
			select {
			case <-r.Context().Done():
				return
			case <-s.healing: // continue: a return would send 200
			}
		}
		if s.refuses(id) {
			http.Error(w, "not this one", http.StatusUnprocessableEntity)
			return
		}
	}
	// A single short write to a file in append mode is atomic.
	if _, err := fmt.Fprintln(s.journal, id, time.Now().UnixNano()); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *sink) refuses(id string) bool {
	number, err := strconv.Atoi(id)
	return err == nil && s.refuseEvery > 0 && number/len(scenario())%s.refuseEvery == 0
}

// journal reads the file in which a sink records the events that it accepted.
type journal struct {
	path   string
	offset int64
	times  map[int]int       // number of deliveries per event
	first  map[int]time.Time // time of the first delivery
	total  int
	order  order
}

func newJournal(path string) *journal {
	return &journal{path: path, times: map[int]int{}, first: map[int]time.Time{}, order: order{last: map[int]int{}}}
}

// read reads new entries.
func (j *journal) read() error {
	file, err := os.Open(j.path)
	if err != nil {
		return fmt.Errorf("read a journal: %w", err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(j.offset, io.SeekStart); err != nil {
		return fmt.Errorf("read a journal: %w", err)
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return fmt.Errorf("read a journal: %w", err)
	}
	for {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		if !whole {
			return nil
		}
		var id int
		var taken int64
		if _, err := fmt.Sscan(string(line), &id, &taken); err != nil {
			return fmt.Errorf("read a journal: %w", err)
		}
		if j.times[id]++; j.times[id] == 1 {
			j.first[id] = time.Unix(0, taken)
			j.order.note(id)
		}
		j.total++
		j.offset += int64(len(line)) + 1
		text = rest
	}
}
