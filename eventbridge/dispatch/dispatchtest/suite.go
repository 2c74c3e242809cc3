package dispatchtest

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

// StoredDeadLetter is a dead letter as a Backend stored it.
type StoredDeadLetter struct {
	ID string // of the event, empty when the message was none
	dispatch.DeadLetter
}

// Backend is a broker with one Subscription.
type Backend interface {
	Publish(t *testing.T, events ...cloudevent.Event)
	// PublishGarbage stores a message for the Subscription that is no event.
	PublishGarbage(t *testing.T)
	// Source makes another source of the same Subscription, as another replica would have, in order if need be.
	Source(t *testing.T, ordered bool) dispatch.Source
	StoredDeadLetters(t *testing.T) []StoredDeadLetter
	Backlog(t *testing.T) Backlog
}

// Backlog is what a Backend has left.
type Backlog struct {
	Pending    int // not delivered, or given back
	AckPending int // delivered and not settled
	Waiting    int // for their next attempt
	Detached   int // their calls go on
}

// AckWait is the AckWait that backends are made with: short, so that a missing Extend shows.
const AckWait = time.Second

// MaxAckPending is how many messages backends let be held at a time.
const MaxAckPending = 4

const (
	timeout = 20 * time.Second      // how long a test waits for what must happen
	tick    = 10 * time.Millisecond // how often it polls
)

// Run runs the suite.
func Run(t *testing.T, newBackend func(t *testing.T) Backend) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, *bench){
		"every event is delivered once and acked":                    deliversOnce,
		"a closed gate leaves the backlog pending":                   closedGate,
		"a gate that closes lets nothing in any more":                closingGate,
		"nothing starts behind a gate that closed":                   busyBehindClosedGate,
		"a failing sink is retried with backoff":                     retries,
		"Retry-After is honoured":                                    honoursRetryAfter,
		"a refused event becomes a dead letter":                      refuses,
		"an event whose attempts are exhausted is a dead letter":     exhausts,
		"a message that is no event becomes a dead letter":           deadLettersGarbage,
		"a dead letter that cannot be stored leaves the event":       retriesUntilDeadLetterIsStored,
		"a sink that is gone exhausts no attempts":                   outlivesGoneSink,
		"a sink slower than AckWait gets each event once":            extends,
		"no more than maxInFlight events are sent at a time":         boundsInFlight,
		"retries that wait block no others":                          retriesBlockNoOthers,
		"what a failing sink gets is reduced until it recovers":      sparesFailingSink,
		"a rate limit holds":                                         limitsRate,
		"events of one key are delivered in order":                   keepsOrder,
		"a failing event holds up its key alone":                     holdsUpItsKey,
		"what does not reach the sink holds up its key":              holdsUpForGoneSink,
		"a dead letter that cannot be stored holds up its key":       holdsUpForDeadLetter,
		"what fails during a drain keeps its position in order":      keepsItsPosition,
		"what the filter leaves out is not delivered":                filters,
		"a reply is published before its event is acked":             publishesReplies,
		"a reply that cannot be stored is tried again":               repeatsReplies,
		"a reply that is no event is ignored":                        ignoresInvalidReplies,
		"a chain of replies ends":                                    endsChains,
		"a chain of emitted events ends":                             endsChainsOfEmittedEvents,
		"an old event becomes a dead letter behind a closed gate":    expires,
		"an old event is not tried again":                            expiresBetweenAttempts,
		"events that are too many become dead letters":               sheds,
		"the filter leaves out what is too much":                     shedsWhatIsWanted,
		"what is over the quota does not wait for a filter":          shedsPastStarvedFilter,
		"a sink that does not answer keeps nothing that is too much": interruptsWhatIsTooMuch,
		"calls that hang leave their slots to others":                detaches,
		"no more calls are detached than may be in flight":           boundsDetached,
		"one at a time stays one at a time":                          detachesNoneOfOne,
		"a detached call that fails is an attempt":                   retriesDetached,
		"a detached call may end in a dead letter":                   deadLettersDetached,
		"a drain gives back detached calls":                          drainGivesBackDetached,
		"two replicas share the messages":                            shares,
		"a drain lets busy deliveries finish":                        drains,
		"a drain gives back what takes too long":                     drainGivesBack,
		"a panic of the sink is a failed attempt":                    survivesPanic,
		"a source that fails is asked again":                         survivesSource,
		"what is published is acked, dead-lettered or in the queue":  conserves,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := prometheus.NewRegistry()
			b := &bench{
				Backend: newBackend(t), gate: NewGate(true), maxInFlight: MaxAckPending, options: options(),
				registry: registry, metrics: dispatch.NewMetrics(registry),
			}
			test(t, b)
		})
	}
}

func options() dispatch.Options {
	return dispatch.Options{
		MaxInFlight:  1000,
		MaxAttempts:  4,
		Backoff:      dispatch.Backoff{Base: 40 * time.Millisecond, Max: time.Second},
		ShortDelay:   10 * time.Millisecond,
		AckWait:      AckWait,
		DrainTimeout: timeout,
		MaxHops:      3,
	}
}
