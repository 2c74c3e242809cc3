// Command powercut publishes events and cuts the power of their nats-server's disk, repeatedly. Then it starts a server
// on the disk's content, and looks up each event whose publisher had received 204.
//
// The disk is a file system in a file. Unsynced writes are in the kernel's memory but not in that file: a copy of the
// file has the content of a disk after a power cut. The command needs root, for mounts.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/rouse-run/rouse/e2e/rig"
)

const (
	eventType   = "powercut.v1"
	publishers  = 16
	beforeCut   = 2 * time.Second // increases with each cut
	stepPerCut  = 300 * time.Millisecond
	always      = "always" // the chart's setting
	lazySync    = "2m"     // nats-server's default
	controlCuts = 1
)

func main() { rig.Main(run, nil) }

func run(ctx context.Context, r *rig.Rig) error {
	cuts := rig.Setting("CUTS", 5)
	fmt.Printf("%d cuts of the power with sync_interval always, and %d with %s beside them\n", cuts, controlCuts, lazySync)
	fmt.Printf("%-14s %5s %10s %8s %8s\n", "sync_interval", "cut", "events/s", "204", "lost")
	synced, err := series(ctx, r, always, cuts)
	if err != nil {
		return err
	}
	lazy, err := series(ctx, r, lazySync, controlCuts)
	if err != nil {
		return err
	}
	fmt.Printf("powercut cuts=%d confirmed=%d lost=%d lost_without_sync=%d\n", cuts, synced.confirmed, synced.lost, lazy.lost)
	switch {
	case synced.lost > 0:
		return errors.New("events are lost that were confirmed")
	case lazy.lost == 0:
		return errors.New("no event is lost without syncing either, so this machine proves nothing")
	}
	return nil
}

// tally is the result of several cuts.
type tally struct{ confirmed, lost int }

func series(ctx context.Context, r *rig.Rig, sync string, cuts int) (tally, error) {
	var all tally
	for number := range cuts {
		c := &cut{rig: r, sync: sync, name: fmt.Sprintf("disk-%s-%d", sync, number), lasts: beforeCut + time.Duration(number)*stepPerCut}
		one, err := c.run(ctx)
		if err != nil {
			return tally{}, fmt.Errorf("cut %d: %w", number+1, err)
		}
		fmt.Printf("%-14s %5d %10.0f %8d %8d\n", sync, number+1, float64(one.confirmed)/c.lasts.Seconds(), one.confirmed, one.lost)
		all.confirmed, all.lost = all.confirmed+one.confirmed, all.lost+one.lost
	}
	return all, nil
}

// crowd is a group of publishers that each send one event after the other.
type crowd struct {
	client  http.Client
	stop    context.CancelFunc
	running sync.WaitGroup

	mu  sync.Mutex
	ids []string // of confirmed events
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

// publish records the event if it is confirmed. Other events may or may not be stored.
func (c *crowd) publish(ctx context.Context, url, id string) {
	status, _, err := rig.Event{ID: id, Source: eventSource, Type: eventType, Data: `{"number":1}`}.Publish(ctx, &c.client, url)
	if err == nil && status == http.StatusNoContent {
		c.mu.Lock()
		c.ids = append(c.ids, id)
		c.mu.Unlock()
	}
}

// confirmed returns the events confirmed so far.
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
