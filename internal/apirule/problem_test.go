package apirule

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDescriptionOfAStatusHasThreeProblems(t *testing.T) {
	t.Parallel()
	all := Problems{{Attribute: ".spec.a", Message: "one"}, {Attribute: ".spec.b", Message: "two"}, {Attribute: ".spec.c", Message: "three"}, {Attribute: ".spec.d", Message: "four"}, {Attribute: ".spec.e", Message: "five"}}
	require.Equal(t, "Reconciled successfully", all[:0].Description())
	require.Equal(t, "Validation errors: Attribute '.spec.a': one", all[:1].Description())
	require.Equal(t, "Validation errors: Attribute '.spec.a': one\nAttribute '.spec.b': two\nAttribute '.spec.c': three", all[:3].Description())
	require.Equal(t, "Validation errors: Attribute '.spec.a': one\nAttribute '.spec.b': two\nAttribute '.spec.c': three\n1 more error(s)...",
		all[:4].Description())
	require.Equal(t, "Validation errors: Attribute '.spec.a': one\nAttribute '.spec.b': two\nAttribute '.spec.c': three\n2 more error(s)...",
		all.Description())
}

func TestTextForLogsHasAllProblems(t *testing.T) {
	t.Parallel()
	all := Problems{{Attribute: ".spec.a", Message: "one"}, {Attribute: ".spec.b", Message: "two"}, {Attribute: ".spec.c", Message: "three"}, {Attribute: ".spec.d", Message: "four"}}
	require.Equal(t, "Attribute '.spec.a': one\nAttribute '.spec.b': two\nAttribute '.spec.c': three\nAttribute '.spec.d': four", all.String())
	require.Empty(t, Problems{}.String())
}
