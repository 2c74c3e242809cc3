package broker

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/routing"
)

// FuzzAddress has nats-server as its judge: whatever source and type are, either the publisher hears why not, or the
// server takes the subject, and a Subscription that names them asks for it.
func FuzzAddress(f *testing.F) {
	f.Add("shop", "order.received.v1")
	f.Add("my.shop/eu", "or der.*>received.v1")
	f.Add("kyma", "sap.kyma.custom.my-app.Account.Root.Created.v1")
	f.Add("rouse-.redelivery", "\xff.\u2028\u0085")
	f.Add("\x00", "..")
	f.Fuzz(func(t *testing.T, source, eventType string) {
		found, err := addressOf(source, eventType)
		if err != nil {
			var invalid *InvalidEventError
			require.ErrorAs(t, err, &invalid)
			return
		}
		require.True(t, server.IsValidLiteralSubject(found.subject), "%q", found.subject)
		require.NoError(t, checkSubject(found.subject))
		require.True(t, strings.HasPrefix(found.subject, routing.SubjectPrefix+"."))
		require.False(t, routing.IsRedelivery(found.subject))
		if found.keepOriginal {
			require.Equal(t, routing.Subject(source, eventType, false), found.subject)
			again, err := addressOf(routing.CleanSource(source), routing.CleanType(eventType))
			require.NoError(t, err)
			require.Equal(t, found.subject, again.subject, "cleaning twice must change nothing")
			return
		}
		require.Equal(t, routing.Subject("", found.wireType, true), found.subject)
		again, err := addressOf(source, found.wireType)
		require.NoError(t, err)
		require.Equal(t, found, again, "cleaning twice must change nothing")
	})
}
