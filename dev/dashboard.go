package dev

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dashboard"
	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/dev/runner"
	"github.com/rouse-run/rouse/eventbridge/admin"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/daemon"
)

// home is the dashboard's home in local mode: its user is who has the token, and may do everything.
type home struct{ *mode }

// serveDashboard serves the dashboard.
func (m *mode) serveDashboard(ctx context.Context) error {
	if m.dashboard == nil {
		<-ctx.Done()
		return nil
	}
	directory, err := filepath.Abs(m.options.Directory)
	if err != nil {
		directory = m.options.Directory
	}
	at := &home{m}
	handler, err := dashboard.New(dashboard.Deps{
		About: dashboard.About{
			Home: "local", Name: directory, Version: daemon.Version(), Publish: urlOf(m.public) + publishPath,
			LogIn: "open the address that rouse dev has printed, which has its token",
		},
		Access: at, State: &shownState{home: at}, Events: at, Lines: lineFeed{m.feed}, DeadLetters: keptDeadLetters{m.store}, Publisher: at, Caller: at,
		Log: m.log.WithName("dashboard"),
	})
	if err != nil {
		return err
	}
	serve := handler.Until(ctx)
	return daemon.Serve(ctx, daemon.Server{
		Name: "dashboard", Listener: m.dashboard, DrainTimeout: stopTimeout,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !onLoopback(r) {
				fail(w, http.StatusMisdirectedRequest, errHost.Error())
				return
			}
			serve.ServeHTTP(w, r)
		}),
	}, m.log)
}

// openDashboard takes the port of the dashboard. A run with --once has nobody who looks.
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
		m.logLine(fmt.Sprintf("port %d is taken, so the dashboard is at port %d; choose one with %s", defaultDashboardPort, portOf(listener), flagDashboardPort))
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

// pageFile is a page that leads to the dashboard.
const pageFile = "dashboard.html"

// openBrowser opens the dashboard. The browser is given a file, which only its owner can read: the arguments of a program, and with
// them a token, can be read by everyone on this machine.
func (m *mode) openBrowser(ctx context.Context) error {
	if m.options.Open && m.dashboard != nil {
		m.startBrowser(ctx)
	}
	<-ctx.Done()
	return nil
}

func (m *mode) startBrowser(ctx context.Context) {
	program := cmp.Or(m.options.opener, "xdg-open")
	if m.options.opener == "" && runtime.GOOS == "darwin" {
		program = "open"
	}
	file := filepath.Join(m.state, pageFile)
	text := `<!doctype html><meta charset="utf-8"><title>Rouse</title><meta http-equiv="refresh" content="0; url=` + m.dashboardURL() + `">`
	err := os.WriteFile(file, []byte(text), ownerOnly)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, openerTimeout)
		defer cancel()
		err = exec.CommandContext(ctx, program, file).Run() //nolint:gosec // a program of the desktop, with our own file
	}
	if err != nil {
		m.logLine(fmt.Sprintf("--open: %s: %s; open the address of the dashboard yourself", program, err))
	}
}

// openerTimeout bounds how long the program that opens a browser may take.
const openerTimeout = 20 * time.Second

// Authenticate implements dashboard.Access.
func (h *home) Authenticate(r *http.Request) (dashboard.User, error) {
	if !daemon.HasBearer(r, h.token) {
		return dashboard.User{}, dashboard.ErrUnauthenticated
	}
	return dashboard.User{Name: "local", Changes: true}, nil
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

// maxCalled bounds what is shown of the answer of a Function.
const maxCalled = 64 << 10

// Call implements dashboard.Caller, by the Function's port of this machine.
func (h *home) Call(ctx context.Context, _ dashboard.User, function types.NamespacedName, call dashboard.Call) (dashboard.CallAnswer, error) {
	all := h.functions.Status()
	at := slices.IndexFunc(all, func(s runner.Status) bool { return s.Namespace == function.Namespace && s.Name == function.Name })
	if at < 0 || all[at].URL == "" {
		return dashboard.CallAnswer{}, fmt.Errorf("%w: there is no Function %s with a port", dashboard.ErrNotFound, function)
	}
	request, err := http.NewRequestWithContext(ctx, call.Method, all[at].URL+call.Path, strings.NewReader(call.Body))
	if err != nil {
		return dashboard.CallAnswer{}, fmt.Errorf("call %s: %w", function, err)
	}
	if call.Body != "" {
		request.Header.Set("Content-Type", cmp.Or(call.ContentType, "application/json"))
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	began := time.Now()
	response, err := client.Do(request)
	if err != nil {
		return dashboard.CallAnswer{}, fmt.Errorf("call %s: %w", function, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxCalled+1))
	if err != nil {
		return dashboard.CallAnswer{}, fmt.Errorf("read the answer of %s: %w", function, err)
	}
	return dashboard.CallAnswer{
		Status: response.StatusCode, ContentType: response.Header.Get("Content-Type"), TookMS: time.Since(began).Milliseconds(),
		Body: strings.ToValidUTF8(string(text[:min(len(text), maxCalled)]), "\uFFFD"), Cut: len(text) > maxCalled,
	}, nil
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
