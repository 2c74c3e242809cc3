package resources

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

func TestAServiceSaysUntilWhenItsFunctionIsDebugged(t *testing.T) {
	t.Parallel()
	const until = "2026-05-01T12:00:00Z"
	for name, tc := range map[string]struct {
		annotations, want map[string]string
	}{
		"of none":                 {nil, nil},
		"no other annotation":     {map[string]string{"note": "long"}, nil},
		"the time":                {map[string]string{"note": "long", v1alpha2.AnnotationDebugUntil: until}, map[string]string{v1alpha2.AnnotationDebugUntil: until}},
		"nothing of any size":     {map[string]string{v1alpha2.AnnotationDebugUntil: strings.Repeat("9", 100_000)}, nil},
		"nothing, where it is so": {map[string]string{v1alpha2.AnnotationDebugUntil: ""}, nil},
	} {
		service := Service(function(func(fn *v1alpha2.Function) { fn.Annotations = tc.annotations }))
		require.Equal(t, tc.want, service.Annotations, name)
	}
}
