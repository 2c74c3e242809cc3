package function

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/fips"
)

func TestFunctionsAreRefusedInFIPSModeAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, false, newFunction())
	for mode, refused := range map[fips.Mode]bool{fips.Off: false, fips.On: true, fips.Only: true} {
		options := testOptions()
		options.Build.FIPS = mode
		fn := newFunction()
		fn.Spec.Runtime = "python312"
		err := b.decide(t.Context(), &scope{fn: fn, settings: NewLive(options, false).load().Settings})
		if !refused {
			require.NoError(t, err)
			continue
		}
		var failed *failure
		require.ErrorAs(t, err, &failed)
		require.Equal(t, v1alpha2.ConditionConfigurationReady, failed.condition)
		require.Equal(t, v1alpha2.ReasonInvalidSpec, failed.reason)
		require.Contains(t, failed.message, "spec.runtime: python312 is refused in FIPS mode")
	}
}
