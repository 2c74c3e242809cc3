package function

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/workload"
)

func TestPodsOfKymasContractAreNotAskedForTheirHTTPLoad(t *testing.T) {
	t.Parallel()
	kymas := func(s *scope) { s.code.Kyma = true }
	waitsForItsImage := func(s *scope) { s.code.Image = "" }
	present := func(counted bool) func(*scope) {
		return func(s *scope) {
			scaled(0, 1)(s.fn)
			object := resources.ScaledObject(s.fn, resources.Scaling{HTTPWake: true}, workload.Tuning{HTTPWake: true}, counted)
			s.scaledObject, _ = liveScaledObject(object)
		}
	}
	for name, tc := range map[string]struct {
		scope *scope
		want  bool
	}{
		"an image of ours":                             {scope: newScope(), want: true},
		"an image of Kyma's contract":                  {scope: newScope(kymas)},
		"an image of ours in the place of one":         {scope: newScope(present(false)), want: true},
		"as long as the image of ours is not built":    {scope: newScope(present(false), waitsForItsImage)},
		"an image of ours that waits for the next one": {scope: newScope(present(true), waitsForItsImage, kymas), want: true},
		"a new Function whose image is not built":      {scope: newScope(waitsForItsImage), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.scope.httpCounted())
		})
	}
}
