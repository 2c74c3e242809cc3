package settings

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
		"a level that is none":        {"logLevel: verbose", `log-config.yaml: logLevel: "verbose" must be one of debug, info, warn, error or fatal`},
		"a format that is none":       {"logFormat: xml", `logFormat: "xml" must be json or console`},
		"a typo":                      {"loglevels: info", `unknown field "loglevels": did you mean logLevel?`},
		"a process that is none":      {"components: {bridge: debug}", "components.bridge: must begin with one of controller, eventbridge, gateway, operator, scaler"},
		"a component without a level": {"components: {scaler: \"\"}", "components.scaler: needs a level: debug, info, warn, error"},
		"too many lines":              {"debugLinesPerSecond: 100000", "debugLinesPerSecond: 100000 must be from 0 to 1000"},
		"a line of its own":           {`components: {"scaler/a\nb": debug}`, "must begin with one of"},
		"too many components":         {"components: {" + strings.Join(many(101), ",") + "}", "components: 101 are more than 100"},
		"1 MB":                        {strings.Repeat("x", 1<<20), "log-config.yaml: it has more than the 256 KiB"},
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
