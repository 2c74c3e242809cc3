package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/broker"
)

const (
	eventSource = "powercut"
	ackWait     = 30 * time.Second
	readTimeout = time.Minute
	page        = 5000
)

// cut is one power cut.
type cut struct {
	rig   *rig.Rig
	sync  string
	name  string
	lasts time.Duration // until the power is cut
}

func (c *cut) run(ctx context.Context) (one tally, err error) {
	d, err := newDisk(ctx, c.rig.Dir(), c.name)
	if err != nil {
		return tally{}, err
	}
	confirmed, left, err := c.publishUntilTheCut(ctx, d)
	if err = errors.Join(err, d.remove()); err != nil {
		return tally{}, err
	}
	defer func() { err = errors.Join(err, left.remove()) }()
	found, err := c.storedIDs(ctx, left)
	if err != nil {
		return tally{}, err
	}
	one.confirmed = len(confirmed)
	for _, id := range confirmed {
		if !found[id] {
			one.lost++
		}
	}
	return one, nil
}

// publishUntilTheCut returns the events confirmed before the cut, and the disk after it.
func (c *cut) publishUntilTheCut(ctx context.Context, d *disk) ([]string, *disk, error) {
	server, err := c.rig.StartNATS(rig.NATS{Name: c.name, Store: d.mounted, Sync: c.sync})
	if err != nil {
		return nil, nil, err
	}
	defer server.Kill()
	fixture := rig.Fixture{NATS: server.Where} // its sink sleeps, so that the stream keeps all events
	fixture.Routes = append(fixture.Routes, rig.Route("bench", "asleep", eventSource, eventType, 1))
	if err := fixture.PrepareAlone(ctx, broker.DefaultStreamOptions(), ackWait); err != nil {
		return nil, nil, err
	}
	if c.sync != always { // otherwise the stream itself would be lost
		if err := command(ctx, "sync", "-f", d.mounted); err != nil {
			return nil, nil, err
		}
	}
	bridge, err := c.rig.StartBridge(fixture, 0)
	if err != nil {
		return nil, nil, err
	}
	defer bridge.Kill()
	crowd := newCrowd(ctx, bridge.Address(rig.Public)+"/publish")
	defer crowd.end()
	select {
	case <-time.After(c.lasts):
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	if err := server.Freeze(); err != nil {
		return nil, nil, fmt.Errorf("freeze nats-server: %w", err)
	}
	confirmed := crowd.confirmed()
	left, err := d.afterPowerCut(ctx)
	return confirmed, left, err
}

// storedIDs returns the ids of the events on a disk.
func (c *cut) storedIDs(ctx context.Context, left *disk) (map[string]bool, error) {
	server, err := c.rig.StartNATS(rig.NATS{Name: c.name, Store: left.mounted})
	if err != nil {
		return nil, err
	}
	defer server.Kill()
	conn, err := nats.Connect(server.Where)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	reader, err := js.Consumer(ctx, broker.DefaultStream, rig.Route("bench", "asleep", eventSource, eventType, 1).Consumer)
	if err != nil {
		return nil, fmt.Errorf("find the consumer: %w", err)
	}
	return ids(ctx, reader)
}

// ids returns the ids of the consumer's events and acks them.
func ids(ctx context.Context, reader jetstream.Consumer) (map[string]bool, error) {
	found := map[string]bool{}
	for {
		batch, err := reader.FetchNoWait(page)
		if err != nil {
			return nil, fmt.Errorf("read the stream: %w", err)
		}
		count := 0
		for message := range batch.Messages() {
			found[message.Headers().Get("ce-id")] = true
			count++
			if err := message.DoubleAck(ctx); err != nil {
				return nil, fmt.Errorf("read the stream: %w", err)
			}
		}
		if count == 0 {
			return found, batch.Error()
		}
	}
}

const diskSize = 2 << 30 // mostly holes

// disk is a file system in a file.
type disk struct{ file, mounted string }

func newDisk(ctx context.Context, dir, name string) (*disk, error) {
	d := &disk{file: filepath.Join(dir, name+".img"), mounted: filepath.Join(dir, name)}
	file, err := os.Create(d.file)
	if err != nil {
		return nil, fmt.Errorf("make a disk: %w", err)
	}
	if err := errors.Join(file.Truncate(diskSize), file.Close()); err != nil {
		return nil, fmt.Errorf("make a disk: %w", err)
	}
	if err := command(ctx, "mkfs.ext4", "-q", "-F", d.file); err != nil {
		return nil, err
	}
	return d, d.mount(ctx)
}

// mount mounts the disk with the longest possible writeback delay.
func (d *disk) mount(ctx context.Context) error {
	if err := os.MkdirAll(d.mounted, 0o700); err != nil {
		return fmt.Errorf("mount a disk: %w", err)
	}
	return command(ctx, "mount", "-o", "loop,commit=600", d.file, d.mounted)
}

// afterPowerCut returns a disk with the synced content of this one.
func (d *disk) afterPowerCut(ctx context.Context) (*disk, error) {
	left := &disk{file: d.file + ".left", mounted: d.mounted + "-left"}
	if err := command(ctx, "cp", "--sparse=always", d.file, left.file); err != nil {
		return nil, err
	}
	return left, left.mount(ctx)
}

func (d *disk) remove() error {
	return errors.Join(command(context.Background(), "umount", d.mounted), os.Remove(d.file))
}

func command(ctx context.Context, name string, args ...string) error {
	output, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(output)))
	}
	return nil
}
