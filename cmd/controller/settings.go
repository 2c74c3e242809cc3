package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/rouse-run/rouse/controller/function"
	"github.com/rouse-run/rouse/controller/gitpoll"
	"github.com/rouse-run/rouse/internal/kube/settingswatch"
	"github.com/rouse-run/rouse/internal/settings"
)

// firstSettings is how long the controllers wait for the settings before they begin without them. Without the API server they could do
// nothing anyway.
const firstSettings = 15 * time.Second

// liveSettings are what settings change while the process runs.
type liveSettings struct {
	functions    *function.Live
	repositories *gitpoll.Tracker
	git          gitpoll.Options
}

func (l *liveSettings) apply(read *settings.Settings) {
	if l.functions == nil {
		return // another process works on Functions
	}
	l.functions.Apply(read)
	l.repositories.SetInterval(cmp.Or(read.GitCheckInterval, l.git.CheckInterval))
}

// follower follows the ConfigMaps of settings.
type follower struct {
	watcher *settingswatch.Watcher
	log     logr.Logger
}

// followSettings announces what is wrong with them: of all processes this one may write Events.
func followSettings(mgr ctrl.Manager, o *options, live *liveSettings, log logr.Logger) (*follower, error) {
	watcher, err := settingswatch.New(o.settings, settingswatch.Deps{
		Config: mgr.GetConfig(), Log: log, Registry: metrics.Registry, Events: mgr.GetClient(), Apply: live.apply,
	})
	if err != nil {
		return nil, err
	}
	debugged := settingswatch.DebuggedThemselves(mgr.GetCache(), log, mgr.GetEventRecorder("settings"), o.runs(functions), o.runs(subscriptions))
	if err := mgr.Add(everywhere{debugged.Run}); err != nil {
		return nil, fmt.Errorf("follow what is debugged: %w", err)
	}
	return &follower{watcher: watcher, log: log}, nil
}

// before begins work once the settings were read: with those of the command line Functions might be made differently for a moment.
func (f *follower) before(work func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if !f.watcher.First(ctx, firstSettings) && ctx.Err() == nil {
			f.log.Error(nil, "the ConfigMaps of settings could not be read yet: Functions that run stay as they are until then",
				"waited", firstSettings.String())
		}
		return work(ctx)
	}
}

// everywhere runs in all replicas and not only in the one that leads.
type everywhere struct{ manager.RunnableFunc }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everywhere) NeedLeaderElection() bool { return false }
