package settingswatch

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/kube/watch"
	"github.com/rouse-run/rouse/internal/settings"
)

// namespaceFile contains the namespace of the pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Options name the ConfigMaps.
type Options struct {
	// ConfigMap contains the settings, LogConfigMap those of the log: a name in the pod's namespace, or namespace/name.
	// Empty: none.
	ConfigMap, LogConfigMap string
}

// Flags declares --config-map and --log-config-map.
func (o *Options) Flags(fs *flags.Set) {
	const (
		where  = ", in the pod's namespace or as namespace/name; what it says changes what flags say while the process runs. Empty: none"
		demand = "be a name, or namespace/name"
	)
	fs.String(&o.ConfigMap, "config-map", "ConfigMap with the key function-config.yaml"+where).Must(isName(o.ConfigMap), demand)
	fs.String(&o.LogConfigMap, "log-config-map", "ConfigMap with the key log-config.yaml"+where).Must(isName(o.LogConfigMap), demand)
}

// isName reports whether a text is empty, a name or namespace/name.
func isName(text string) bool {
	namespace, name, qualified := strings.Cut(text, "/")
	if !qualified {
		namespace, name = "default", text
	}
	return text == "" || len(validation.IsDNS1123Label(namespace)) == 0 && len(validation.IsDNS1123Subdomain(name)) == 0
}

// nameOf parses the ConfigMap that a flag names.
func nameOf(text string) (types.NamespacedName, error) {
	if namespace, name, qualified := strings.Cut(text, "/"); qualified {
		return types.NamespacedName{Namespace: namespace, Name: name}, nil
	}
	own, err := os.ReadFile(namespaceFile)
	if err != nil {
		return types.NamespacedName{}, fmt.Errorf("find the namespace of ConfigMap %s: outside of a pod name it as namespace/%s: %w", text, text, err)
	}
	return types.NamespacedName{Namespace: strings.TrimSpace(string(own)), Name: text}, nil
}

// retry is the delay before a failed watch is restarted.
const retry = 2 * time.Second

// Deps are the dependencies of a Watcher.
type Deps struct {
	Config   *rest.Config // of the API server
	Log      logr.Logger  // changed too, if package daemon made it
	Registry prometheus.Registerer
	// Events writes Events on the ConfigMaps; nil if another process does.
	Events client.Client
	// Apply is called with the settings of each valid file, one call at a time; nil if the process has only log
	// settings.
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

// New returns a Watcher that is inactive until Run.
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

// First waits until each file has been read once, or found missing. It returns false on a timeout.
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

// persist restarts the watch of a file when it fails: the process keeps its settings.
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
		if !said.first { // the first settings are not a change
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

// configOf merges a file's log settings into those of the command line.
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

// Reasons of Events on the ConfigMaps.
const (
	ReasonRefused = "SettingsRefused"
	ReasonInForce = "SettingsInForce"
)

const (
	// maxEventNote is the longest text that an Event may have.
	maxEventNote = 1024
	eventTimeout = 10 * time.Second
)

// announce writes an Event on the ConfigMap. A recorder would merge two errors within minutes into one series, which
// shows only the first text.
func (w *Watcher) announce(ctx context.Context, f *file, kind, reason, note string) {
	if w.deps.Events == nil {
		return
	}
	instance, err := os.Hostname()
	if err != nil || instance == "" {
		instance = "rouse"
	}
	event := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: f.name.Namespace, GenerateName: f.name.Name + "-"},
		EventTime:           metav1.NowMicro(),
		ReportingController: "rouse.run/settings",
		ReportingInstance:   kube.Truncate(instance, 128),
		Action:              "Configure",
		Reason:              reason,
		Type:                kind,
		Note:                kube.Truncate(note, maxEventNote),
		Regarding: corev1.ObjectReference{
			APIVersion: "v1", Kind: "ConfigMap", Namespace: f.name.Namespace, Name: f.name.Name, UID: f.uid,
		},
	}
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	if err := w.deps.Events.Create(ctx, event); err != nil {
		w.deps.Log.Info("cannot write an Event on the ConfigMap of settings", "reason", err.Error())
	}
}

// metrics have the file as their only label.
type metrics struct {
	good    *prometheus.GaugeVec
	changes *prometheus.CounterVec
	since   *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer, log *daemon.Log) *metrics {
	factory, labels := promauto.With(registerer), []string{"file"}
	if log != nil {
		factory.NewCounterFunc(prometheus.CounterOpts{
			Name: "rouse_log_lines_dropped_total",
			Help: "Lines about Functions and Subscriptions with the annotation rouse.run/debug-until that were left out to bound the log.",
		}, func() float64 { return float64(log.Dropped()) })
	}
	return &metrics{
		good: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rouse_settings_valid", Help: "1 when the settings of the ConfigMap are in force, 0 when they cannot be used and earlier ones stay.",
		}, labels),
		changes: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_settings_changes_total", Help: "How often changed settings were put in force.",
		}, labels),
		since: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rouse_settings_changed_timestamp_seconds", Help: "When settings were put in force last.",
		}, labels),
	}
}

// known adds a file at the start: it is not valid before it was read.
func (m *metrics) known(key string) {
	m.good.WithLabelValues(key)
	m.changes.WithLabelValues(key)
}

func (m *metrics) valid(key string, is bool) {
	value := 0.0
	if is {
		value = 1
	}
	m.good.WithLabelValues(key).Set(value)
}

func (m *metrics) changed(key string) {
	m.changes.WithLabelValues(key).Inc()
	m.since.WithLabelValues(key).SetToCurrentTime()
}

// file is one of the two files, with the result of its last content.
type file struct {
	name types.NamespacedName
	key  string
	// use applies a text, and returns the resulting changes.
	use func(text string) (changes []string, err error)

	uid     types.UID // of the last ConfigMap
	used    bool      // a valid one has been applied
	problem string    // of the last content, empty when it was valid
}

// outcome is the reportable result of a content. It is empty when there is no change.
type outcome struct {
	problem string
	changes []string
	first   bool // it is the first valid one
}

// take applies a content.
func (f *file) take(content watch.Content) outcome {
	if content.Found {
		f.uid = content.UID
	}
	changes, err := f.read(content)
	if err != nil {
		problem := err.Error() + ". " + f.stays()
		if problem == f.problem {
			return outcome{}
		}
		f.problem = problem
		return outcome{problem: problem}
	}
	said := outcome{changes: changes, first: !f.used}
	if f.problem != "" && len(changes) == 0 {
		said.changes = []string{"The file is good again"}
	}
	f.used, f.problem = true, ""
	return said
}

func (f *file) read(content watch.Content) ([]string, error) {
	if !content.Found {
		return nil, fmt.Errorf("ConfigMap %s does not exist: create it with the key %s", f.name, f.key)
	}
	text, ok := content.Data[f.key]
	if !ok {
		return nil, fmt.Errorf("ConfigMap %s has no key %s%s: add it", f.name, f.key, butHas(content.Data))
	}
	changes, err := f.use(text)
	if err != nil {
		return nil, fmt.Errorf("%w: correct it with kubectl edit configmap --namespace %s %s", err, f.name.Namespace, f.name.Name)
	}
	return changes, nil
}

// stays describes the settings in force.
func (f *file) stays() string {
	if f.used {
		return "The last good settings stay in force"
	}
	return "The settings of the command line are in force"
}

func butHas(data map[string]string) string {
	const most = 5
	if len(data) == 0 {
		return ""
	}
	keys := slices.Sorted(maps.Keys(data))
	return ", but " + strings.Join(keys[:min(len(keys), most)], ", ")
}
