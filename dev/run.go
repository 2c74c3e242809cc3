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
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/daemon"
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

// logFile is where the parts that come from a cluster log, in the state folder. Each start truncates it.
const (
	logFile   = "rouse.log"
	ownerOnly = 0o600
)

// openLog makes the log of all parts. What they call errors is shown too, in a line.
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

// shown is a handler whose errors are shown.
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

// sentence is what a person needs of a record: what happened and why.
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

// preparePoll is how often it is checked whether everything is up, when nothing signals a change.
const preparePoll = time.Second

// show runs what the user sees, and beside it what was asked for at the start.
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

// publishFirst publishes the events of --publish. Each run does so with ids of its own: what the one before published is
// still known, and would be stored once.
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

// awaitUp waits until every Subscription has its consumer and no Function is being prepared. It is false when ctx ends.
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

// namedSubscriptions is how many of those with pending events are named.
const namedSubscriptions = 3

// countTimeout bounds how long the end waits to tell what is left; NATS of this process takes milliseconds.
const countTimeout = 5 * time.Second

// countKept asks, once nothing is delivered any more, what is left.
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

// keptOf is a text for people: what is left, where it is, and what may be done about it.
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

// pendingOf is what is still to be delivered. Leftovers of a Subscription that is gone are not.
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

// printKept prints the last line. A run with Once that came to its end has had its own.
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
