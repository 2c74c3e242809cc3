package main

import (
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

	"github.com/rouse-run/rouse/e2e/rig"
)

// sink records the id of each event in its journal before it answers 204, so that no kill makes it forget one.
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
			case <-s.healing: // it goes on: to return here would be an answer of 200
			}
		}
		if s.refuses(id) {
			http.Error(w, "not this one", http.StatusUnprocessableEntity)
			return
		}
	}
	// One write of a short line to a file that is appended to is never mixed with another.
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
