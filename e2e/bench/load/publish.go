package load

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/e2e/rig"
)

// Publish is the role. It takes orders over HTTP.
func Publish(ctx context.Context, ready func(string), _ []string) error {
	return rig.Serve(ctx, 0, ready, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		order, err := read(r.URL.Query())
		var result Result
		if err == nil {
			result, err = order.do(r.Context())
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		rig.WriteJSON(w, result)
	}))
}

// tally is what one connection has seen.
type tally struct {
	took    []time.Duration
	refused int
}

func (o Order) do(ctx context.Context) (Result, error) {
	connections := make([]*connection, o.Connections)
	for i := range connections {
		c, err := dial(ctx, o)
		if err != nil {
			return Result{}, err
		}
		defer func() { _ = c.conn.Close() }()
		connections[i] = c
	}
	start := time.Now()
	counted, end := start.Add(o.WarmUp), start.Add(o.WarmUp+o.Duration)
	group, ctx := errgroup.WithContext(ctx)
	times := o.times(ctx, group, start, end)
	tallies := make([]tally, o.Connections)
	for i, c := range connections {
		group.Go(func() error { return c.work(o.Prefix+"-"+strconv.Itoa(i)+"-", times, end, counted, &tallies[i]) })
	}
	if err := group.Wait(); err != nil {
		return Result{}, err
	}
	var result Result
	var took []time.Duration
	for _, t := range tallies {
		took = append(took, t.took...)
		result.Refused += t.refused
	}
	slices.Sort(took)
	result.Answered, result.PerSecond = len(took), float64(len(took))/o.Duration.Seconds()
	result.P50, result.P99 = rig.Milliseconds(took, 50), rig.Milliseconds(took, 99)
	return result, nil
}

// times are when events are to be sent; nil: as soon as a connection is free.
func (o Order) times(ctx context.Context, group *errgroup.Group, start, end time.Time) <-chan time.Time {
	if o.PerSecond == 0 {
		return nil
	}
	// Its buffer holds all, so that slow answers delay no event but their own.
	times := make(chan time.Time, int(end.Sub(start).Seconds()*float64(o.PerSecond))+1)
	group.Go(func() error {
		defer close(times)
		for i := 0; ; i++ {
			at := start.Add(time.Duration(i) * time.Second / time.Duration(o.PerSecond))
			if !at.Before(end) || ctx.Err() != nil {
				return nil
			}
			time.Sleep(time.Until(at))
			times <- at
		}
	})
	return times
}

func (c *connection) work(prefix string, times <-chan time.Time, end, counted time.Time, t *tally) error {
	for i := 0; ; i++ {
		at := time.Now()
		if times != nil {
			var more bool
			if at, more = <-times; !more {
				return nil
			}
		} else if !at.Before(end) {
			return nil
		}
		sent := time.Now()
		taken, err := c.publish(prefix+strconv.Itoa(i), at)
		switch {
		case err != nil:
			return err
		case !taken:
			t.refused++
		case !at.Before(counted):
			t.took = append(t.took, time.Since(sent))
		}
	}
}
