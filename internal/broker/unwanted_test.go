package broker

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/natstest"
)

// beyond is how many events nats-server checks when a consumer goes, and some.
const beyond = 100_050

func TestMessagesWithoutInterestArePurged(t *testing.T) {
	t.Parallel()
	want := Consumer{Name: "old", Subjects: []string{"kyma.old"}}
	for name, lose := range map[string]func(t *testing.T, conn *Conn){
		"a Subscription was deleted": func(t *testing.T, conn *Conn) {
			t.Helper()
			require.NoError(t, conn.DeleteConsumer(t.Context(), testStream, "big"))
		},
		"a Subscription lost a type": func(t *testing.T, conn *Conn) {
			t.Helper()
			ensureConsumer(t, conn, Consumer{Name: "big", Subjects: []string{"kyma.other"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := connect(t, natstest.Start(t).URL())
			awaitConnected(t, conn)
			streams := testStreams()
			streams.Storage = storageMemory
			require.NoError(t, conn.EnsureStreams(t.Context(), streams))
			ensureConsumer(t, conn, want)
			ensureConsumer(t, conn, Consumer{Name: "big", Subjects: []string{"kyma.big.*"}})
			publishRaw(t, conn, "kyma.old", 1)
			floodSubjects(t, conn, purgeBatch+1)

			lose(t, conn)
			_, err := conn.DropUnwanted(t.Context(), testStream)
			require.NoError(t, err)
			require.EqualValues(t, 1, streamInfo(t, conn, testStream).State.Msgs)
			awaitBacklog(t, conn, "old", Backlog{Pending: 1})
			dropped, err := conn.DropUnwanted(t.Context(), testStream)
			require.NoError(t, err)
			require.Zero(t, dropped, "nothing is left to drop")
		})
	}
}

func TestMessagesWithInterestAreNotPurged(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	ctx := t.Context()
	ours := Consumer{Name: "ours", Subjects: []string{"kyma.a.x", "kyma.a.y"}}
	ensureConsumer(t, conn, ours)
	for name, config := range map[string]jetstream.ConsumerConfig{
		"push":      {FilterSubject: "kyma.b.>", DeliverSubject: "somewhere"},
		"unnamed":   {FilterSubject: "kyma.c", InactiveThreshold: time.Hour},
		"wide":      {FilterSubject: "kyma.*.z"},
		"gives-up":  {FilterSubject: "kyma.d", MaxDeliver: 1},
		"no-answer": {FilterSubject: "kyma.e", AckPolicy: jetstream.AckNonePolicy},
	} {
		config.Name = name
		if config.AckPolicy == 0 {
			config.AckPolicy = jetstream.AckExplicitPolicy
		}
		if config.InactiveThreshold == 0 {
			config.Durable = name
		}
		create(t, conn, config)
	}
	subjects := []string{"kyma.a.x", "kyma.a.y", "kyma.a.z", "kyma.b.one", "kyma.b.two.three", "kyma.c", "kyma.d", "kyma.e"}
	for range 3 {
		for _, subject := range subjects {
			publishRaw(t, conn, subject, 1)
		}
	}
	dropped, err := conn.DropUnwanted(ctx, testStream)
	require.NoError(t, err)
	require.Zero(t, dropped)
	require.EqualValues(t, 3*len(subjects), streamInfo(t, conn, testStream).State.Msgs)
}

// The server removes what all have settled when the last of them settles it, but for what it has left behind once.
func TestDropUnwantedPurgesPartOfASubject(t *testing.T) {
	t.Parallel()
	conn := connect(t, natstest.Start(t).URL())
	awaitConnected(t, conn)
	streams := testStreams()
	streams.Storage = storageMemory
	require.NoError(t, conn.EnsureStreams(t.Context(), streams))
	ensureConsumer(t, conn, Consumer{Name: "old", Subjects: []string{"kyma.old"}})
	ensureConsumer(t, conn, Consumer{Name: "slow", Subjects: []string{"kyma.big.0"}})
	publishRaw(t, conn, "kyma.old", 1)
	floodSubjects(t, conn, 1)
	ensureConsumer(t, conn, Consumer{Name: "late", Subjects: []string{"kyma.big.0", "kyma.other"}}) // wants only what comes now
	for range 3 {
		publishRaw(t, conn, "kyma.other", 1)
		publishRaw(t, conn, "kyma.big.0", 1)
	}
	require.NoError(t, conn.DeleteConsumer(t.Context(), testStream, "slow"))
	_, err := conn.DropUnwanted(t.Context(), testStream)
	require.NoError(t, err)
	require.EqualValues(t, 7, streamInfo(t, conn, testStream).State.Msgs)
	awaitBacklog(t, conn, "old", Backlog{Pending: 1})
	awaitBacklog(t, conn, "late", Backlog{Pending: 6})
	late, err := conn.js.Consumer(t.Context(), testStream, "late")
	require.NoError(t, err)
	batch, err := late.Fetch(6, jetstream.FetchMaxWait(testTimeout))
	require.NoError(t, err)
	var got []string
	for message := range batch.Messages() {
		got = append(got, message.Subject())
		require.NoError(t, message.DoubleAck(t.Context()))
	}
	require.Equal(t, []string{"kyma.other", "kyma.big.0", "kyma.other", "kyma.big.0", "kyma.other", "kyma.big.0"}, got)
	require.EqualValues(t, 1, streamInfo(t, conn, testStream).State.Msgs)
}

func TestVersionsOfServersAreCompared(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"2.15.2": true, "2.15.10": true, "2.16.0": true, "3.0.0": true, "2.15.3-RC.1": true,
		"2.15.1": false, "2.9.99": false, "1.99.99": false, "": false, "2.15": false, "dev": false, "2.x.2": false,
	} {
		require.Equal(t, want, atLeast(version, [3]int{2, 15, 2}), version)
	}
}

// floodSubjects publishes more small events than the server checks, under so many subjects.
func floodSubjects(t *testing.T, conn *Conn, subjects int) {
	t.Helper()
	before := streamInfo(t, conn, testStream).State.Msgs
	for i := range beyond {
		_, err := conn.js.PublishAsync("kyma.big."+strconv.Itoa(i%subjects), nil, jetstream.WithStallWait(testTimeout))
		require.NoError(t, err)
	}
	await(t, conn.js.PublishAsyncComplete())
	require.Equal(t, before+beyond, streamInfo(t, conn, testStream).State.Msgs, "all are kept")
}

// create makes a consumer of any kind.
func create(t *testing.T, conn *Conn, config jetstream.ConsumerConfig) {
	t.Helper()
	var err error
	if config.DeliverSubject == "" {
		_, err = conn.js.CreateConsumer(t.Context(), testStream, config)
	} else {
		config.MaxWaiting = 0
		_, err = conn.js.CreatePushConsumer(t.Context(), testStream, config)
	}
	require.NoError(t, err, config.Name)
}

func TestUnwantedIsWhatNoConsumerHas(t *testing.T) {
	t.Parallel()
	has := holding{first: 10, last: 90, subjects: map[string]uint64{"kyma.shop.a": 3, "kyma.shop.b": 5, "kyma.shop.b.c": 7}}
	for name, tc := range map[string]struct {
		consumers []interest
		partly    bool
		want      []purge
	}{
		"no consumer has interest": {
			want: []purge{{"kyma.shop.a", 90}, {"kyma.shop.b", 90}, {"kyma.shop.b.c", 90}},
		},
		"each has its own": {
			consumers: []interest{{filters: []string{"kyma.shop.a"}, held: 3}, {filters: []string{"kyma.shop.b"}, held: 5}},
			want:      []purge{{"kyma.shop.b.c", 90}},
		},
		"one token":        {consumers: []interest{{filters: []string{"kyma.*.a", "kyma.shop.*.c"}, held: 10}}, want: []purge{{"kyma.shop.b", 90}}},
		"the tail":         {consumers: []interest{{filters: []string{"kyma.shop.b.>"}, held: 7}}, want: []purge{{"kyma.shop.a", 90}, {"kyma.shop.b", 90}}},
		"all of a source":  {consumers: []interest{{filters: []string{"kyma.shop.>"}, held: 15}}},
		"all by > alone":   {consumers: []interest{{filters: []string{">"}, held: 15}}},
		"all by no filter": {consumers: []interest{{held: 15}}},
		"a filter is no prefix": {
			consumers: []interest{{filters: []string{"kyma.shop"}}, {filters: []string{"kyma.shop.a.>"}}, {filters: []string{"kyma.shop.*.*", "kyma.shop.b"}, held: 12}},
			want:      []purge{{"kyma.shop.a", 90}},
		},
		"what all have settled stays unless it is asked for": {
			consumers: []interest{{settled: 50, held: 1}},
		},
		"what all have settled": {
			consumers: []interest{{filters: []string{"kyma.shop.>"}, settled: 50, held: 1}, {filters: []string{"kyma.shop.a"}, settled: 40}},
			partly:    true,
			want:      []purge{{"kyma.shop.a", 40}, {"kyma.shop.b", 50}, {"kyma.shop.b.c", 50}},
		},
		"one still wants all that it has": {
			consumers: []interest{{filters: []string{"kyma.shop.>"}, settled: 50, held: 1}, {filters: []string{"kyma.shop.b"}, settled: 50, held: 5}},
			partly:    true,
			want:      []purge{{"kyma.shop.a", 50}, {"kyma.shop.b.c", 50}},
		},
		"what was settled is gone already": {
			consumers: []interest{{settled: 9, held: 1}},
			partly:    true,
		},
		"a consumer that starts in the future": {
			consumers: []interest{{settled: 1000}},
			partly:    true,
			want:      []purge{{"kyma.shop.a", 90}, {"kyma.shop.b", 90}, {"kyma.shop.b.c", 90}},
		},
		"a consumer that wants all from the start": {
			consumers: []interest{{settled: 50}, {settled: 0, held: 15}},
			partly:    true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := unwanted(has, tc.consumers, tc.partly)
			slices.SortFunc(got, func(a, b purge) int { return slices.Compare([]string{a.subject}, []string{b.subject}) })
			require.Equal(t, tc.want, got)
		})
	}
}

func TestWhatIsUnwantedIsFoundAmongManyFilters(t *testing.T) {
	t.Parallel()
	const many = 5_000
	has := holding{first: 1, last: many, subjects: map[string]uint64{}}
	var consumers []interest
	for i := range many {
		has.subjects[fmt.Sprintf("kyma.shop%d.order.v1", i)] = 1
		consumers = append(consumers, interest{filters: []string{fmt.Sprintf("kyma.shop%d.order.*", i), fmt.Sprintf("kyma.rouse-redelivery.c%d", i)}, held: 1})
	}
	began := time.Now()
	require.Empty(t, unwanted(has, consumers, true))
	require.Len(t, unwanted(has, consumers[1:], true), 1)
	require.Less(t, time.Since(began), 10*time.Second, "each subject is compared with the filters that are like it")
}
