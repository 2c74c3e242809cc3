package quota

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/flags"
)

func TestQuotaAllowances(t *testing.T) {
	t.Parallel()
	name := func(namespace, name string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	share := Amount{Events: 1000, Bytes: 1_000_000}
	for title, tc := range map[string]struct {
		held []Held
		want map[types.NamespacedName]uint64
	}{
		"no events are kept": {nil, map[types.NamespacedName]uint64{}},
		"all keep their share": {
			[]Held{{Subscription: name("a", "x"), Amount: share}, {Subscription: name("b", "x"), Amount: share}}, map[types.NamespacedName]uint64{},
		},
		"one alone may keep all": {
			[]Held{{Subscription: name("a", "x"), Amount: Amount{9000, 9_000_000}}}, map[types.NamespacedName]uint64{},
		},
		"too many events": {
			[]Held{{Subscription: name("a", "x"), Amount: Amount{2000, 10}}, {Subscription: name("b", "x"), Amount: Amount{1, 1}}}, map[types.NamespacedName]uint64{name("a", "x"): 900},
		},
		"few events of many bytes": {
			[]Held{{Subscription: name("a", "x"), Amount: Amount{10, 2_000_000}}, {Subscription: name("b", "x"), Amount: Amount{900, 1}}}, map[types.NamespacedName]uint64{name("a", "x"): 4},
		},
		"many Subscriptions of one namespace": {
			[]Held{{Subscription: name("a", "x"), Amount: Amount{1500, 1}}, {Subscription: name("a", "y"), Amount: Amount{500, 1}}, {Subscription: name("b", "x"), Amount: Amount{}}},
			map[types.NamespacedName]uint64{name("a", "x"): 675, name("a", "y"): 225},
		},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, allowances(tc.held, share))
		})
	}
}

// fakeStreams returns the fill that a test sets, or err.
type fakeStreams struct {
	mu    sync.Mutex
	fills map[string]float64
	err   error
	hangs bool
	asked int
}

func (*fakeStreams) Streams() []string { return []string{"events", "letters"} }

func (f *fakeStreams) Fill(ctx context.Context, stream string) (float64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if f.hangs {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return f.fills[stream], f.err
}

func (f *fakeStreams) set(change func(*fakeStreams)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// fixture is a running monitor in a bubble of time of its own.
type fixture struct {
	*StorageMonitor
	t        *testing.T
	streams  *fakeStreams
	registry *prometheus.Registry
	lines    []string
}

// watch runs test with a monitor. Time only passes while the test sleeps.
func watch(t *testing.T, options StorageOptions, test func(f *fixture)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{t: t, streams: &fakeStreams{fills: map[string]float64{}}, registry: prometheus.NewPedanticRegistry()}
		log := funcr.New(func(_, args string) { f.lines = append(f.lines, args) }, funcr.Options{})
		f.StorageMonitor = NewStorageMonitor(StorageDeps{Streams: f.streams, Registerer: f.registry, Log: log}, options)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { f.Run(ctx) })
		synctest.Wait()
		test(f)
		stop()
		running.Wait()
	})
}

func (f *fixture) shows(series ...string) {
	f.t.Helper()
	want := ""
	if len(series) > 0 {
		want = "# HELP rouse_eventbridge_stream_fill_ratio Share of a stream's bounds that is used; absent while it is unknown.\n" +
			"# TYPE rouse_eventbridge_stream_fill_ratio gauge\n" + strings.Join(series, "\n") + "\n"
	}
	require.NoError(f.t, testutil.GatherAndCompare(f.registry, strings.NewReader(want)))
}

func TestEventsAreRefusedAboveTheWatermarkAndTakenAgainBelowIt(t *testing.T) {
	watch(t, DefaultStorageOptions(), func(f *fixture) {
		require.False(f.t, f.Full())
		f.streams.set(func(s *fakeStreams) { s.fills["events"], s.fills["letters"] = 0.95, 0.2 })
		time.Sleep(storageInterval)
		synctest.Wait()
		require.True(f.t, f.Full())
		f.shows(`rouse_eventbridge_stream_fill_ratio{stream="events"} 0.95`, `rouse_eventbridge_stream_fill_ratio{stream="letters"} 0.2`)
		f.streams.set(func(s *fakeStreams) { s.fills["events"] = 0.949 })
		time.Sleep(nearInterval)
		synctest.Wait()
		require.False(f.t, f.Full(), "it is asked more often close to the watermark")
	})
}

func TestOnlyTheStreamOfEventsRefuses(t *testing.T) {
	watch(t, DefaultStorageOptions(), func(f *fixture) {
		f.streams.set(func(s *fakeStreams) { s.fills["letters"] = 1 })
		time.Sleep(storageInterval)
		synctest.Wait()
		require.False(f.t, f.Full())
	})
}

func TestAWatermarkCanBeTurnedOff(t *testing.T) {
	t.Parallel()
	for name, watermark := range map[string]float64{"by 0": 0, "by 1": 1} {
		t.Run(name, func(t *testing.T) {
			watch(t, StorageOptions{Watermark: watermark}, func(f *fixture) {
				f.streams.set(func(s *fakeStreams) { s.fills["events"] = 1 })
				time.Sleep(storageInterval)
				synctest.Wait()
				require.False(f.t, f.Full())
				f.shows(`rouse_eventbridge_stream_fill_ratio{stream="events"} 1`, `rouse_eventbridge_stream_fill_ratio{stream="letters"} 0`)
			})
		})
	}
}

func TestAnUnknownFillRefusesNoEvents(t *testing.T) {
	t.Parallel()
	for name, silence := range map[string]func(*fakeStreams){
		"an error":  func(s *fakeStreams) { s.err = errors.New("not connected") },
		"no answer": func(s *fakeStreams) { s.hangs = true },
	} {
		t.Run(name, func(t *testing.T) {
			watch(t, DefaultStorageOptions(), func(f *fixture) {
				f.streams.set(func(s *fakeStreams) { s.fills["events"] = 0.99 })
				time.Sleep(storageInterval)
				synctest.Wait()
				f.streams.set(silence)
				time.Sleep(staleAfter - storageInterval)
				require.True(f.t, f.Full(), "the last answer counts for a while")
				time.Sleep(storageInterval + 2*(storagePollTimeout+storageInterval))
				require.False(f.t, f.Full())
				f.shows()
			})
		})
	}
}

func TestWatermarkLogsAreRateLimited(t *testing.T) {
	watch(t, DefaultStorageOptions(), func(f *fixture) {
		time.Sleep(2 * quiet)
		for i := range 100 {
			f.streams.set(func(s *fakeStreams) { s.fills["events"] = 0.94 + 0.02*float64(i%2) })
			time.Sleep(nearInterval)
		}
		synctest.Wait()
		require.Len(f.t, f.lines, 1, f.lines)
		require.Contains(f.t, f.lines[0], `"watermark"=0.95`)
		f.streams.set(func(s *fakeStreams) { s.fills["events"] = 0.5 })
		time.Sleep(quiet + storageInterval)
		synctest.Wait()
		require.Len(f.t, f.lines, 2, "how it ended is logged")
	})
}

func TestStreamsArePolledSeldomBelowTheWatermark(t *testing.T) {
	watch(t, DefaultStorageOptions(), func(f *fixture) {
		time.Sleep(time.Minute)
		synctest.Wait()
		require.LessOrEqual(f.t, f.streams.asked, 2*31)
	})
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		watermark float64
		ok        bool
	}{
		"the default": {DefaultStorageOptions().Watermark, true},
		"off":         {0, true},
		"all":         {1, true},
		"negative":    {-0.1, false},
		"per cent":    {95, false},
		"no number":   {math.NaN(), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := StorageOptions{Watermark: tc.watermark}
			require.Equal(t, tc.ok, flags.Validate(&options) == nil)
		})
	}
}
