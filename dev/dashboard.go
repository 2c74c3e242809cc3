package dev

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dashboard"
	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/dev/runner"
	"github.com/rouse-run/rouse/eventbridge/admin"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/daemon"
)

// home is the dashboard's home in local mode, whose user may do everything.
type home struct {
	*mode

	writing sync.Mutex
}

// serveDashboard serves the dashboard.
func (m *mode) serveDashboard(ctx context.Context) error {
	if m.dashboard == nil {
		<-ctx.Done()
		return nil
	}
	at := &home{mode: m}
	handler, err := dashboard.New(dashboard.Deps{
		About: dashboard.About{
			Home: "local", Name: m.claim.Directory(), Version: daemon.Version(), Publish: urlOf(m.public) + publishPath,
			LogIn: "open the address that rouse dev has printed, which has its token",
		},
		Access: dashboard.Owner{Token: m.token, Changes: true}, State: &shownState{home: at}, Events: at, Lines: lineFeed{m.feed},
		DeadLetters: keptDeadLetters{m.store}, Publisher: at, Caller: at,
		Manager: at, Author: at,
		Log: m.log.WithName("dashboard"),
	})
	if err != nil {
		return err
	}
	return daemon.Serve(ctx, daemon.Server{
		Name: "dashboard", Listener: m.dashboard, DrainTimeout: stopTimeout, Handler: handler.OnThisMachine(ctx),
	}, m.log)
}

// openDashboard takes the port of the dashboard. A run with --once has none, because nobody looks at it.
func (m *mode) openDashboard(ctx context.Context) error {
	if m.options.Once {
		return nil
	}
	listener, moved, err := listenAt(ctx, flagDashboardPort, m.options.DashboardPort, defaultDashboardPort)
	if err != nil {
		return err
	}
	m.dashboard = listener
	if moved {
		m.logLine(fmt.Sprintf("port %d is taken, so the dashboard is at port %d; choose one with %s",
			defaultDashboardPort, portOf(listener), flagDashboardPort))
	}
	return nil
}

// dashboardAddress is the address without the token.
func (m *mode) dashboardAddress() string {
	if m.dashboard == nil {
		return ""
	}
	return urlOf(m.dashboard)
}

// dashboardURL is the address with the token, which a browser keeps to itself in a fragment.
func (m *mode) dashboardURL() string {
	if m.dashboard == nil {
		return ""
	}
	return m.dashboardAddress() + "/#" + m.token
}

// openBrowser opens the dashboard with --open.
func (m *mode) openBrowser(ctx context.Context) error {
	if m.options.Open && m.dashboard != nil {
		m.startBrowser(ctx)
	}
	<-ctx.Done()
	return nil
}

func (m *mode) startBrowser(ctx context.Context) {
	if err := dashboard.Open(ctx, m.options.opener, m.state, m.dashboardURL()); err != nil {
		m.logLine("--open: " + err.Error())
	}
}

// Each implements dashboard.Events.
func (h *home) Each(_ context.Context, _ dashboard.User, query journal.Query, yield func(journal.Record) bool) {
	h.journal.Each(query, func(r journal.Record) bool { return yield(h.source.explained(r)) })
}

// Follow implements dashboard.Events.
func (h *home) Follow(ctx context.Context, _ dashboard.User, query journal.Query, yield func(journal.Record)) {
	h.journal.Follow(ctx, query, func(r journal.Record) { yield(h.source.explained(r)) })
}

// Event implements dashboard.Events.
func (h *home) Event(_ context.Context, _ dashboard.User, source, id string) (json.RawMessage, error) {
	for _, ev := range h.recent.Find([]string{id}, "") {
		if source == "" || ev.Source == source {
			return ev.AppendStructured(nil), nil
		}
	}
	return nil, dashboard.ErrNotFound
}

// Publish implements dashboard.Publisher.
func (h *home) Publish(ctx context.Context, _ dashboard.User, event []byte) error {
	events, err := parseEvents(event)
	if err != nil {
		return err
	}
	return h.source.publisher.publish(ctx, events)
}

// Call implements dashboard.Caller, by the Function's port of this machine.
func (h *home) Call(ctx context.Context, _ dashboard.User, function types.NamespacedName, call dashboard.Call) (dashboard.CallAnswer, error) {
	all := h.functions.Status()
	at := slices.IndexFunc(all, func(s runner.Status) bool { return s.Namespace == function.Namespace && s.Name == function.Name })
	if at < 0 || all[at].URL == "" {
		return dashboard.CallAnswer{}, fmt.Errorf("%w: there is no Function %s with a port", dashboard.ErrNotFound, function)
	}
	return call.At(ctx, all[at].URL)
}

// lineFeed implements dashboard.Lines.
type lineFeed struct{ feed *process.Feed }

// Follow implements dashboard.Lines.
func (f lineFeed) Follow(ctx context.Context, _ dashboard.User, function types.NamespacedName, tail int, handle func(dashboard.Line)) {
	f.feed.Follow(ctx, function, tail, func(l process.Line) {
		handle(dashboard.Line{Time: l.Time, Replica: l.Replica, Stream: l.Stream, Text: l.Text})
	})
}

// keptDeadLetters implements dashboard.DeadLetters.
type keptDeadLetters struct{ store admin.Store }

// List implements dashboard.DeadLetters.
func (k keptDeadLetters) List(ctx context.Context, _ dashboard.User, query admin.Query) (admin.Page, error) {
	return k.store.List(ctx, query)
}

// Get implements dashboard.DeadLetters.
func (k keptDeadLetters) Get(ctx context.Context, _ dashboard.User, sequence uint64) (admin.DeadLetterDetail, error) {
	return k.store.Get(ctx, sequence)
}

// Redrive implements dashboard.DeadLetters.
func (k keptDeadLetters) Redrive(ctx context.Context, _ dashboard.User, selection admin.Selection) (admin.Redriven, error) {
	return k.store.Redrive(ctx, selection)
}

// Purge implements dashboard.DeadLetters.
func (k keptDeadLetters) Purge(ctx context.Context, _ dashboard.User, selection admin.Selection) (uint64, error) {
	return k.store.Purge(ctx, selection)
}
