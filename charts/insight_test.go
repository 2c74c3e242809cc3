package charts

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/rouse-run/rouse/controller/activator"
	"github.com/rouse-run/rouse/controller/buildqueue"
	"github.com/rouse-run/rouse/controller/function"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/controller/gitpoll"
	"github.com/rouse-run/rouse/controller/images"
	"github.com/rouse-run/rouse/controller/standin"
	"github.com/rouse-run/rouse/controller/subscription"
	"github.com/rouse-run/rouse/controller/wake"
	"github.com/rouse-run/rouse/eventbridge"
	"github.com/rouse-run/rouse/eventbridge/jetstream"
	"github.com/rouse-run/rouse/gateway"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/kube/settingswatch"
	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/scaler"
	"github.com/rouse-run/rouse/scaler/httpload"
)

func TestDashboardsAndAlertsUseExistingMetrics(t *testing.T) {
	known := registeredMetrics(t)
	all := render(t, installations["highly available and watched"])
	texts := map[string]string{}
	for name, text := range named[*corev1.ConfigMap](t, all, "rouse-dashboards").Data {
		require.True(t, json.Valid([]byte(text)), name)
		texts[name] = text
	}
	for _, object := range of[*unstructured.Unstructured](all) {
		if object.GetKind() == "PrometheusRule" {
			text, err := json.Marshal(object.Object["spec"])
			require.NoError(t, err)
			texts["alerts"] = string(text)
		}
	}
	require.Len(t, texts, 4)
	metric := regexp.MustCompile(`\b(rouse|eventing|serverless)_[a-z_]+[a-z]\b`)
	suffix := regexp.MustCompile(`_(bucket|sum|count)$`)
	for where, text := range texts {
		asked := map[string]bool{}
		for _, name := range metric.FindAllString(text, -1) {
			if !known[name] {
				name = suffix.ReplaceAllString(name, "")
			}
			asked[name] = true
			require.True(t, known[name], "%s uses %s, which is not among %v", where, name, slices.Sorted(maps.Keys(known)))
		}
		require.NotEmpty(t, asked, where)
	}
}

// registeredMetrics returns the names of the processes' metrics.
func registeredMetrics(t *testing.T) map[string]bool {
	t.Helper()
	options := broker.DefaultOptions()
	options.URL = "nats://" + loopback.Address(t)
	conn, err := broker.Connect(t.Context(), options, logr.Discard())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) }) // there is no server to disconnect from

	registry := prometheus.NewRegistry()
	store := jetstream.NewStore(conn, broker.NewPublisher(conn, broker.DefaultPublisherOptions()), broker.DefaultStream)
	eventbridge.New(eventbridge.Deps{
		Endpoints: loopback.NewEndpoints(), Registry: registry, Log: logr.Discard(), Store: store, Storage: store, Quota: store,
	}, eventbridge.DefaultOptions())
	scaler.New(scaler.Deps{
		Endpoints: loopback.NewEndpoints(), Backlogs: conn, Listener: conn, Connection: conn, Registry: registry, Log: logr.Discard(),
		HTTP: &scaler.HTTP{Gateways: httpload.NewGateways(loopback.NewEndpoints(), httpload.GatewaysOptions{}, logr.Discard())},
	}, scaler.DefaultOptions())
	gateway.New(gateway.Deps{
		Endpoints: loopback.NewEndpoints(), Exposures: func(context.Context, func([]apirule.Exposure)) error { return nil },
		Registry: registry, Log: logr.Discard(),
	}, gateway.DefaultOptions())
	registerControllers(t, conn, registry)
	_, err = settingswatch.New(settingswatch.Options{}, settingswatch.Deps{Registry: registry, Log: logr.Discard()})
	require.NoError(t, err)

	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		registry.Describe(descriptions)
	}()
	name := regexp.MustCompile(`fqName: "([^"]+)"`)
	known := map[string]bool{}
	for description := range descriptions {
		known[name.FindStringSubmatch(description.String())[1]] = true
	}
	return known
}

// registerControllers registers the metrics of controllers, which do not start.
func registerControllers(t *testing.T, conn *broker.Conn, registry *prometheus.Registry) {
	t.Helper()
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	manager, err := ctrl.NewManager(cluster.Environment(t).Config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard(),
	})
	require.NoError(t, err)
	require.NoError(t, subscription.Setup(t.Context(), manager, conn, registry, subscription.DefaultOptions()))

	options := function.DefaultOptions()
	registries := images.NewResolver(manager.GetClient(), manager.GetAPIReader(), images.RegistryOptions{ReleaseNamespace: namespace}, nil)
	builds := buildqueue.NewQueue(options.Build.Limits(), buildqueue.JobReader{Reader: manager.GetClient()}, clock.RealClock{})
	require.NoError(t, function.Setup(t.Context(), manager, function.Parts{
		Registerer: registry, Registries: registries, Builds: builds, Repositories: gitpoll.NewTracker(nil, registry, gitpoll.DefaultOptions()),
	}, options))
	images.New(images.Deps{Registry: registries, Builds: builds, Registerer: registry}, images.DefaultOptions())
	require.NoError(t, wake.Setup(manager, conn, registry))
	standInSettings := func() *resources.Settings { return &resources.Settings{} }
	require.NoError(t, standin.Setup(manager, standin.Parts{Registerer: registry, Announcements: conn, Settings: standInSettings}, standin.Options{PerNamespace: 1}))
	require.NoError(t, activator.Setup(t.Context(), manager, activator.Parts{Registerer: registry, Announcements: conn}, activator.Options{
		GatewayService: types.NamespacedName{Namespace: namespace, Name: "rouse-gateway"},
	}))
}

func TestDashboardsAreFoundByGrafana(t *testing.T) {
	t.Parallel()
	all := render(t, values{"metrics.dashboards.enabled=true"})
	board := named[*corev1.ConfigMap](t, all, "rouse-dashboards")
	require.Equal(t, "1", board.Labels["grafana_dashboard"])
	titles := map[string]bool{}
	for file, text := range board.Data {
		var dashboard struct {
			UID, Title string
			Panels     []struct {
				ID      int
				Title   string
				GridPos struct{ X, Y, W, H int }
			}
		}
		require.NoError(t, json.Unmarshal([]byte(text), &dashboard), file)
		require.Equal(t, file, dashboard.UID+".json")
		titles[dashboard.Title] = true
		ids, rows := map[int]bool{}, map[[2]int]string{}
		for _, panel := range dashboard.Panels {
			require.False(t, ids[panel.ID], panel.Title)
			ids[panel.ID] = true
			require.LessOrEqual(t, panel.GridPos.X+panel.GridPos.W, 24, panel.Title)
			place := [2]int{panel.GridPos.X, panel.GridPos.Y}
			require.Empty(t, rows[place], "%s lies on another panel", panel.Title)
			rows[place] = panel.Title
		}
	}
	require.Equal(t, map[string]bool{"Rouse eventing": true, "Rouse Functions and scaling": true, "Rouse gateways": true}, titles)
	require.Empty(t, of[*unstructured.Unstructured](render(t, nil)), "by default no object may need the Prometheus operator")
}
