package broker

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/natstest"
)

func TestEnsureStreamsCreatesBothAndIsIdempotent(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	before := streamInfo(t, conn, testStream)

	require.Equal(t, []string{"kyma.>"}, before.Config.Subjects)
	require.Equal(t, jetstream.InterestPolicy, before.Config.Retention)
	require.Equal(t, jetstream.DiscardNew, before.Config.Discard)
	require.True(t, before.Config.DiscardNewPerSubject)
	require.Equal(t, 2*time.Minute, before.Config.Duplicates)
	require.Equal(t, int64(1_000_000), before.Config.MaxMsgsPerSubject)
	dead := streamInfo(t, conn, DeadLetterStream)
	require.Equal(t, []string{"rouse.deadletter.>", "rouse.dropped.>"}, dead.Config.Subjects)
	require.Equal(t, jetstream.LimitsPolicy, dead.Config.Retention)

	require.NoError(t, conn.EnsureStreams(t.Context(), testStreams()))
	require.Equal(t, before.Created, streamInfo(t, conn, testStream).Created)
}

func TestEventsAreTakenWhenDeadLettersAndRetriesCanBeStored(t *testing.T) {
	t.Parallel()
	conn := connect(t, natstest.Start(t).URL())
	awaitConnected(t, conn)
	changes, err := conn.nc.SubscribeSync("$JS.EVENT.ADVISORY.STREAM.*.*")
	require.NoError(t, err)
	require.NoError(t, conn.EnsureStreams(t.Context(), testStreams()))
	// The server sends the advisories of different streams in any order, so their timestamps count.
	changed := map[string]time.Time{}
	for _, awaited := range []string{"CREATED.sap", "CREATED.rouse-dead-letters", "CREATED.rouse-retries", "UPDATED.sap"} {
		for changed[awaited].IsZero() {
			advisory, err := changes.NextMsg(testTimeout)
			require.NoError(t, err)
			var change struct{ Timestamp time.Time }
			require.NoError(t, json.Unmarshal(advisory.Data, &change))
			changed[strings.TrimPrefix(advisory.Subject, "$JS.EVENT.ADVISORY.STREAM.")] = change.Timestamp
		}
	}
	order := slices.SortedFunc(maps.Keys(changed), func(a, b string) int { return changed[a].Compare(changed[b]) })
	require.Equal(t, "CREATED.sap", order[0], "its storage is reserved first")
	require.Equal(t, "UPDATED.sap", order[len(order)-1], "and it takes events last")
}

func TestAStreamThatIsBrokenIsNamedAndStopsNoOther(t *testing.T) {
	t.Parallel()
	for _, broken := range []string{DeadLetterStream, RetryStream} {
		t.Run(broken, func(t *testing.T) {
			t.Parallel()
			conn := connect(t, natstest.Start(t).URL())
			awaitConnected(t, conn)
			_, err := conn.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: broken, Storage: jetstream.MemoryStorage})
			require.NoError(t, err)
			err = conn.EnsureStreams(t.Context(), testStreams())
			require.ErrorContains(t, err, fmt.Sprintf("ensure stream %q: it is stored in Memory and cannot be moved", broken))
			require.Equal(t, []string{"kyma.>"}, streamInfo(t, conn, testStream).Config.Subjects)
			if broken != RetryStream {
				consumers, err := conn.Consumers(t.Context(), RetryStream)
				require.NoError(t, err)
				require.Len(t, consumers, int(lastRetryLevel)+2)
			}
			require.NotEmpty(t, streamInfo(t, conn, DeadLetterStream).Config.Name)
		})
	}
}

func TestEnsureStreamsUpdatesInPlaceAndKeepsTheRest(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	before := streamInfo(t, conn, testStream)
	foreign := before.Config
	foreign.MaxMsgSize = 4711
	_, err := conn.js.UpdateStream(t.Context(), foreign)
	require.NoError(t, err)

	changed := testStreams()
	changed.MaxBytes = 32 << 20
	changed.MaxMsgsPerSubject = 1000
	changed.DuplicateWindow = time.Minute
	require.NoError(t, conn.EnsureStreams(t.Context(), changed))

	after := streamInfo(t, conn, testStream)
	require.Equal(t, before.Created, after.Created, "the stream was recreated")
	require.Equal(t, changed.MaxBytes, after.Config.MaxBytes)
	require.Equal(t, changed.MaxMsgsPerSubject, after.Config.MaxMsgsPerSubject)
	require.Equal(t, changed.DuplicateWindow, after.Config.Duplicates)
	require.Equal(t, int32(4711), after.Config.MaxMsgSize)
}

func TestTheStreamTakesMoreConsumersThanTheServersDefault(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		options []natstest.Option
		before  func(*testing.T, *Conn)
	}{
		"a new stream": {},
		"a stream from before": {before: func(t *testing.T, conn *Conn) {
			t.Helper()
			config := eventStream(testStreams())
			config.MaxConsumers = -1
			_, err := conn.js.CreateStream(t.Context(), config)
			require.NoError(t, err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := connect(t, natstest.Start(t, natstest.WithMaxConsumers(2)).URL())
			awaitConnected(t, conn)
			if tc.before != nil {
				tc.before(t, conn)
			}
			require.NoError(t, conn.EnsureStreams(t.Context(), testStreams()))
			for _, name := range []string{"one", "two", "three"} {
				ensureConsumer(t, conn, Consumer{Name: name, Subjects: []string{"kyma." + name}})
			}
		})
	}
}

func TestALimitOfConsumersThatWasSetIsKeptAndToldOf(t *testing.T) {
	t.Parallel()
	limit := int(lastRetryLevel) + 2 // as many as those of retries
	account := fmt.Sprintf(`accounts: {A: {jetstream: {max_consumers: %d}, users: [{user: me, password: pass}]}}`, limit)
	for name, before := range map[string]func(*testing.T, *Conn){
		"of the account": func(*testing.T, *Conn) {},
		"of the account, and the stream was there": func(t *testing.T, conn *Conn) {
			t.Helper()
			config := eventStream(testStreams())
			config.MaxConsumers = -1
			_, err := conn.js.CreateStream(t.Context(), config)
			require.NoError(t, err)
		},
		"of the stream": func(t *testing.T, conn *Conn) {
			t.Helper()
			config := eventStream(testStreams())
			config.MaxConsumers = limit
			_, err := conn.js.CreateStream(t.Context(), config)
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var options []natstest.Option
			if name != "of the stream" {
				options = append(options, natstest.WithAuthorization(t, account))
			}
			server := natstest.Start(t, options...)
			conn := connect(t, strings.Replace(server.URL(), "://", "://me:pass@", 1))
			awaitConnected(t, conn)
			before(t, conn)
			require.NoError(t, conn.EnsureStreams(t.Context(), testStreams()))
			require.NoError(t, conn.EnsureStreams(t.Context(), testStreams()))
			for i := range limit {
				ensureConsumer(t, conn, Consumer{Name: strconv.Itoa(i), Subjects: []string{"kyma.one"}})
			}
			err := conn.EnsureConsumer(t.Context(), testStream, Consumer{Name: "more", Subjects: []string{"kyma.more"}})
			require.ErrorIs(t, err, ErrTooManyConsumers)
			ensureConsumer(t, conn, Consumer{Name: "1", Subjects: []string{"kyma.others"}})
		})
	}
}

func TestRefusesChangeDistinguishesRefusalsFromFailures(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"no error":                         {nil, false},
		"the account's limit":              {&APIError{Code: 400, ErrorCode: int(codeMaxConsumers)}, true},
		"an older server":                  {&APIError{Code: 500, ErrorCode: 10052, Description: "stream configuration update can not change MaxConsumers"}, true},
		"a refusal while it was changed":   {&APIError{Code: 500, ErrorCode: 10069}, true},
		"no leader":                        {&APIError{Code: 503, ErrorCode: 10008}, false},
		"no answer, or not to this server": {ErrTimeout, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, refusesChange(tc.err))
		})
	}
}

func TestEnsureStreamsSaysWhatIsWrong(t *testing.T) {
	t.Parallel()

	t.Run("the server has less storage than asked for", func(t *testing.T) {
		t.Parallel()
		conn := connect(t, natstest.Start(t, natstest.WithMaxStore(1<<20)).URL())
		awaitConnected(t, conn)
		err := conn.EnsureStreams(t.Context(), testStreams())
		require.ErrorIs(t, err, ErrInsufficientResources)
		require.ErrorContains(t, err, "asks for 67108864 bytes")
	})
	t.Run("the storage cannot be changed", func(t *testing.T) {
		t.Parallel()
		_, conn := start(t)
		options := testStreams()
		options.Storage = storageMemory
		require.ErrorContains(t, conn.EnsureStreams(t.Context(), options), "cannot be moved")
	})
	t.Run("the server has no JetStream", func(t *testing.T) {
		t.Parallel()
		conn := connect(t, natstest.Start(t, natstest.WithoutJetStream()).URL())
		awaitConnected(t, conn)
		require.Error(t, conn.EnsureStreams(t.Context(), testStreams()))
		_, err := conn.Backlog(t.Context(), testStream, "anyone")
		require.Error(t, err)
		require.NotErrorIs(t, err, ErrConsumerNotFound)
	})
}

func streamInfo(t *testing.T, conn *Conn, name string) *jetstream.StreamInfo {
	t.Helper()
	stream, err := conn.js.Stream(t.Context(), name)
	require.NoError(t, err)
	return stream.CachedInfo()
}

func TestFillIsTheFullerOfBytesAndMessages(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		maxBytes, maxMsgs int64
		want              float64
	}{
		"bytes":     {maxBytes: 10_000, maxMsgs: -1, want: 0.4},
		"messages":  {maxBytes: 10_000_000, maxMsgs: 5, want: 0.8},
		"no bounds": {maxBytes: -1, maxMsgs: -1, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, conn := start(t)
			_, err := conn.js.CreateStream(t.Context(), jetstream.StreamConfig{
				Name: "other", Subjects: []string{"other"}, MaxBytes: tc.maxBytes, MaxMsgs: tc.maxMsgs,
			})
			require.NoError(t, err)
			fill, err := conn.Fill(t.Context(), "other")
			require.NoError(t, err)
			require.Zero(t, fill)
			for range 4 {
				server.Publish(t, "other", make([]byte, 1000))
			}
			require.Eventually(t, func() bool { return streamInfo(t, conn, "other").State.Msgs == 4 }, testTimeout, moment)
			fill, err = conn.Fill(t.Context(), "other")
			require.NoError(t, err)
			require.InDelta(t, tc.want, fill, 0.05, "each message has some bytes of its own")
		})
	}
}

func TestFillIsAnErrorWithoutAConnection(t *testing.T) {
	t.Parallel()
	server, conn := start(t)
	_, err := conn.Fill(t.Context(), "nobodys")
	require.ErrorIs(t, err, ErrNoStream)
	server.Stop()
	require.Eventually(t, func() bool { return !conn.Connected() }, testTimeout, moment)
	_, err = conn.Fill(t.Context(), testStream)
	require.ErrorIs(t, err, ErrNotConnected)
}
