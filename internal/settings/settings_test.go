package settings

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// kyma is the file of Kyma's chart.
const kyma = `
metricsPort: ":8080"
healthzPort: ":8090"
leaderElectionEnabled: true
leaderElectionID: serverless-controller-leader-election-helper
secretMutatingWebhookPort: 8443
internalEndpointPort: ":12137"
images:
  repoFetcher: europe-docker.pkg.dev/kyma/fetcher:1
  nodejs20: europe-docker.pkg.dev/kyma/nodejs20:1
packageRegistryConfigSecretName: serverless-package-registry-config
functionTraceCollectorEndpoint: http://telemetry-otlp-traces.kyma-system.svc.cluster.local:4318/v1/traces
functionPublisherProxyAddress: http://eventing-publisher-proxy.kyma-system.svc.cluster.local/publish
functionReadyRequeueDuration: 5m
healthzLivenessTimeout: 10s
resourcesConfiguration:
  function:
    resources:
      minRequestCpu: 10m
      minRequestMemory: 16Mi
      defaultPreset: L
      presets:
        XS: {requestCpu: 50m, requestMemory: 64Mi, limitCpu: 150m, limitMemory: 192Mi}
        L: {requestCpu: 400m, requestMemory: 512Mi, limitCpu: 800m, limitMemory: 1Gi}
`

func TestParseReadsKymasFileFieldForField(t *testing.T) {
	t.Parallel()
	read, err := Parse(kyma)
	require.NoError(t, err)
	require.Equal(t, "http://eventing-publisher-proxy.kyma-system.svc.cluster.local/publish", read.PublisherAddress)
	require.Equal(t, "http://telemetry-otlp-traces.kyma-system.svc.cluster.local:4318/v1/traces", *read.TraceCollector)
	require.Equal(t, 5*time.Minute, read.ReadyRequeue)
	require.Equal(t, 10*time.Second, read.LivenessTimeout)
	require.Equal(t, "L", read.DefaultProfile)
	require.Len(t, read.Profiles, 2)
	require.Equal(t, resource.MustParse("192Mi"), read.Profiles["XS"].Limits[corev1.ResourceMemory])
	require.Equal(t, resource.MustParse("400m"), read.Profiles["L"].Requests[corev1.ResourceCPU])
	require.Equal(t, []string{
		"healthzPort", "images", "internalEndpointPort", "leaderElectionEnabled", "leaderElectionID", "metricsPort",
		"packageRegistryConfigSecretName", "resourcesConfiguration.function.resources.minRequestCpu",
		"resourcesConfiguration.function.resources.minRequestMemory", "secretMutatingWebhookPort",
	}, read.Unused)
}

func TestParseReadsRousesOwnFields(t *testing.T) {
	t.Parallel()
	read, err := Parse(`
scaling: {pollingInterval: 5s, cooldownPeriod: 0s, initialCooldownPeriod: 2m, scaleDownStabilization: 1h}
gitCheckInterval: 24h
httpWait: 30s
delivery: {maxAttempts: 4, backoff: 1s, maxBackoff: 1m}
rollout: {maxFunctions: 20}
functionTraceCollectorEndpoint: ""
`)
	require.NoError(t, err)
	require.Equal(t, Settings{
		PollingInterval: 5 * time.Second, CooldownPeriod: new(time.Duration(0)), InitialCooldownPeriod: new(2 * time.Minute),
		ScaleDownStabilization: new(time.Hour), GitCheckInterval: 24 * time.Hour, HTTPWait: 30 * time.Second, MaxRollouts: 20,
		MaxAttempts: 4, Backoff: time.Second, MaxBackoff: time.Minute,
		TraceCollector: new(""),
	}, read)
}

func TestParseLeavesMissingFieldsToTheFlags(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"an empty file": "", "a comment": "# later\n", "empty texts": "functionPublisherProxyAddress: \"\"\nfunctionReadyRequeueDuration: \"\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read, err := Parse(text)
			require.NoError(t, err)
			require.Equal(t, Settings{}, read)
		})
	}
}

func TestParseNamesTheFieldAndTheRemedy(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"a typo": {
			"functionPublisherProxyAdress: http://a/publish",
			`function-config.yaml: unknown field "functionPublisherProxyAdress": did you mean functionPublisherProxyAddress?`,
		},
		"a typo inside": {
			"resourcesConfiguration: {function: {resources: {defaultPrest: L}}}", `did you mean defaultPreset?`,
		},
		"an unknown field":             {"colour: red", `unknown field "colour": remove it`},
		"malformed YAML":               {"a: b: c", "function-config.yaml: yaml: mapping values are not allowed"},
		"a field twice":                {"gitCheckInterval: 5s\ngitCheckInterval: 6s", "already set in map"},
		"a number for a text":          {"functionReadyRequeueDuration: 5", `functionReadyRequeueDuration: "5" must be a duration`},
		"a list":                       {"[1, 2]", "cannot unmarshal array"},
		"not a duration":               {"functionReadyRequeueDuration: soon", `functionReadyRequeueDuration: "soon" must be a duration from 10s to 24h0m0s, such as 5m`},
		"a duration below the minimum": {"gitCheckInterval: 1s", `gitCheckInterval: "1s" must be a duration from 5s to 24h0m0s`},
		"a negative duration":          {"scaling: {cooldownPeriod: -1s}", `scaling.cooldownPeriod: "-1s" must be a duration from 0s`},
		"a profile of no Function":     {"resourcesConfiguration: {function: {resources: {defaultPreset: XXL}}}", `defaultPreset: "XXL" must be one of XS, S, M, L, XL`},
		"a preset of no Function": {
			"resourcesConfiguration: {function: {resources: {presets: {huge: {}}}}}", "presets.huge: a Function can name only XS, S, M, L, XL: remove it",
		},
		"half a preset": {
			"resourcesConfiguration: {function: {resources: {presets: {L: {requestCpu: 1, requestMemory: 1Gi, limitCpu: 1}}}}}", "presets.L.limitMemory: \"\" must be a quantity",
		},
		"a preset without a limit": {
			`resourcesConfiguration: {function: {resources: {presets: {L: {requestCpu: "1", requestMemory: 1Gi, limitCpu: "1"}}}}}`,
			`presets.L.limitMemory: "" must be a quantity of at least 16Mi, and each preset has requestCpu, requestMemory, limitCpu and limitMemory`,
		},
		"a preset of nothing": {
			`resourcesConfiguration: {function: {resources: {presets: {L: {requestCpu: "0", requestMemory: 1Gi, limitCpu: "1", limitMemory: 1Gi}}}}}`,
			`presets.L.requestCpu: "0" must be a quantity of at least 10m`,
		},
		"a request above its limit": {
			`resourcesConfiguration: {function: {resources: {presets: {L: {requestCpu: "2", requestMemory: 1Gi, limitCpu: "1", limitMemory: 1Gi}}}}}`,
			"presets.L: the request of cpu, 2, must not be more than its limit, 1",
		},
		"not a URL":          {"functionPublisherProxyAddress: bridge/publish", `functionPublisherProxyAddress: "bridge/publish" must be a URL such as http://`},
		"another scheme":     {"functionTraceCollectorEndpoint: grpc://a:4317", "functionTraceCollectorEndpoint: "},
		"a URL of two lines": {`functionPublisherProxyAddress: "http://a/\nb"`, "must be a URL"},
		"too many at a time": {"rollout: {maxFunctions: 5000}", "rollout.maxFunctions: 5000 must be from 1 to 1000"},
		"no attempt":         {"delivery: {maxAttempts: -1}", "delivery.maxAttempts: -1 must be from 1 to 10000"},
		"a wait too long":    {"delivery: {backoff: 2m, maxBackoff: 1m}", "delivery.backoff: 2m0s must not be more than delivery.maxBackoff, 1m0s"},
		"two mistakes":       {"gitCheckInterval: x\nhttpWait: z", "gitCheckInterval: \"x\" must be a duration from 5s to 24h0m0s, such as 5m; httpWait: \"z\" must"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse(tc.text)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestParseShowsNoPasswordOfAnAddress(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"http://me:s3cret@a/publish", "me:s3cret@a"} {
		_, err := Parse("functionPublisherProxyAddress: " + address)
		require.ErrorContains(t, err, "functionPublisherProxyAddress")
		require.NotContains(t, err.Error(), "s3cret")
	}
}

func TestParseRejectsHostileFilesQuickly(t *testing.T) {
	t.Parallel()
	var bomb strings.Builder
	bomb.WriteString("a: &a [x,x,x,x,x,x,x,x,x]\n")
	for i := 'b'; i <= 'j'; i++ {
		fmt.Fprintf(&bomb, "%c: &%c [%s*%c]\n", i, i, strings.Repeat("*"+string(i-1)+",", 8), i-1)
	}
	for name, text := range map[string]string{
		"1 MB":                         "# " + strings.Repeat("x", 1<<20),
		"aliases of aliases":           bomb.String(),
		"deep":                         strings.Repeat("[", 100_000),
		"a long name":                  strings.Repeat("x", 10_000) + ": 1",
		"many presets with long names": "resourcesConfiguration: {function: {resources: {presets: {" + manyPresets() + "}}}}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			_, err := Parse(text)
			require.Error(t, err)
			require.Less(t, len(err.Error()), 4096, "an Event and a log line show it")
			require.Less(t, time.Since(began), time.Minute)
		})
	}
	_, err := Parse("# " + strings.Repeat("x", 1<<20))
	require.ErrorContains(t, err, "function-config.yaml: it is longer than 256 KiB: keep only settings in it")
}

func manyPresets() string {
	var all strings.Builder
	for i := range 1000 {
		all.WriteString(strings.Repeat("x", i%150) + strings.Repeat("y", i/150+1) + ": {},")
	}
	return all.String()
}

func TestParseLogReadsKymasFileAndTheLevelsOfComponents(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want Log
	}{
		"nothing":         {"", Log{}},
		"Kyma's":          {"logLevel: info\nlogFormat: json", Log{Level: "info", Format: FormatJSON}},
		"Kyma's others":   {"logLevel: fatal\nlogFormat: text", Log{Level: "error", Format: FormatConsole}},
		"only components": {"components: {eventbridge/delivery: debug, scaler: warn}", Log{Components: map[string]string{"eventbridge/delivery": "debug", "scaler": "warn"}}},
		"no annotations":  {"debugLinesPerSecond: 0", Log{DebugLinesPerSecond: new(0)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read, err := ParseLog(tc.text)
			require.NoError(t, err)
			require.Equal(t, tc.want, read)
		})
	}
}

func TestParseLogNamesTheFieldAndTheRemedy(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"an unknown level":            {"logLevel: verbose", `log-config.yaml: logLevel: "verbose" must be one of debug, info, warn, error or fatal`},
		"an unknown format":           {"logFormat: xml", `logFormat: "xml" must be json or console`},
		"a typo":                      {"loglevels: info", `unknown field "loglevels": did you mean logLevel?`},
		"an unknown process":          {"components: {bridge: debug}", "components.bridge: must begin with one of controller, eventbridge, gateway, operator, scaler"},
		"a component without a level": {"components: {scaler: \"\"}", "components.scaler: needs a level: debug, info, warn, error"},
		"too many lines":              {"debugLinesPerSecond: 100000", "debugLinesPerSecond: 100000 must be from 0 to 1000"},
		"a line of its own":           {`components: {"scaler/a\nb": debug}`, "must begin with one of"},
		"too many components":         {"components: {" + strings.Join(many(101), ",") + "}", "components: 101 are more than 100"},
		"1 MB":                        {strings.Repeat("x", 1<<20), "log-config.yaml: it is longer than 256 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseLog(tc.text)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func many(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = "scaler/" + strings.Repeat("x", i%60+1) + strings.Repeat("y", i/60) + ": debug"
	}
	return all
}

func TestChangesListsTheDifferences(t *testing.T) {
	t.Parallel()
	parse := func(text string) *Settings {
		read, err := Parse(text)
		require.NoError(t, err)
		return &read
	}
	before := parse("functionPublisherProxyAddress: http://a/publish\nscaling: {cooldownPeriod: 1m}")
	now := parse(`
functionPublisherProxyAddress: http://b/publish
functionTraceCollectorEndpoint: ""
scaling: {cooldownPeriod: 60s}
rollout: {maxFunctions: 3}
resourcesConfiguration: {function: {resources: {presets: {S: {requestCpu: 10m, requestMemory: 64Mi, limitCpu: "1", limitMemory: 128Mi}}}}}
`)
	require.Empty(t, Changes(before, before))
	require.Equal(t, []string{
		"Publisher address set from 'http://a/publish' to 'http://b/publish'",
		`Trace collector set from '' to '""'`,
		"Functions that follow at a time set from '' to '3'",
		"Profile S set from '' to 'cpu 10m to 1, memory 64Mi to 128Mi'",
	}, Changes(before, now))

	log := &Log{Level: "debug", Components: map[string]string{"scaler": "warn", "eventbridge": "error"}}
	require.Equal(t, []string{
		"Log level set from '' to 'debug'", "Log levels of components set from '' to 'eventbridge=error scaler=warn'",
	}, LogChanges(&Log{}, log))
}
