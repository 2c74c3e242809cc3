package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	publishers     = 32
	publishTimeout = 10 * time.Second // of one attempt
	publishBound   = 2 * time.Minute  // of all attempts with one event
	publishPause   = 50 * time.Millisecond
)

// publish sends each event to one bridge after the other, until one has answered 204. It counts in progress.
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

// publishInOrder publishes an event of an ordered Subscription after the one before it is stored.
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
	url := "http://127.0.0.1:" + strconv.Itoa(port) + "/publish"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"number":`+strconv.Itoa(id)+`}`))
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		"Ce-Specversion": "1.0", "Ce-Id": strconv.Itoa(id), "Ce-Source": source, "Ce-Type": b.eventType(), "Content-Type": "application/json",
	} {
		request.Header.Set(name, value)
	}
	if at, ordered := orderedEventOf(id); ordered {
		request.Header.Set("Ce-"+keyAttribute, strconv.Itoa(at.key))
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(response.Body) // only for the error
	if response.StatusCode != http.StatusNoContent {
		return fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(text)))
	}
	return nil
}
