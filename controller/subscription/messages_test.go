package subscription

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestInvalidMessage(t *testing.T) {
	t.Parallel()
	require.Equal(t, `Subscription validation failed: spec.sink: Invalid value: "": must not be empty`,
		invalidMessage(field.ErrorList{field.Invalid(field.NewPath("spec", "sink"), "", "must not be empty")}))
}

func TestMissingSinkMessage(t *testing.T) {
	t.Parallel()
	require.Equal(t, "Sink validation failed: service price.shop not found in the cluster",
		missingSinkMessage(types.NamespacedName{Namespace: "shop", Name: "price"}))
}
