package broker

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	defaultAckWait       = 30 * time.Second
	defaultMaxAckPending = 1000
	// serverMetadata marks what the server itself adds to a consumer's metadata.
	serverMetadata = "_nats."
	// metadataStart holds where the consumer was made to start.
	metadataStart = "rouse.run/start-from"
)

// Consumer is a durable pull consumer, unless another client made it: whom it serves, with which subjects.
type Consumer struct {
	Name        string
	Description string
	// Subjects that the consumer takes events from; they must not overlap.
	Subjects []string
	Metadata map[string]string
	// StartFrom is the first event that a new consumer gets.
	StartFrom StartFrom
	// AckWait after which an unsettled message is delivered again; 30 s when zero.
	AckWait time.Duration
	// MaxAckPending limits the messages that all sources together hold; 1,000 when zero.
	MaxAckPending int
	// Ordered lets one source receive at a time, see NewOrderedSource.
	Ordered bool
	// Backlog is what the consumer had left when it was listed.
	Backlog Backlog
	// Progress is how far it was then.
	Progress Progress
	// Received is true if any client was bound to it, or pulled messages, then.
	Received bool

	listed jetstream.ConsumerConfig // all that the server had of it
}

// EnsureConsumer creates the consumer, or updates an existing one without losing its
// backlog.
func (c *Conn) EnsureConsumer(ctx context.Context, stream string, consumer Consumer) error {
	defer c.consumers.one(consumer.Name)()
	if err := c.ensureConsumer(ctx, stream, consumer); err != nil {
		return fmt.Errorf("ensure consumer %q: %w", consumer.Name, err)
	}
	return nil
}

func (c *Conn) ensureConsumer(ctx context.Context, stream string, consumer Consumer) error {
	if !c.Connected() {
		return ErrNotConnected
	}
	if len(consumer.Subjects) == 0 {
		return errors.New("no filter subject")
	}
	if c.deletions.unfinished(stream, consumer.Name) {
		return c.awaitDeletion(ctx, stream, consumer)
	}
	current, err := c.consumerInfo(ctx, stream, consumer.Name)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		return subjectsError(consumer, c.createConsumer(ctx, stream, c.markRecreated(stream, consumer)))
	case err != nil:
		return mapError(err)
	}
	if current.Config.Metadata[metadataStart] != consumer.StartFrom.String() || needsRecreation(current.Config) {
		return subjectsError(consumer, c.restart(ctx, stream, consumer, current))
	}
	marked, due := unconfirmed(current)
	if due {
		return c.confirm(ctx, stream, consumer, current)
	}
	if marked {
		consumer = c.markRecreated(stream, consumer)
	}
	if consumer.matches(current.Config) {
		return nil
	}
	_, err = c.js.UpdateConsumer(ctx, stream, consumer.apply(current.Config))
	return subjectsError(consumer, mapError(err))
}

// consumerInfo is of a consumer of any kind.
func (c *Conn) consumerInfo(ctx context.Context, stream, name string) (*jetstream.ConsumerInfo, error) {
	consumer, err := c.js.Consumer(ctx, stream, name)
	if err == nil {
		return consumer.CachedInfo(), nil
	}
	if !errors.Is(err, jetstream.ErrNotPullConsumer) {
		return nil, err
	}
	pushes, err := c.js.PushConsumer(ctx, stream, name)
	if err != nil {
		return nil, err
	}
	return pushes.CachedInfo(), nil
}

// config is that of a new consumer.
func (c Consumer) config() jetstream.ConsumerConfig {
	return c.StartFrom.apply(c.apply(jetstream.ConsumerConfig{Durable: c.Name, AckPolicy: jetstream.AckExplicitPolicy}))
}

func (c Consumer) apply(config jetstream.ConsumerConfig) jetstream.ConsumerConfig {
	config.Description = c.Description
	config.FilterSubject = ""
	config.FilterSubjects = c.Subjects
	config.Metadata = c.metadata()
	config.AckWait = c.ackWait()
	config.MaxAckPending = c.maxAckPending()
	config.PriorityPolicy, config.PriorityGroups, config.PinnedTTL = jetstream.PriorityPolicyNone, nil, 0
	if c.Ordered {
		config.PriorityPolicy, config.PriorityGroups = jetstream.PriorityPolicyPinned, []string{orderedGroup}
		config.PinnedTTL = c.ackWait() // what a source that died holds comes back after as long
	}
	return normalizeConsumerConfig(config)
}

func (c Consumer) matches(config jetstream.ConsumerConfig) bool {
	return config.Description == c.Description &&
		slices.Equal(slices.Sorted(slices.Values(subjects(config))), slices.Sorted(slices.Values(c.Subjects))) &&
		maps.Equal(ownMetadata(config.Metadata), c.metadata()) &&
		config.AckWait == c.ackWait() &&
		config.MaxAckPending == c.maxAckPending() &&
		samePriority(config, c.apply(config)) &&
		reflect.DeepEqual(config, normalizeConsumerConfig(config))
}

func samePriority(a, b jetstream.ConsumerConfig) bool {
	return a.PriorityPolicy == b.PriorityPolicy && slices.Equal(a.PriorityGroups, b.PriorityGroups) && a.PinnedTTL == b.PinnedTTL
}

func ordered(config jetstream.ConsumerConfig) bool {
	return config.PriorityPolicy == jetstream.PriorityPolicyPinned && slices.Contains(config.PriorityGroups, orderedGroup)
}

func (c Consumer) metadata() map[string]string {
	metadata := ownMetadata(c.Metadata)
	if start := c.StartFrom.String(); start != "" {
		metadata[metadataStart] = start
	}
	return metadata
}

func (c Consumer) ackWait() time.Duration {
	if c.AckWait == 0 {
		return defaultAckWait
	}
	return c.AckWait
}

func (c Consumer) maxAckPending() int {
	if c.MaxAckPending == 0 {
		return defaultMaxAckPending
	}
	return c.MaxAckPending
}

// DeleteConsumer deletes the consumer and its backlog. One that does not exist
// is no error.
func (c *Conn) DeleteConsumer(ctx context.Context, stream, name string) error {
	defer c.consumers.one(name)()
	return c.deleteConsumer(ctx, stream, name)
}

func (c *Conn) deleteConsumer(ctx context.Context, stream, name string) error {
	if !c.Connected() {
		return fmt.Errorf("delete consumer %q: %w", name, ErrNotConnected)
	}
	c.deletions.expect(deleted{stream, name})
	err := mapError(c.js.DeleteConsumer(ctx, stream, name))
	if err == nil || isAny(err, ErrConsumerNotFound, ErrNoStream) {
		return nil
	}
	return fmt.Errorf("delete consumer %q: %w", name, err)
}

func subjects(config jetstream.ConsumerConfig) []string {
	if config.FilterSubject != "" {
		return []string{config.FilterSubject}
	}
	return config.FilterSubjects
}

func ownMetadata(metadata map[string]string) map[string]string {
	own := map[string]string{}
	for key, value := range metadata {
		if !strings.HasPrefix(key, serverMetadata) {
			own[key] = value
		}
	}
	return own
}

func subjectsError(consumer Consumer, err error) error {
	if !errors.Is(err, ErrOverlappingSubjects) {
		return err
	}
	return fmt.Errorf("%s: %w", strings.Join(consumer.Subjects, ", "), err)
}

// normalizeConsumerConfig removes from a consumer's configuration what would keep it from delivering
// each event until it is settled. Another client may have set it.
func normalizeConsumerConfig(config jetstream.ConsumerConfig) jetstream.ConsumerConfig {
	config.MaxDeliver = -1 // the dispatcher decides which attempt is the last
	config.BackOff = nil
	config.HeadersOnly = false
	config.InactiveThreshold = 0 // a Subscription whose sink sleeps asks for nothing
	config.MaxRequestBatch, config.MaxRequestExpires, config.MaxRequestMaxBytes = 0, 0, 0
	return config
}

// needsRecreation reports whether a consumer has settings that JetStream cannot change in place.
func needsRecreation(config jetstream.ConsumerConfig) bool {
	return config.AckPolicy != jetstream.AckExplicitPolicy || config.ReplayPolicy != jetstream.ReplayInstantPolicy ||
		config.MemoryStorage || config.DeliverSubject != "" || config.Durable == ""
}

// StartPolicy is where a consumer starts.
type StartPolicy string

// The policies. The empty one is StartNew.
const (
	StartNew      StartPolicy = ""
	StartAll      StartPolicy = "all"
	StartTime     StartPolicy = "time"
	StartSequence StartPolicy = "sequence"
)

// StartFrom is the first event that a new consumer gets.
type StartFrom struct {
	Policy   StartPolicy
	Time     time.Time // for StartTime
	Sequence uint64    // for StartSequence
}

// String returns the form that is stored in metadata, empty for StartNew.
func (s StartFrom) String() string {
	switch s.Policy {
	case StartTime:
		return string(s.Policy) + " " + s.Time.UTC().Format(time.RFC3339Nano)
	case StartSequence:
		return string(s.Policy) + " " + strconv.FormatUint(s.Sequence, 10)
	default:
		return string(s.Policy)
	}
}

func (s StartFrom) apply(config jetstream.ConsumerConfig) jetstream.ConsumerConfig {
	config.OptStartSeq, config.OptStartTime = 0, nil
	switch s.Policy {
	case StartAll:
		config.DeliverPolicy = jetstream.DeliverAllPolicy
	case StartTime:
		config.DeliverPolicy = jetstream.DeliverByStartTimePolicy
		config.OptStartTime = &s.Time
	case StartSequence:
		config.DeliverPolicy = jetstream.DeliverByStartSequencePolicy
		config.OptStartSeq = max(s.Sequence, 1)
	default:
		config.DeliverPolicy = jetstream.DeliverNewPolicy
	}
	return config
}

// consumerLocks serialize changes of the same consumer, and keep any change from running while all consumers are listed or their
// stream is changed.
type consumerLocks struct {
	all  sync.RWMutex
	some [64]sync.Mutex
}

var consumerSeed = maphash.MakeSeed()

// one locks one consumer, and waits while all are locked. The caller has to call the result.
func (l *consumerLocks) one(name string) (release func()) {
	l.all.RLock()
	lock := &l.some[maphash.String(consumerSeed, name)%uint64(len(l.some))]
	lock.Lock()
	return func() {
		lock.Unlock()
		l.all.RUnlock()
	}
}

// none waits for changes that run and lets none begin. The caller has to call the result.
func (l *consumerLocks) none() (release func()) {
	l.all.Lock()
	return l.all.Unlock
}
