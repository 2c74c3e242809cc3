package dev

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/rouse-run/rouse/dev/instance"
	"github.com/rouse-run/rouse/dev/nats"
	"github.com/rouse-run/rouse/dev/runner"
	"github.com/rouse-run/rouse/dev/view"
	"github.com/rouse-run/rouse/eventbridge/admin"
	"github.com/rouse-run/rouse/internal/daemon"
)

const (
	tokenFile = "token"
	natsName  = "rouse-dev"
	// portsFile holds the ports of Functions. It holds nothing about events, so --fresh does not delete it.
	portsFile = "ports.json"
	// stopTimeout bounds the shutdown of the broker.
	stopTimeout = 500 * time.Millisecond
)

// Run serves a folder until ctx ends, the user quits, or, with Once, the events are settled. When it returns, Functions are stopped and
// the state is on disk.
func Run(ctx context.Context, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	read, err := o.readInput()
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
	defer func() { _ = claim.Release() }() // otherwise the kernel does
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
		defer func() { _ = os.RemoveAll(state) }() // the next --fresh deletes what is left
	}
	return serve(ctx, o, claim, state, read)
}

// complete sets the folders that the user did not name.
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
	// Paths are absolute, because processes start in folders of their own.
	if o.State, err = filepath.Abs(o.State); err != nil {
		return fmt.Errorf("find the state folder: %w", err)
	}
	if o.Cache, err = filepath.Abs(o.Cache); err != nil {
		return fmt.Errorf("find the cache folder: %w", err)
	}
	return nil
}

// stateFolder returns the state folder of the claim. A run with Once gets an empty one, so that every run starts from the same state.
func stateFolder(claim *instance.Claim, once bool) (string, error) {
	if !once {
		return claim.Folder(), nil
	}
	folder, err := os.MkdirTemp(claim.Folder(), "once-")
	if err != nil {
		return "", fmt.Errorf("create the state folder: %w", err)
	}
	return folder, nil
}

// serve starts the broker, runs the local mode on it, and stops both.
func serve(ctx context.Context, o Options, claim *instance.Claim, state string, read input) (err error) {
	token := rand.Text()
	if err := os.WriteFile(filepath.Join(state, tokenFile), []byte(token), ownerOnly); err != nil {
		return fmt.Errorf("write the token: %w", err)
	}
	freeBytes, err := Free(state)
	if err != nil {
		return err
	}
	streams, err := streamsFor(state, freeBytes)
	if err != nil {
		return err
	}
	m := &mode{options: o, claim: claim, state: state, token: token, streams: streams, events: read.events, expected: read.expected}
	m.feed = newFeed()
	log, file, err := openLog(state, m.logLine)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // only log lines can be lost
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

// stop stops the broker within stopTimeout. Its store survives a longer shutdown that is cut off.
func stop(ctx context.Context, log logr.Logger, end func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err := end(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		log.Info("stopped waiting for the shutdown", "reason", err.Error())
		return nil
	}
	return err
}

// logFile is the log, in the state folder, of the parts that also run in a cluster. Each start truncates it.
const (
	logFile   = "rouse.log"
	ownerOnly = 0o600
)

// openLog opens the log of all parts. Their errors are shown as lines, too.
func openLog(folder string, show func(text string)) (logr.Logger, io.Closer, error) {
	path := filepath.Join(folder, logFile)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, ownerOnly) //nolint:gosec // below the state root
	if err != nil {
		return logr.Discard(), nil, fmt.Errorf("open the log: %w", err)
	}
	options := daemon.DefaultLogOptions()
	log := logr.FromSlogHandler(&shown{Handler: logr.ToSlogHandler(options.NewLogger(file)), show: show})
	return log, file, nil
}

// shown is a slog.Handler that also shows errors.
type shown struct {
	slog.Handler

	show func(text string)
}

// Handle implements slog.Handler.
func (h *shown) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelError {
		h.show(sentence(record))
	}
	return h.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (h *shown) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &shown{Handler: h.Handler.WithAttrs(attrs), show: h.show}
}

// WithGroup implements slog.Handler.
func (h *shown) WithGroup(name string) slog.Handler {
	return &shown{Handler: h.Handler.WithGroup(name), show: h.show}
}

// sentence returns the message and the error of a record.
func sentence(record slog.Record) string {
	text := record.Message
	record.Attrs(func(attr slog.Attr) bool {
		if attr.Key == "err" || attr.Key == "error" {
			text += ": " + strings.TrimSpace(attr.Value.String())
		}
		return true
	})
	return text
}

// preparePoll is the interval at which readiness is checked without a signal.
const preparePoll = time.Second

// show runs the view, and publishes the events of --publish.
func (m *mode) show(ctx context.Context) error {
	if m.options.Once {
		return m.once(ctx)
	}
	return together(ctx,
		func(ctx context.Context) error {
			if m.options.Plain {
				return view.Plain(ctx, m.source, m.options.Out)
			}
			return view.Terminal(ctx, m.source, m.options.In, m.options.Out)
		},
		func(ctx context.Context) error {
			if m.awaitUp(ctx) {
				m.logLine(fmt.Sprintf("up after %.1f s", time.Since(m.started).Seconds()))
				m.publishFirst(ctx)
			}
			<-ctx.Done()
			return nil
		},
	)
}

// publishFirst publishes the events of --publish with new ids, because those of an earlier run would be deduplicated.
func (m *mode) publishFirst(ctx context.Context) {
	if len(m.events) == 0 {
		return
	}
	text, err := m.source.Republish(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		m.logLine("--publish: " + err.Error())
	default:
		m.logLine(text)
	}
}

// awaitUp waits until every Subscription has its consumer and no Function is being prepared. It returns false when ctx ends.
func (m *mode) awaitUp(ctx context.Context) bool {
	for {
		settled, changed := m.subs.Settled(), m.functions.Changed()
		select {
		case <-ctx.Done():
			return false
		case <-settled:
		}
		if !m.preparing() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		case <-time.After(preparePoll):
		}
	}
}

func (m *mode) preparing() bool {
	for _, status := range m.functions.Status() {
		if status.Phase == runner.Preparing {
			return true
		}
	}
	return false
}

// namedSubscriptions bounds how many Subscriptions with pending events are listed.
const namedSubscriptions = 3

// countTimeout bounds how long pending events are counted at shutdown.
const countTimeout = 5 * time.Second

// countKept counts the pending events after the last delivery.
func (m *mode) countKept(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTimeout)
	defer cancel()
	all, err := m.store.Subscriptions(ctx)
	if err != nil {
		m.log.Info("cannot count what is kept", "reason", err.Error())
		m.kept = fmt.Sprintf("stopped; what was not delivered is kept in %s: the next rouse dev of this folder goes on with it, --fresh throws it away", m.state)
		return
	}
	m.kept = keptOf(all, m.state)
}

// keptOf describes pending events, where they are stored and how to continue.
func keptOf(all []admin.Subscription, folder string) string {
	var pending, deadLetters uint64
	var waiting []admin.Subscription
	for _, sub := range all {
		deadLetters += sub.DeadLetters
		if n := pendingOf(sub); n > 0 {
			pending += n
			waiting = append(waiting, sub)
		}
	}
	var parts []string
	if pending > 0 {
		slices.SortFunc(waiting, func(a, b admin.Subscription) int {
			return cmp.Or(cmp.Compare(pendingOf(b), pendingOf(a)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
		parts = append(parts, plural(pending, "event is", "events are")+" pending ("+named(waiting)+")")
	}
	if deadLetters > 0 {
		parts = append(parts, plural(deadLetters, "dead letter", "dead letters"))
	}
	if len(parts) == 0 {
		return "stopped; nothing is pending"
	}
	return fmt.Sprintf("stopped; kept in %s: %s; the next rouse dev of this folder goes on with that, --fresh throws it away",
		folder, strings.Join(parts, ", "))
}

func named(waiting []admin.Subscription) string {
	var texts []string
	for _, sub := range waiting[:min(len(waiting), namedSubscriptions)] {
		texts = append(texts, fmt.Sprintf("%d for %s/%s", pendingOf(sub), sub.Namespace, sub.Name))
	}
	if over := len(waiting) - namedSubscriptions; over > 0 {
		texts = append(texts, fmt.Sprintf("the rest for %d others", over))
	}
	return strings.Join(texts, ", ")
}

// pendingOf returns the number of undelivered events; 0 for a deleted Subscription.
func pendingOf(sub admin.Subscription) uint64 {
	if !sub.Consumer {
		return 0
	}
	return sub.Backlog + sub.AckPending + sub.WaitingRetries
}

func plural(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// printKept prints the last line. A completed run with Once has printed its own.
func (m *mode) printKept(ctx context.Context) error {
	switch {
	case !m.options.Once:
	case ctx.Err() != nil:
		m.kept = "stopped before its end; with --once nothing is kept"
	default:
		return nil
	}
	return view.PrintLine(m.options.Out, m.kept)
}
