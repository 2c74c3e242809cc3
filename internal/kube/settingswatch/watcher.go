package settingswatch

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/kube/watch"
	"github.com/rouse-run/rouse/internal/settings"
)

// retry is how soon a watch begins again that has failed.
const retry = 2 * time.Second

// Deps are what a Watcher works with.
type Deps struct {
	Config   *rest.Config // of the API server
	Log      logr.Logger  // its level and format are changed too, where package logging has made it
	Registry prometheus.Registerer
	// Events writes Events on the ConfigMaps; nil: another process does it.
	Events client.Client
	// Apply is called with the settings of each good file, one call at a time; nil: the process has none but those of its log.
	Apply func(*settings.Settings)
}

// Watcher follows the ConfigMaps.
type Watcher struct {
	deps     Deps
	files    []*file
	metrics  *metrics
	firsts   sync.WaitGroup // one for each file until it was read
	settings settings.Settings
	log      settings.Log
}

// New makes a Watcher that does nothing until Run.
func New(o Options, deps Deps) (*Watcher, error) {
	w := &Watcher{deps: deps, metrics: newMetrics(deps.Registry, daemon.Of(deps.Log))}
	for _, named := range []struct {
		text, key string
		use       func(string) ([]string, error)
	}{
		{o.LogConfigMap, settings.LogKey, w.useLog}, {o.ConfigMap, settings.FunctionKey, w.useSettings},
	} {
		if named.text == "" {
			continue
		}
		name, err := nameOf(named.text)
		if err != nil {
			return nil, err
		}
		w.files = append(w.files, &file{name: name, key: named.key, use: named.use})
		w.metrics.known(named.key)
	}
	w.firsts.Add(len(w.files))
	return w, nil
}

// First waits until each file was read once, or found to be missing. It reports false when that takes longer.
func (w *Watcher) First(ctx context.Context, timeout time.Duration) bool {
	read := make(chan struct{})
	go func() {
		w.firsts.Wait()
		close(read)
	}()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-read:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// Run follows the ConfigMaps until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, f := range w.files {
		group.Go(func() error {
			w.persist(ctx, f)
			return nil
		})
	}
	group.Go(func() error { // also without files
		<-ctx.Done()
		return nil
	})
	return group.Wait()
}

// persist follows a file again when that fails: the process works with the settings that it has.
func (w *Watcher) persist(ctx context.Context, f *file) {
	read := sync.OnceFunc(w.firsts.Done)
	defer read()
	for {
		err := w.follow(ctx, f, read)
		if ctx.Err() != nil {
			return
		}
		w.metrics.valid(f.key, false)
		w.deps.Log.Error(err, "the ConfigMap of settings cannot be followed, those that are in force stay", "configMap", f.name.String())
		timer := time.NewTimer(retry)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

func (w *Watcher) follow(ctx context.Context, f *file, read func()) error {
	objects, err := kube.NewConfigMapCache(w.deps.Config, f.name, f.key, settings.MaxBytes)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return objects.Start(ctx) })
	group.Go(func() error {
		return watch.ConfigMap(ctx, objects, f.name, func(content watch.Content) {
			w.handle(ctx, f, content)
			read()
		})
	})
	if err := group.Wait(); err != nil {
		return fmt.Errorf("follow ConfigMap %s: %w", f.name, err)
	}
	return nil
}

func (w *Watcher) handle(ctx context.Context, f *file, content watch.Content) {
	said := f.take(content)
	log := w.deps.Log.WithName("settings").WithValues("configMap", f.name.String(), "key", f.key)
	w.metrics.valid(f.key, f.problem == "")
	switch {
	case said.problem != "":
		log.Error(nil, "the settings of the ConfigMap are not used", "reason", said.problem)
		w.announce(ctx, f, corev1.EventTypeWarning, ReasonRefused, said.problem)
	case len(said.changes) > 0:
		w.metrics.changed(f.key)
		log.Info("the settings of the ConfigMap are in force", "changes", said.changes)
		if !said.first { // at the start there is nothing new
			w.announce(ctx, f, corev1.EventTypeNormal, ReasonInForce, strings.Join(said.changes, "; "))
		}
	}
}

func (w *Watcher) useSettings(text string) ([]string, error) {
	read, err := settings.Parse(text)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the file already
	}
	changes := settings.Changes(&w.settings, &read)
	w.settings = read
	if w.deps.Apply != nil {
		w.deps.Apply(&read)
	}
	return changes, nil
}

func (w *Watcher) useLog(text string) ([]string, error) {
	read, err := settings.ParseLog(text)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the file already
	}
	if log := daemon.Of(w.deps.Log); log != nil {
		if err := log.Set(configOf(log.Base(), &read)); err != nil {
			return nil, fmt.Errorf("%s: %w", settings.LogKey, err)
		}
	}
	changes := settings.LogChanges(&w.log, &read)
	w.log = read
	return changes, nil
}

// configOf is what a file says on top of the command line.
func configOf(base daemon.Config, read *settings.Log) daemon.Config {
	if read.Level != "" {
		base.Level = read.Level
	}
	switch read.Format {
	case settings.FormatJSON:
		base.Format = daemon.FormatJSON
	case settings.FormatConsole:
		base.Format = daemon.FormatText
	}
	base.Components = read.Components
	if read.DebugLinesPerSecond != nil {
		base.DebugLines = *read.DebugLinesPerSecond
	}
	return base
}
