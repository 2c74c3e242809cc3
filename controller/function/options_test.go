package function

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/settings"
)

func TestWarnings(t *testing.T) {
	t.Parallel()
	s := newScope(func(s *scope) { s.fn.Spec.Runtime = v1alpha2.RuntimeNodeJS20 })
	setStatus(s)
	require.Equal(t, "Warning: function configured, runtime nodejs20 is deprecated and will be removed in the future",
		s.fn.Status.Conditions[0].Message)
}

func TestOptions(t *testing.T) {
	t.Parallel()
	options := testOptions()
	require.NoError(t, flags.Validate(&options))

	options = Options{RuntimeImages: map[string]string{"nodejs22": " "}, DefaultProfile: "XXL", Build: BuildOptions{PerNamespace: 1}}
	err := flags.Validate(&options)
	for _, want := range []string{
		"--runtime-image", "--publisher-address", "--default-profile", "--scaler-address", "--scaling-polling-interval",
		"--function-concurrent-reconciles", "--builder-image", "--default-build-profile", "--max-simultaneous-builds", "--build-deadline",
		"--build-volume-size", "--builds-per-namespace",
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestABuildSlotLastsForSchedulingAndBuild(t *testing.T) {
	t.Parallel()
	options := DefaultOptions().Build
	require.Equal(t, options.Deadline+10*time.Minute, options.Limits().Longest)
}

func TestASettingsFileOverridesFlags(t *testing.T) {
	t.Parallel()
	options := testOptions()
	options.TraceCollectorEndpoint = "http://flag:4318"
	live := NewLive(options, true)
	before := live.load()
	require.False(t, before.settled)
	require.Equal(t, *options.settings(), *before.Settings)

	live.Apply(&settings.Settings{})
	require.True(t, live.load().settled)
	require.Equal(t, *options.settings(), *live.load().Settings)

	profiles := map[string]corev1.ResourceRequirements{"L": {Requests: corev1.ResourceList{}}}
	live.Apply(&settings.Settings{
		PublisherAddress: "http://b/publish", TraceCollector: new(""), DefaultProfile: "S", Profiles: profiles, MaxRollouts: 3,
		PollingInterval: 5 * time.Second, CooldownPeriod: new(time.Duration(0)), InitialCooldownPeriod: new(time.Minute),
		ScaleDownStabilization: new(2 * time.Minute), ReadyRequeue: time.Hour,
	})
	now := live.load()
	require.Equal(t, "http://b/publish", now.PublisherAddress)
	require.Empty(t, now.TraceCollectorEndpoint)
	require.Equal(t, "S", now.DefaultProfile)
	require.Equal(t, profiles, now.Profiles)
	require.Equal(t, 3, now.rollouts)
	require.EqualValues(t, 5, now.Scaling.Defaults.PollingSeconds)
	require.Zero(t, now.Scaling.Defaults.CooldownSeconds)
	require.EqualValues(t, 60, now.Scaling.InitialCooldownSeconds)
	require.EqualValues(t, 120, now.Scaling.ScaleDownSeconds)
	require.Greater(t, now.requeueAfter(), 47*time.Minute)
	require.LessOrEqual(t, now.requeueAfter(), time.Hour)
	require.Equal(t, options.Build.settings(), now.Build)

	live.Apply(&settings.Settings{})
	require.Equal(t, *options.settings(), *live.load().Settings, "a value that the file no longer sets is the command line's again")
	require.Equal(t, options.MaxRollouts, live.load().rollouts)
	require.Zero(t, live.load().requeueAfter())
	require.Len(t, live.changed, 1)
}

func TestFormerAddressesAreBounded(t *testing.T) {
	t.Parallel()
	options := testOptions()
	options.PublisherAddress, options.TraceCollectorEndpoint = "http://p/publish", "http://a"
	live := NewLive(options, false)
	require.Empty(t, live.load().former)
	for _, collector := range []string{"http://b", "", "http://a", "http://c"} {
		live.Apply(&settings.Settings{TraceCollector: new(collector)})
	}
	require.Equal(t, []string{"http://a", "http://b"}, live.load().former)
	live.Apply(&settings.Settings{PublisherAddress: "http://q/publish", TraceCollector: new("http://d")})
	require.Equal(t, []string{"http://p/publish", "http://c", "http://a", "http://b"}, live.load().former)
	live.Apply(&settings.Settings{PublisherAddress: "http://q/publish", TraceCollector: new("http://a")})
	require.Equal(t, []string{"http://d", "http://p/publish", "http://c", "http://b"}, live.load().former)
	live.Apply(&settings.Settings{PublisherAddress: "http://r/publish", TraceCollector: new("http://a")})
	require.Equal(t, []string{"http://q/publish", "http://d", "http://p/publish", "http://c"}, live.load().former)
}

func TestASettingsFileOverridesTheChosenProfile(t *testing.T) {
	t.Parallel()
	options := testOptions()
	options.DefaultProfile = ""
	live := NewLive(options, true)
	live.Apply(&settings.Settings{DefaultProfile: "S"})
	options.DefaultProfile = "XS" // chosen by the number of nodes after the file was read
	live.complete(options)
	require.Equal(t, "S", live.load().DefaultProfile)
	live.Apply(&settings.Settings{})
	require.Equal(t, "XS", live.load().DefaultProfile)
}

func TestControllerWithOnlyHangingWorkersIsUnhealthy(t *testing.T) {
	t.Parallel()
	options := testOptions()
	options.MaxConcurrentReconciles = 2
	live := NewLive(options, false)
	now := noon()
	live.workers.now = func() time.Time { return now }
	later := func(d time.Duration) error {
		now = now.Add(d)
		return live.Healthy(nil)
	}
	live.workers.begin()
	end := live.workers.begin()
	require.NoError(t, later(time.Hour), "no timeout is set")
	live.Apply(&settings.Settings{LivenessTimeout: 10 * time.Second})
	require.EqualError(t, later(0), "all workers of the Function controller have hung for 1h0m0s")
	end()
	require.NoError(t, later(time.Hour), "one is free")
	live.workers.begin()
	require.NoError(t, later(shortestHang), "less than a minute counts as one")
	require.Error(t, later(time.Second))
	live.Apply(&settings.Settings{LivenessTimeout: time.Hour})
	require.NoError(t, later(time.Minute))
}
