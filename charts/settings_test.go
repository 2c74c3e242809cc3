package charts

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rouse-run/rouse/controller/function"
	"github.com/rouse-run/rouse/controller/gitpoll"
	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/gateway/activator"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/settings"
)

const release = "rouse"

// functionConfig parses the ConfigMap of a render.
func functionConfig(t *testing.T, all objects) *settings.Settings {
	t.Helper()
	read, err := settings.Parse(named[*corev1.ConfigMap](t, all, release+"-config").Data[settings.FunctionKey])
	require.NoError(t, err)
	return &read
}

func logConfig(t *testing.T, all objects) *settings.Log {
	t.Helper()
	read, err := settings.ParseLog(named[*corev1.ConfigMap](t, all, release+"-log-config").Data[settings.LogKey])
	require.NoError(t, err)
	return &read
}

func TestProcessesAcceptTheSettingsOfEveryInstallation(t *testing.T) {
	t.Parallel()
	for name, all := range renderedInstallations(t) {
		require.NotEmpty(t, functionConfig(t, all).PublisherAddress, name)
		require.NotEmpty(t, logConfig(t, all).Level, name)
		for _, deployment := range of[*appsv1.Deployment](all) {
			container := deployment.Spec.Template.Spec.Containers[0]
			if !slices.Contains([]string{"controller", "eventbridge", "gateway", "scaler"}, container.Name) {
				continue
			}
			require.Subset(t, container.Args, []string{"--config-map=" + namespace + "/rouse-config", "--log-config-map=" + namespace + "/rouse-log-config"})
		}
	}
}

func TestTheSettingsOfTheChartAreTheDefaultsOfTheFlags(t *testing.T) {
	t.Parallel()
	all := render(t, nil)
	read, functions, delivery := functionConfig(t, all), function.DefaultOptions(), dispatch.DefaultOptions()
	require.Equal(t, settings.Settings{
		PublisherAddress: functions.PublisherAddress, TraceCollector: new(""), MaxRollouts: functions.MaxRollouts,
		PollingInterval: functions.PollingInterval, CooldownPeriod: &functions.CooldownPeriod,
		InitialCooldownPeriod: &functions.InitialCooldownPeriod, ScaleDownStabilization: &functions.ScaleDownStabilization,
		GitCheckInterval: gitpoll.DefaultOptions().CheckInterval, HTTPWait: activator.DefaultOptions().Wait,
		MaxAttempts: delivery.MaxAttempts, Backoff: delivery.Backoff.Base, MaxBackoff: delivery.Backoff.Max,
	}, *read)
	require.Equal(t, settings.Log{Level: "info", Format: settings.FormatJSON, DebugLinesPerSecond: new(daemon.DefaultDebugLines)}, *logConfig(t, all))
}

func TestValuesAreWrittenToTheSettingsFiles(t *testing.T) {
	t.Parallel()
	all := renderedInstallations(t)["settings of all kinds"]
	read, log := functionConfig(t, all), logConfig(t, all)
	require.Equal(t, "http://elsewhere/publish", read.PublisherAddress)
	require.Equal(t, "http://collector:9411", *read.TraceCollector)
	require.Equal(t, "S", read.DefaultProfile)
	require.Equal(t, resource.MustParse("1500m"), read.Profiles["S"].Limits[corev1.ResourceCPU])
	require.Equal(t, 3, read.MaxRollouts)
	require.Equal(t, 5*time.Minute, read.ReadyRequeue)
	require.Zero(t, *read.CooldownPeriod)
	require.Equal(t, time.Minute, read.GitCheckInterval)
	require.Equal(t, 30*time.Second, read.HTTPWait)
	require.Equal(t, 3, read.MaxAttempts)
	require.Equal(t, settings.Log{
		Level: "debug", Format: settings.FormatConsole, Components: map[string]string{"eventbridge/delivery": "debug", "scaler": "warn"},
		DebugLinesPerSecond: new(0),
	}, *log)
}

func TestChangedSettingsReplaceNoPods(t *testing.T) {
	t.Parallel()
	before, after := render(t, nil), renderedInstallations(t)["settings of all kinds"]
	for _, name := range []string{"controller", "eventbridge", "gateway", "scaler"} {
		require.Equal(t, named[*appsv1.Deployment](t, before, release+"-"+name).Spec.Template,
			named[*appsv1.Deployment](t, after, release+"-"+name).Spec.Template, name)
	}
}

func TestProcessesMayReadTheirSettingsAndNoOtherConfigMap(t *testing.T) {
	t.Parallel()
	all := render(t, nil)
	role := named[*rbacv1.Role](t, all, release+"-settings")
	require.Equal(t, []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"rouse-config", "rouse-log-config"},
		Verbs: []string{"get", "list", "watch"},
	}}, role.Rules)
	for _, name := range []string{"eventbridge", "gateway", "scaler"} {
		for _, rule := range named[*rbacv1.ClusterRole](t, all, release+"-"+name).Rules {
			require.NotContains(t, rule.Resources, "configmaps", name)
		}
	}
	for _, rendered := range renderedInstallations(t) {
		for _, subject := range named[*rbacv1.RoleBinding](t, rendered, release+"-settings").Subjects {
			named[*corev1.ServiceAccount](t, rendered, subject.Name)
		}
	}
}
