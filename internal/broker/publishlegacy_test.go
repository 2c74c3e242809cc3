package broker

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

const (
	oldType    = "sap.kyma.custom.shop.order.received.v1"
	oldSubject = "kyma." + oldType
)

// messages is how many messages the stream of events holds.
func messages(t *testing.T, conn *Conn) uint64 {
	t.Helper()
	stream, err := conn.js.Stream(t.Context(), DefaultStream)
	require.NoError(t, err)
	return stream.CachedInfo().State.Msgs
}

func TestALegacyEventIsStoredOnceWithoutInterestInItsOldName(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	ensureConsumer(t, conn, Consumer{Name: "modern", Subjects: []string{"kyma.shop.order.received.v1"}})
	publisher := NewPublisher(conn, publisherOptions())

	require.NoError(t, publisher.PublishLegacy(t.Context(), eventWithID("A"), oldType))
	require.Equal(t, uint64(1), messages(t, conn), "the copy is not kept without interest")

	ensureConsumer(t, conn, Consumer{Name: "old", Subjects: []string{oldSubject}})
	for range 2 {
		require.NoError(t, publisher.PublishLegacy(t.Context(), eventWithID("B"), oldType), "a repeat is a success")
	}
	require.NoError(t, publisher.PublishLegacy(t.Context(), eventWithID("C"), ""))
	require.Zero(t, publisher.pending.Load())
	awaitBacklog(t, conn, "modern", Backlog{Pending: 3})
	awaitBacklog(t, conn, "old", Backlog{Pending: 1})

	stream, err := conn.js.Stream(t.Context(), DefaultStream)
	require.NoError(t, err)
	message, err := stream.GetLastMsgForSubject(t.Context(), oldSubject)
	require.NoError(t, err)
	copied, err := decode(message.Header, message.Data)
	require.NoError(t, err)
	require.Equal(t, oldSource, copied.Source)
	require.Equal(t, "B", copied.ID)
	require.Equal(t, oldType, copied.Type)
	require.Empty(t, copied.Extension(ExtensionOriginalType))
}

func TestEqualIDsOfTwoApplicationsAreTwoEventsUnderTheirOldNamesToo(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	ensureConsumer(t, conn, Consumer{Name: "old", Subjects: []string{"kyma.sap.kyma.custom.>"}})
	publisher := NewPublisher(conn, publisherOptions())
	for _, application := range []string{"shop", "shop-2"} {
		e := eventWithID("A")
		e.Source = application
		require.NoError(t, publisher.PublishLegacy(t.Context(), e, "sap.kyma.custom."+strings.ReplaceAll(application, "-", "")+".order.received.v1"))
	}
	awaitBacklog(t, conn, "old", Backlog{Pending: 2})
}

func TestNothingIsStoredOfALegacyEventThatIsRefused(t *testing.T) {
	t.Parallel()
	_, conn := start(t, natstest.WithMaxPayload(16<<10))
	ensureConsumer(t, conn, Consumer{Name: "all", Subjects: []string{"kyma.>"}})
	long := strings.Repeat("x", routing.MaxSubject)
	for name, tc := range map[string]struct {
		source, eventType, oldType string
		size                       int
		wantErr                    string
	}{
		"a type that has no subject":      {eventType: "order..v1", oldType: oldType, wantErr: "empty segments"},
		"a reserved source":               {source: "rouse-redelivery", oldType: oldType, wantErr: "reserved"},
		"data that are too large":         {size: 14 << 10, oldType: oldType, wantErr: ErrTooLarge.Error()},
		"a copy alone that is too large":  {size: 11300, oldType: oldType + "." + long[:900], wantErr: ErrTooLarge.Error()},
		"a type that no line can address": {eventType: "order." + long, oldType: oldType, wantErr: "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			before := messages(t, conn)
			e := newEvent(withData("text/plain", []byte(strings.Repeat("x", tc.size))))
			if tc.eventType != "" {
				e.Type = tc.eventType
			}
			if tc.source != "" {
				e.Source = tc.source
			}
			publisher := NewPublisher(conn, publisherOptions())
			require.ErrorContains(t, publisher.PublishLegacy(t.Context(), e, tc.oldType), tc.wantErr)
			require.Equal(t, before, messages(t, conn))
			require.Zero(t, publisher.pending.Load())
		})
	}
	require.NoError(t, NewPublisher(conn, publisherOptions()).PublishLegacy(t.Context(), eventWithID("A"), oldType+"."+long))
	require.Equal(t, uint64(1), messages(t, conn), "an old name that no consumer can ask for is left out")
}

func TestALegacyEventWhoseCopyIsNotStoredIsNotConfirmed(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	publisher := NewPublisher(conn, publisherOptions(func(o *PublisherOptions) { o.MaxPending = 1 }))
	require.ErrorIs(t, publisher.PublishLegacy(t.Context(), eventWithID("A"), oldType), ErrBusy)
	require.Zero(t, publisher.pending.Load())
	unconnected := connect(t, "nats://127.0.0.1:1")
	require.ErrorIs(t, NewPublisher(unconnected, publisherOptions()).PublishLegacy(t.Context(), eventWithID("A"), oldType), ErrNotConnected)
}

// FuzzLegacyEvents: whatever an application calls its events, both copies of one that is stored can be read again, under
// subjects that the server takes.
func FuzzLegacyEvents(f *testing.F) {
	f.Add("my-shop", "Account.Root.Created", "v1", []byte(`{"a":1}`))
	f.Add("a b", "x", "1.0 >*", []byte("\"\xff\""))
	f.Add("\u2028", "..", "\x7f", []byte("0"))
	f.Fuzz(func(t *testing.T, application, name, version string, data []byte) {
		e := newEvent(withData("application/json", data))
		e.Source, e.Type = application, name+"."+version
		e.SetExtension("eventtypeversion", version)
		message, err := encode(e)
		if err != nil {
			var invalid *InvalidEventError
			require.ErrorAs(t, err, &invalid)
			return
		}
		stored := []*nats.Msg{message}
		if oldName, ok := routing.OldType(application, name, version); ok {
			stored = append(stored, oldCopy(e, message, oldName)...)
		}
		for i, m := range stored {
			require.True(t, server.IsValidPublishSubject(m.Subject), "%q", m.Subject)
			back, err := decode(m.Header, m.Data)
			require.NoError(t, err)
			require.Equal(t, e.ID, back.ID)
			require.Equal(t, string(data), string(back.Data))
			require.Equal(t, i == 1, routing.IsOldType(back.Type) && back.Source == oldSource && m.Subject == "kyma."+back.Type)
		}
	})
}
