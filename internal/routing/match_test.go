package routing

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATypeMatchesTheSubjectsOfItsEvents(t *testing.T) {
	t.Parallel()
	require.True(t, TypeMapping{Subject: "kyma.shop.order.v1"}.Matches("kyma.shop.order.v1"))
	require.False(t, TypeMapping{Subject: "kyma.shop.order.v1"}.Matches("kyma.shop.order.v2"))
	require.True(t, TypeMapping{Subject: "kyma.order.>"}.Matches("kyma.order.received.v1"))
	require.False(t, TypeMapping{Subject: "kyma.order.>"}.Matches("kyma.order"))
}
