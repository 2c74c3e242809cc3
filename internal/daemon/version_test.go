package daemon

import (
	"bytes"
	"context"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func TestABuildIsWhatWasLinkedElseWhatGoRecorded(t *testing.T) {
	t.Parallel()
	checkout := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{
			{Key: "vcs.revision", Value: "15c0f58"}, {Key: "vcs.time", Value: "2026-11-23T20:04:05Z"}, {Key: "vcs.modified", Value: modified},
		}
	}
	module := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}
	}
	for name, tc := range map[string]struct {
		linked Build
		info   *debug.BuildInfo
		want   Build
	}{
		"a release": {
			Build{Version: "v1.2.3", Commit: "abc", Time: "2026-01-02T03:04:05Z"},
			module("(devel)", checkout("false")...),
			Build{Version: "v1.2.3", Commit: "abc", Time: "2026-01-02T03:04:05Z"},
		},
		"go install":         {Build{}, module("v1.2.3"), Build{Version: "v1.2.3", Commit: unknown, Time: unknown}},
		"a checkout":         {Build{}, module("(devel)", checkout("false")...), Build{Version: "devel", Commit: "15c0f58", Time: "2026-11-23T20:04:05Z"}},
		"a changed checkout": {Build{}, module("", checkout("true")...), Build{Version: "devel", Commit: "15c0f58-dirty", Time: "2026-11-23T20:04:05Z"}},
		"nothing is known":   {Build{}, nil, Build{Version: "devel", Commit: unknown, Time: unknown}},
	} {
		tc.want.Go, tc.want.Platform = runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH
		require.Equal(t, tc.want, buildOf(tc.linked, tc.info), name)
	}
}

func TestEachProcessSaysWhatItWasMadeOf(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--version"}, nil} {
		var stderr bytes.Buffer
		code := runMain(t.Context(), "test", args, &stderr, &fakeOptions{}, func(context.Context, logr.Logger) error { return nil })
		require.Equal(t, 0, code, stderr.String())
		b := ThisBuild()
		for _, want := range []string{b.Version, b.Commit, b.Time, b.Go} {
			require.Contains(t, stderr.String(), want, args)
		}
	}
}

func TestMetricsSayWhatTheProcessWasMadeOf(t *testing.T) {
	t.Parallel()
	registry := NewRegistry()
	require.NoError(t, RegisterBuild(registry), "a second time changes nothing")
	families, err := registry.Gather()
	require.NoError(t, err)
	labels := map[string]string{}
	for _, family := range families {
		if family.GetName() != "rouse_build_info" {
			continue
		}
		require.Len(t, family.GetMetric(), 1)
		require.InDelta(t, 1, family.GetMetric()[0].GetGauge().GetValue(), 0)
		for _, label := range family.GetMetric()[0].GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
	}
	require.Equal(t, map[string]string{"version": Version(), "commit": ThisBuild().Commit, "goversion": runtime.Version()}, labels)

	taken := prometheus.NewRegistry()
	require.NoError(t, taken.Register(prometheus.NewGauge(prometheus.GaugeOpts{Name: "rouse_build_info", Help: "another"})))
	require.Error(t, RegisterBuild(taken), "another metric of that name")
}
