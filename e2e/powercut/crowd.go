package main

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// crowd are publishers that send one event after the other.
type crowd struct {
	client  http.Client
	stop    context.CancelFunc
	running sync.WaitGroup

	mu  sync.Mutex
	ids []string // of events that were confirmed
}

func newCrowd(ctx context.Context, url string) *crowd {
	ctx, stop := context.WithCancel(ctx)
	c := &crowd{stop: stop, client: http.Client{
		Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: publishers},
	}}
	for publisher := range publishers {
		c.running.Go(func() {
			for number := 0; ctx.Err() == nil; number++ {
				c.publish(ctx, url, strconv.Itoa(publisher)+"-"+strconv.Itoa(number))
			}
		})
	}
	return c
}

// publish records the event if it is confirmed. Others may be stored or not.
func (c *crowd) publish(ctx context.Context, url, id string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"number":1}`))
	if err != nil {
		return
	}
	for name, value := range map[string]string{
		"Ce-Specversion": "1.0", "Ce-Id": id, "Ce-Source": eventSource, "Ce-Type": eventType, "Content-Type": "application/json",
	} {
		request.Header.Set(name, value)
	}
	response, err := c.client.Do(request)
	if err != nil {
		return
	}
	_ = response.Body.Close()
	if response.StatusCode == http.StatusNoContent {
		c.mu.Lock()
		c.ids = append(c.ids, id)
		c.mu.Unlock()
	}
}

// confirmed are the events that were confirmed until now.
func (c *crowd) confirmed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.ids...)
}

func (c *crowd) end() {
	c.stop()
	c.running.Wait()
	c.client.CloseIdleConnections()
}
