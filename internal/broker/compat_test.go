package broker

import (
	"encoding/json"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

const settingsBefore = "testdata/before.json"

// renew is for the commit of a release, see docs/releases.md.
var renew = flag.Bool("renew", false, "write the settings of this checkout's streams and consumers as those of the release before")

// kept is a stream with its consumers, as a release makes them.
type kept struct {
	Stream    jetstream.StreamConfig
	Consumers []jetstream.ConsumerConfig
}

// routesOfAllKinds have consumers that differ in more than names.
func routesOfAllKinds() []routing.Route {
	route := func(name string, change func(*routing.Route)) routing.Route {
		made := routing.Route{
			Subscription: types.NamespacedName{Namespace: "shop", Name: name}, UID: types.UID(name), Consumer: routing.ConsumerName("shop", name),
			Subjects: []string{"kyma.shop." + name}, Sink: "http://" + name + ".shop.svc.cluster.local", MaxInFlight: 10,
		}
		change(&made)
		return made
	}
	from := func(start eventingv1alpha2.StartPosition, sequence uint64) func(*routing.Route) {
		return func(r *routing.Route) {
			r.Delivery.StartFrom.Position, r.Delivery.StartFrom.Sequence = start, sequence
			r.Delivery.StartFrom.Time = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		}
	}
	return []routing.Route{
		route("plain", func(*routing.Route) {}),
		route("ordered", func(r *routing.Route) { r.Delivery.OrderedBy = "subject" }),
		route("all", from(eventingv1alpha2.StartAll, 0)),
		route("time", from(eventingv1alpha2.StartTime, 0)),
		route("sequence", from(eventingv1alpha2.StartSequence, 7)),
		route("dead", func(r *routing.Route) { r.OfDeadLetters, r.Subjects = true, []string{"rouse.deadletter.shop.dead"} }),
	}
}

func streamOf(route routing.Route) string {
	if route.OfDeadLetters {
		return DeadLetterStream
	}
	return testStream
}

// ensureAll makes all that this release makes.
func ensureAll(t *testing.T, conn *Conn) {
	t.Helper()
	require.NoError(t, conn.EnsureStreams(t.Context(), testStreams()))
	for _, route := range routesOfAllKinds() {
		require.NoError(t, conn.EnsureConsumer(t.Context(), streamOf(route), ConsumerOf(route)))
	}
}

func TestThisReleaseAndTheOneBeforeTakeTheStreamsAndConsumersOfEachOther(t *testing.T) {
	t.Parallel()
	conn := connect(t, natstest.Start(t).URL())
	awaitConnected(t, conn)
	if *renew {
		renewSettings(t)
	}
	before := readSettings(t)
	for _, one := range before {
		_, err := conn.js.CreateStream(t.Context(), one.Stream)
		require.NoError(t, err)
		for _, consumer := range one.Consumers {
			_, err := conn.js.CreateConsumer(t.Context(), one.Stream.Name, consumer)
			require.NoError(t, err)
		}
	}
	_, err := conn.js.Publish(t.Context(), "kyma.shop.plain", []byte("waits"))
	require.NoError(t, err)
	made := creations(t, conn, before)

	ensureAll(t, conn)
	require.Equal(t, made, creations(t, conn, before), "what is made again loses its backlog")

	for _, one := range before { // as a bridge and a controller of the release before do it
		current, err := conn.js.Stream(t.Context(), one.Stream.Name)
		require.NoError(t, err)
		require.NoError(t, conn.updateStream(t.Context(), current.CachedInfo().Config, one.Stream), one.Stream.Name)
		for _, consumer := range one.Consumers {
			current, err := conn.js.Consumer(t.Context(), one.Stream.Name, consumer.Durable)
			require.NoError(t, err)
			config := current.CachedInfo().Config
			require.False(t, needsRecreation(config), consumer.Durable)
			require.Equal(t, consumer.Metadata[metadataStart], config.Metadata[metadataStart], "it would begin again")
			older := listed(&jetstream.ConsumerInfo{Name: consumer.Durable, Config: consumer})
			_, err = conn.js.UpdateConsumer(t.Context(), one.Stream.Name, older.apply(config))
			require.NoError(t, err, consumer.Durable)
		}
	}
	require.Equal(t, made, creations(t, conn, before))

	ensureAll(t, conn)
	require.Equal(t, made, creations(t, conn, before))
	require.Equal(t, uint64(1), streamInfo(t, conn, testStream).State.Msgs, "the event still waits")
}

func TestASettingThatTheReleaseBeforeCannotTakeIsNoticed(t *testing.T) {
	t.Parallel()
	conn := connect(t, natstest.Start(t).URL())
	awaitConnected(t, conn)
	ensureAll(t, conn)
	for name, change := range map[string]func(*jetstream.StreamConfig){
		"storage":   func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"retention": func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy },
		"discard":   func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
	} {
		config := streamInfo(t, conn, testStream).Config
		older := config
		change(&older)
		require.Error(t, conn.updateStream(t.Context(), config, older), name)
	}
}

// creations are when streams and consumers were made.
func creations(t *testing.T, conn *Conn, of []kept) map[string]time.Time {
	t.Helper()
	found := map[string]time.Time{}
	for _, one := range of {
		info := streamInfo(t, conn, one.Stream.Name)
		found[one.Stream.Name] = info.Created
		for _, consumer := range one.Consumers {
			current, err := conn.js.Consumer(t.Context(), one.Stream.Name, consumer.Durable)
			require.NoError(t, err)
			found[one.Stream.Name+"/"+consumer.Durable] = current.CachedInfo().Created
		}
	}
	return found
}

func readSettings(t *testing.T) []kept {
	t.Helper()
	text, err := os.ReadFile(settingsBefore)
	require.NoError(t, err)
	var before []kept
	require.NoError(t, json.Unmarshal(text, &before))
	require.Len(t, before, 3)
	return before
}

// renewSettings keeps what a server has when this release has made all.
func renewSettings(t *testing.T) {
	t.Helper()
	conn := connect(t, natstest.Start(t).URL())
	awaitConnected(t, conn)
	ensureAll(t, conn)
	var all []kept
	for _, stream := range []string{DeadLetterStream, RetryStream, testStream} {
		one := kept{Stream: streamInfo(t, conn, stream).Config}
		one.Stream.Metadata = ownMetadata(one.Stream.Metadata)
		consumers, err := conn.Consumers(t.Context(), stream)
		require.NoError(t, err)
		for _, consumer := range consumers {
			consumer.listed.Metadata = ownMetadata(consumer.listed.Metadata)
			one.Consumers = append(one.Consumers, consumer.listed)
		}
		all = append(all, one)
	}
	text, err := json.MarshalIndent(all, "", " ")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(settingsBefore, append(text, '\n'), 0o600))
}
