// Command controller is the control plane: it turns Functions into Deployments, Services and ScaledObjects, lists
// activators among their endpoints, turns Subscriptions into durable consumers, and APIRules into HTTPRoutes; a process
// may run some of these controllers. "controller uninstall" deletes all Functions and Subscriptions, or what is left of
// a controller that is gone; "controller credentials" generates the passwords of an installation.
package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/rouse-run/rouse/charts"
	"github.com/rouse-run/rouse/controller/activator"
	"github.com/rouse-run/rouse/controller/alias"
	"github.com/rouse-run/rouse/controller/apirules"
	"github.com/rouse-run/rouse/controller/buildqueue"
	"github.com/rouse-run/rouse/controller/conversion"
	"github.com/rouse-run/rouse/controller/credentials"
	"github.com/rouse-run/rouse/controller/door"
	"github.com/rouse-run/rouse/controller/function"
	"github.com/rouse-run/rouse/controller/gitpoll"
	"github.com/rouse-run/rouse/controller/images"
	"github.com/rouse-run/rouse/controller/keyring"
	"github.com/rouse-run/rouse/controller/schedule"
	"github.com/rouse-run/rouse/controller/standin"
	"github.com/rouse-run/rouse/controller/subscription"
	"github.com/rouse-run/rouse/controller/wake"
	"github.com/rouse-run/rouse/controller/workloads"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/fips"
	"github.com/rouse-run/rouse/internal/git"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/kube/settingswatch"
	"github.com/rouse-run/rouse/internal/settings"
)

func main() {
	os.Exit(start(os.Args[1:]))
}

func start(args []string) int {
	if len(args) > 0 && args[0] == "uninstall" {
		o := &uninstallOptions{timeout: 3 * time.Minute}
		return daemon.Main("controller uninstall", args[1:], o, func(ctx context.Context, log logr.Logger) error {
			return uninstall(ctx, o, log)
		})
	}
	if len(args) > 0 && args[0] == "credentials" {
		o := credentials.DefaultOptions()
		return daemon.Main("controller credentials", args[1:], o, func(ctx context.Context, log logr.Logger) error {
			return makeCredentials(ctx, o, log)
		})
	}
	o := defaultOptions()
	return daemon.Main("controller", args, o, func(ctx context.Context, log logr.Logger) error { return run(ctx, o, log) })
}

func run(ctx context.Context, o *options, log logr.Logger) error {
	kube.SetLogger(log)
	checks := map[string]healthz.Checker{"ping": healthz.Ping}
	manager, err := newManager(o, checks)
	if err != nil {
		return err
	}
	live := &liveSettings{}
	if o.runs(functions) {
		if live, err = setUpFunctions(ctx, manager, o); err != nil {
			return err
		}
		checks["functions"] = live.functions.Healthy
	}
	follow, err := followSettings(manager, o, live, log)
	if err != nil {
		return err
	}
	if err := setUpHosts(manager, o); err != nil {
		return err
	}
	work := follow.before(manager.Start)
	if !o.runs(activators, subscriptions) {
		return daemon.RunOn(ctx, work, follow.watcher.Run) // the other controllers do not use NATS
	}
	conn, err := broker.Connect(ctx, o.broker, log)
	if err != nil {
		return err
	}
	if err := setUpEventing(ctx, manager, conn, live, o); err != nil {
		return err
	}
	return daemon.RunOn(ctx, work, conn.Hold, follow.watcher.Run)
}

// setUpHosts sets up the controller of APIRules, which tells that of Doors about their hosts.
func setUpHosts(manager ctrl.Manager, o *options) error {
	if !o.runs(apiRules) {
		return nil
	}
	if o.exposure.Enabled && o.exposure.DoorService.Name != "" && o.keys.Name != "" && o.runs(subscriptions) {
		o.exposure.DoorHosts = apirules.NewDoorHosts()
	}
	return apirules.Setup(manager, nil, o.exposure)
}

// setUpEventing sets up the controllers that use NATS.
func setUpEventing(ctx context.Context, manager ctrl.Manager, conn *broker.Conn, live *liveSettings, o *options) error {
	if o.runs(activators) {
		err := activator.Setup(ctx, manager, activator.Parts{
			Registerer:    metrics.Registry,
			Announcements: conn,
			ScalesToZero: func(ctx context.Context) (bool, error) {
				if o.function.ExternalMetrics {
					return true, nil
				}
				return kube.KEDAInstalled(ctx, manager.GetClient())
			},
		}, o.activation)
		if err != nil {
			return err
		}
		if err := wake.Setup(manager, conn, metrics.Registry); err != nil {
			return err
		}
	}
	if o.standIns.Enabled() {
		parts := standin.Parts{Registerer: metrics.Registry, Announcements: conn, Settings: live.functions.Current}
		if err := standin.Setup(manager, parts, o.standIns); err != nil {
			return err
		}
	}
	if !o.runs(subscriptions) {
		return nil
	}
	return setUpSubscriptions(ctx, manager, conn, o)
}

// setUpSubscriptions sets up what only one process of a release does: the controllers of Subscriptions, Schedules and Doors.
func setUpSubscriptions(ctx context.Context, manager ctrl.Manager, conn *broker.Conn, o *options) error {
	ring, err := keyring.New(manager, o.keys)
	if err != nil {
		return err
	}
	o.subscription.Keyring = ring
	if err := subscription.Setup(ctx, manager, conn, metrics.Registry, o.subscription); err != nil {
		return err
	}
	if err := schedule.Setup(manager, conn, o.schedules, o.subscription.Sinks.Access); err != nil {
		return err
	}
	if hosts := o.exposure.DoorHosts; hosts != nil {
		if err := door.Setup(manager, door.Parts{Hosts: hosts, Changed: hosts.Changed(), Reports: conn, Keyring: ring}, o.doors); err != nil {
			return err
		}
	}
	if err := alias.Setup(manager, o.exposure.Alias); err != nil {
		return err
	}
	return setUpVersions(manager, o)
}

// newManager creates the manager. Checks may be added until it starts.
func newManager(o *options, checks map[string]healthz.Checker) (ctrl.Manager, error) {
	cached := function.CacheObjects()
	maps.Copy(cached, activator.CacheObjects())
	maps.Copy(cached, subscription.CacheObjects())
	manager, err := kube.NewManager(o.manager, cache.Options{ByObject: cached, DefaultTransform: transform}, checks)
	if err != nil {
		return nil, err
	}
	if err := daemon.RegisterBuild(metrics.Registry); err != nil {
		return nil, err
	}
	return kube.BoundEvents(manager)
}

// transform reduces objects of kinds that may be unknown when the cache is created.
func transform(object any) (any, error) {
	object, err := function.Transform(object)
	if err != nil {
		return nil, err
	}
	return apirules.Transform(object)
}

// setUpFunctions sets up the controllers of Functions and of their builds. It returns their changeable settings.
func setUpFunctions(ctx context.Context, manager ctrl.Manager, o *options) (*liveSettings, error) {
	ca, err := readCABundle(o.caBundle)
	if err != nil {
		return nil, err
	}
	guard, err := o.guard()
	if err != nil {
		return nil, err
	}
	repositories, err := git.New(git.Options{CA: ca, Guard: guard})
	if err != nil {
		return nil, fmt.Errorf("set up the Git client: %w", err)
	}
	namespaces := o.registry
	namespaces.Guard = guard
	registries := images.NewResolver(manager.GetClient(), manager.GetAPIReader(), namespaces, ca)
	if access := o.subscription.Sinks.Access; access.Publish != nil {
		o.function.PublisherAudience = access.Publish.Audience
	}
	o.function.HTTPWake = o.activation.Enabled()
	o.function.Build.FIPS = fips.Running().Mode()
	live := &liveSettings{
		functions: function.NewLive(o.function, o.settings.ConfigMap != ""), repositories: gitpoll.NewTracker(repositories, metrics.Registry, o.git), git: o.git,
	}
	builds := buildqueue.NewQueue(o.function.Build.Limits(), buildqueue.JobReader{Reader: manager.GetClient()}, clock.RealClock{})
	err = function.Setup(ctx, manager, function.Parts{
		Registerer:   metrics.Registry,
		Registries:   registries,
		Builds:       builds,
		Repositories: live.repositories,
		CA:           ca,
		Settings:     live.functions,
	}, o.function)
	if err == nil {
		err = workloads.Setup(manager, live.functions.Current)
	}
	if err != nil || o.images.RegistryDeployment == "" {
		return live, err
	}
	return live, collectImages(manager, o, registries, builds)
}

// collectImages sets up the collector of unused images in the internal registry.
func collectImages(manager ctrl.Manager, o *options, registries *images.Resolver, builds *buildqueue.Queue) error {
	collector := images.New(images.Deps{
		Live: manager.GetAPIReader(), Registry: registries, Builds: builds, Registerer: metrics.Registry,
		Log: manager.GetLogger().WithName("images"), RuntimeImages: slices.Sorted(maps.Values(o.function.RuntimeImages)),
	}, o.images)
	if err := manager.Add(collector); err != nil {
		return fmt.Errorf("set up the image collector: %w", err)
	}
	return nil
}

// readCABundle rejects a file without a certificate, which would make no connection trusted.
func readCABundle(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	content, err := os.ReadFile(path) //nolint:gosec // the installation names it
	if err != nil {
		return nil, fmt.Errorf("read --ca-bundle: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("read --ca-bundle %s: %w", path, errors.New("no certificate in PEM form found"))
	}
	return content, nil
}

// setUpVersions sets up the conversion and the check of older versions.
func setUpVersions(manager ctrl.Manager, o *options) error {
	files, err := charts.CRDs()
	if err != nil {
		return err
	}
	if err := conversion.SetupStoredVersions(manager, metrics.Registry, files); err != nil {
		return err
	}
	if !o.conversion.Enabled() {
		return nil
	}
	if err := conversion.Setup(manager, o.conversion, files); err != nil {
		return err
	}
	return conversion.SetupGitRepositories(manager)
}

// firstSettings is how long the controllers wait for the settings before they start without them. Without the API
// server they could do nothing anyway.
const firstSettings = 15 * time.Second

// liveSettings are the parts that settings change at run time.
type liveSettings struct {
	functions    *function.Live
	repositories *gitpoll.Tracker
	git          gitpoll.Options
}

func (l *liveSettings) apply(read *settings.Settings) {
	if l.functions == nil {
		return // another process reconciles Functions
	}
	l.functions.Apply(read)
	l.repositories.SetInterval(cmp.Or(read.GitCheckInterval, l.git.CheckInterval))
}

// follower follows the ConfigMaps of settings.
type follower struct {
	watcher *settingswatch.Watcher
	log     logr.Logger
}

// followSettings also announces invalid settings: of all processes only this one may write Events.
func followSettings(mgr ctrl.Manager, o *options, live *liveSettings, log logr.Logger) (*follower, error) {
	watcher, err := settingswatch.New(o.settings, settingswatch.Deps{
		Config: mgr.GetConfig(), Log: log, Registry: metrics.Registry, Events: mgr.GetClient(), Apply: live.apply,
	})
	if err != nil {
		return nil, err
	}
	debugged := settingswatch.DebuggedThemselves(mgr.GetCache(), log, mgr.GetEventRecorder("settings"), o.runs(functions), o.runs(subscriptions))
	if err := mgr.Add(everywhere{debugged.Run}); err != nil {
		return nil, fmt.Errorf("follow the objects that are debugged: %w", err)
	}
	return &follower{watcher: watcher, log: log}, nil
}

// before starts work after the settings have been read: with those of the command line Functions might be changed back
// and forth.
func (f *follower) before(work func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if !f.watcher.First(ctx, firstSettings) && ctx.Err() == nil {
			f.log.Error(nil, "cannot read the ConfigMaps of settings yet: running Functions stay unchanged until then",
				"waited", firstSettings.String())
		}
		return work(ctx)
	}
}

// everywhere runs in all replicas and not only in the leader.
type everywhere struct{ manager.RunnableFunc }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everywhere) NeedLeaderElection() bool { return false }

// makeCredentials writes the missing Secrets of an installation.
func makeCredentials(ctx context.Context, o *credentials.Options, log logr.Logger) error {
	kube.SetLogger(log)
	objects, err := kube.NewClient()
	if err != nil {
		return err
	}
	return credentials.Make(ctx, objects, o, log)
}
