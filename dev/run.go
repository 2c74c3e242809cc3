package dev

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"

	"github.com/rouse-run/rouse/dev/instance"
	"github.com/rouse-run/rouse/dev/nats"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

const (
	tokenFile = "token"
	natsName  = "rouse-dev"
	// portsFile remembers which Function has which port. It has nothing of events, so --fresh keeps it.
	portsFile = "ports.json"
	// stopTimeout bounds the end of what stands below everything else.
	stopTimeout = 500 * time.Millisecond
)

// Run serves a folder until ctx ends, the user quits, or, with Once, the events are settled. Functions are stopped and
// state is kept when it returns.
func Run(ctx context.Context, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	events, err := readEvents(o.Publish)
	if err != nil {
		return err
	}
	if err := o.complete(); err != nil {
		return err
	}
	claim, err := instance.Acquire(ctx, o.State, o.Directory)
	if err != nil {
		return err
	}
	defer func() { _ = claim.Release() }() // the kernel does, if we cannot
	if o.Fresh {
		if err := claim.Empty(portsFile); err != nil {
			return err
		}
	}
	state, err := stateFolder(claim, o.Once)
	if err != nil {
		return err
	}
	if o.Once {
		defer func() { _ = os.RemoveAll(state) }() // what stays is swept by the next --fresh
	}
	return serve(ctx, o, claim, state, events)
}

// complete fills in the folders that the user does not name.
func (o *Options) complete() error {
	var err error
	if o.State == "" {
		if o.State, err = instance.Root(); err != nil {
			return err
		}
	}
	if o.Cache == "" {
		if o.Cache, err = instance.CacheRoot(); err != nil {
			return err
		}
	}
	// Processes start in folders of their own.
	if o.State, err = filepath.Abs(o.State); err != nil {
		return fmt.Errorf("find the state folder: %w", err)
	}
	if o.Cache, err = filepath.Abs(o.Cache); err != nil {
		return fmt.Errorf("find the cache folder: %w", err)
	}
	return nil
}

// stateFolder is that of the claim. A run that plays its events once has one of its own, because it has to find the same
// each time, and what an earlier run left is none of its business.
func stateFolder(claim *instance.Claim, once bool) (string, error) {
	if !once {
		return claim.Folder(), nil
	}
	folder, err := os.MkdirTemp(claim.Folder(), "once-")
	if err != nil {
		return "", fmt.Errorf("make the state folder: %w", err)
	}
	return folder, nil
}

// serve starts what everything stands on, runs the local mode on it, and ends both.
func serve(ctx context.Context, o Options, claim *instance.Claim, state string, events []cloudevent.Event) (err error) {
	token := rand.Text()
	if err := os.WriteFile(filepath.Join(state, tokenFile), []byte(token), ownerOnly); err != nil {
		return fmt.Errorf("write the token: %w", err)
	}
	freeBytes, err := free(state)
	if err != nil {
		return err
	}
	streams, err := streamsFor(state, freeBytes)
	if err != nil {
		return err
	}
	m := &mode{options: o, claim: claim, state: state, token: token, streams: streams, events: events}
	m.feed = newFeed()
	log, file, err := openLog(state, m.logLine)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // what it could not write is a log
	m.log = log
	var server *nats.Server
	err = reportIfSlow(o.Out, slowStart, "starting NATS, which reads the events that are kept in "+state+" ...", func() (err error) {
		server, err = nats.Start(nats.Options{
			Folder: filepath.Join(state, "nats"), Token: token, MaxBytes: storeBytes, Log: log.WithName("nats"),
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("%w (%s)", err, filepath.Join(state, logFile))
	}
	defer func() { err = errors.Join(err, stop(ctx, log, server.Close)) }()
	m.nats = server.URL()
	return m.run(ctx)
}

// stop gives what stands below a moment to end. If it takes longer it is left, which the disk is made for.
func stop(ctx context.Context, log logr.Logger, end func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err := end(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		log.Info("left before its end", "reason", err.Error())
		return nil
	}
	return err
}
