package function

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/rouse-run/rouse/internal/settings"
)

func TestAFileChangesWhatTheCommandLineSaysAndNoMore(t *testing.T) {
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
	require.Equal(t, *options.settings(), *live.load().Settings, "what a file no longer says is the command line's again")
	require.Equal(t, options.MaxRollouts, live.load().rollouts)
	require.Zero(t, live.load().requeueAfter())
	require.Len(t, live.changed, 1)
}

func TestFormerAddressesAreTheLastFew(t *testing.T) {
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

func TestTheDefaultProfileOfTheControllerGivesWayToThatOfAFile(t *testing.T) {
	t.Parallel()
	options := testOptions()
	options.DefaultProfile = ""
	live := NewLive(options, true)
	live.Apply(&settings.Settings{DefaultProfile: "S"})
	options.DefaultProfile = "XS" // chosen by the nodes, when the file was read already
	live.complete(options)
	require.Equal(t, "S", live.load().DefaultProfile)
	live.Apply(&settings.Settings{})
	require.Equal(t, "XS", live.load().DefaultProfile)
}
