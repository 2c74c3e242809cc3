package daemon

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/fips"
)

type fakeOptions struct {
	address string
	invalid error
}

func (o *fakeOptions) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.address, "address", "", "an address")
}
func (o *fakeOptions) Validate() error { return o.invalid }

func TestMainTurnsEveryEndIntoAnExitCode(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args     []string
		invalid  error
		result   error
		wantCode int
		wantText string
	}{
		"a clean end":                     {wantCode: 0, wantText: `"msg":"stopped"`},
		"an end by signal":                {result: context.Canceled, wantCode: 0, wantText: `"msg":"stopped"`},
		"a failure is logged":             {result: errors.New("no stream"), wantCode: 1, wantText: `"err":"no stream"`},
		"an unknown flag":                 {args: []string{"--port=x"}, wantCode: 2, wantText: "unknown flag: --port"},
		"an argument that is no flag":     {args: []string{"serve"}, wantCode: 2, wantText: `unknown argument "serve"`},
		"options that do not fit":         {invalid: errors.New("--address: must not be empty"), wantCode: 2, wantText: "--address: must not be empty"},
		"a log level that does not exist": {args: []string{"--log-level=loud"}, wantCode: 2, wantText: `--log-level "loud": use debug, info, warn or error`},
		"a log format that does not exist": {
			args: []string{"--log-format=xml"}, wantCode: 2, wantText: `--log-format "xml": use json or text`,
		},
		"profiles that others could read": {
			args: []string{"--pprof-address=:6060"}, wantCode: 2, wantText: `--pprof-address ":6060": use an IP address of the loopback interface`,
		},
		"a FIPS mode that there is not": {args: []string{"--fips-mode=yes"}, wantCode: 2, wantText: `--fips-mode "yes": use off, on or only`},
		"help":                          {args: []string{"--help"}, wantCode: 0, wantText: "--address"},
		"version":                       {args: []string{"--version"}, wantCode: 0, wantText: "test "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			code := runMain(t.Context(), "test", tc.args, &stderr, &fakeOptions{invalid: tc.invalid},
				func(context.Context, logr.Logger) error { return tc.result })
			require.Equal(t, tc.wantCode, code, stderr.String())
			require.Contains(t, stderr.String(), tc.wantText)
		})
	}
}

func TestAProcessDoesNotStartWithoutTheFIPSModeThatItIsAskedFor(t *testing.T) {
	t.Parallel()
	for _, mode := range []fips.Mode{fips.Off, fips.On, fips.Only} {
		var stderr bytes.Buffer
		ran := false
		code := runMain(t.Context(), "test", []string{"--fips-mode=" + string(mode)}, &stderr, &fakeOptions{}, func(context.Context, logr.Logger) error {
			ran = true
			return nil
		})
		// The tests run in any of the modes.
		if err := mode.Check(fips.Running()); err != nil {
			require.Equal(t, 2, code)
			require.False(t, ran)
			require.Contains(t, stderr.String(), "--fips-mode "+err.Error())
		} else {
			require.Zero(t, code, stderr.String())
			require.True(t, ran)
			require.Contains(t, stderr.String(), `"fips":"`+string(fips.Running().Mode())+`"`)
		}
	}
}

func TestDebugShowsV1AndInfoHidesIt(t *testing.T) {
	t.Parallel()
	for level, want := range map[string]string{"debug": `"level":"DEBUG"`, "info": ""} {
		var out bytes.Buffer
		options := LogOptions{Level: level, Format: "json"}
		options.NewLogger(&out).V(1).Info("detail")
		if want == "" {
			require.Empty(t, out.String())
		} else {
			require.Contains(t, out.String(), want)
		}
	}
}
