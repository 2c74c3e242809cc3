package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rouse-run/rouse/internal/routing"
)

// ErrBound means that a client receives on a consumer of Kyma's: its eventing-manager runs.
var ErrBound = errors.New("a client receives on it")

// KymaConsumers counts what Kyma's eventing-manager has in a stream.
type KymaConsumers struct {
	Bound int // it receives on these now
	Left  int // no client does; they keep every event all the same
}

// Any reports whether there are any.
func (k KymaConsumers) Any() bool { return k.Bound+k.Left > 0 }

// KymaConsumers looks for the consumers of Kyma's eventing-manager, which deletes those
// of others whenever it starts. ErrNoStream means that there is no stream to share.
func (c *Conn) KymaConsumers(ctx context.Context, stream string) (KymaConsumers, error) {
	var found KymaConsumers
	consumers, err := c.Consumers(ctx, stream)
	if err != nil {
		return found, fmt.Errorf("look for consumers of eventing-manager: %w", err)
	}
	for i := range consumers {
		switch {
		case !consumers[i].OfKyma():
		case consumers[i].Received:
			found.Bound++
		default:
			found.Left++
		}
	}
	return found, nil
}

// OfKyma recognises a listed consumer of eventing-manager by what no other client makes: a push consumer whose name is made of its
// description.
func (c Consumer) OfKyma() bool { return ofKyma(c.Name, c.listed) }

func ofKyma(name string, config jetstream.ConsumerConfig) bool {
	return config.Durable != "" && config.DeliverSubject != "" && name == routing.TypeConsumerName(config.Description)
}

// AdoptConsumers has the consumers of Subscriptions continue where those of Kyma end that deliver to the same Subscriptions, which are
// deleted once the new ones exist. A consumer starts behind the lowest position up to which they have settled everything: nothing is
// lost, and events behind that one may be delivered a second time. An adoption that was interrupted is continued.
func (c *Conn) AdoptConsumers(ctx context.Context, stream string, consumers []Consumer) error {
	all, err := c.Consumers(ctx, stream)
	if err != nil {
		return fmt.Errorf("adopt the consumers of Kyma: %w", err)
	}
	predecessors := map[string][]Consumer{}
	for _, each := range all {
		if each.OfKyma() {
			subscription := subscriptionOfKyma(each.Description)
			predecessors[subscription] = append(predecessors[subscription], each)
		}
	}
	for _, consumer := range consumers {
		key, _ := SubscriptionOf(consumer)
		if err := c.adoptConsumer(ctx, stream, consumer, predecessors[key.String()]); err != nil {
			return fmt.Errorf("adopt the consumers of Kyma for Subscription %s: %w", key, err)
		}
	}
	return nil
}

func (c *Conn) adoptConsumer(ctx context.Context, stream string, consumer Consumer, predecessors []Consumer) error {
	if len(predecessors) == 0 {
		return nil
	}
	defer c.consumers.one(consumer.Name)()
	start, wanted, err := startBehind(predecessors, consumer)
	if err != nil {
		return err
	}
	if wanted {
		if err := c.createFrom(ctx, stream, consumer, start); err != nil {
			return subjectsError(consumer, mapError(err))
		}
	}
	for _, predecessor := range predecessors {
		if err := c.deleteConsumer(ctx, stream, predecessor.Name); err != nil {
			return err
		}
	}
	return nil
}

// startBehind returns the first sequence that one of the consumers of Kyma has not settled. wanted is false when the Subscription wants
// none of their subjects any more.
func startBehind(predecessors []Consumer, consumer Consumer) (start uint64, wanted bool, err error) {
	for _, each := range predecessors {
		if each.Received {
			return 0, false, fmt.Errorf("consumer %s: %w", each.Name, ErrBound)
		}
		for _, subject := range each.Subjects {
			if !slices.ContainsFunc(consumer.Subjects, func(filter string) bool { return subjectMatches(filter, subject) }) {
				continue
			}
			if behind := each.Progress.Settled + 1; !wanted || behind < start {
				start, wanted = behind, true
			}
		}
	}
	return start, wanted, nil
}

// createFrom makes a consumer that starts at a sequence of the stream, whatever its Subscription says of new ones. One that exists stays.
func (c *Conn) createFrom(ctx context.Context, stream string, consumer Consumer, start uint64) error {
	_, err := c.consumerInfo(ctx, stream, consumer.Name)
	if !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return err
	}
	config := consumer.config()
	config.DeliverPolicy, config.OptStartTime, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, nil, start
	_, err = c.js.CreateConsumer(ctx, stream, config)
	return err
}

// subscriptionOfKyma is the namespace/name in a description; a subject may have slashes.
func subscriptionOfKyma(description string) string {
	namespace, rest, _ := strings.Cut(description, "/")
	name, _, _ := strings.Cut(rest, "/")
	return namespace + "/" + name
}

// kymaDescription is that of eventing-manager's consumer of one subject of a Subscription.
func kymaDescription(consumer Consumer, subject string) string {
	key, _ := SubscriptionOf(consumer)
	return key.String() + "/" + subject
}

// DropKymaConsumer deletes a consumer that eventing-manager has left, with the events that only it keeps. One that is not Kyma's, or does
// not exist, stays as it is.
func (c *Conn) DropKymaConsumer(ctx context.Context, stream, name string) error {
	defer c.consumers.one(name)()
	if !c.Connected() {
		return fmt.Errorf("drop consumer %q: %w", name, ErrNotConnected)
	}
	info, err := c.consumerInfo(ctx, stream, name)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("drop consumer %q: %w", name, mapError(err))
	case !ofKyma(name, info.Config):
		return nil
	case info.PushBound:
		return fmt.Errorf("drop consumer %q: %w", name, ErrBound)
	}
	return c.deleteConsumer(ctx, stream, name)
}

// The settings of eventing-manager's consumers. It sets the number of unsettled events by itself when it starts.
const (
	kymaAckWait    = 30 * time.Second
	kymaMaxDeliver = 100
	kymaMaxPending = 10
	kymaHeartbeat  = time.Minute
)

// HandBack is the reverse of AdoptConsumers: consumers as eventing-manager makes them continue where a consumer of Rouse ends, which is
// deleted once they exist.
func (c *Conn) HandBack(ctx context.Context, stream string, consumer Consumer) error {
	defer c.consumers.one(consumer.Name)()
	if err := c.handBack(ctx, stream, consumer); err != nil {
		return fmt.Errorf("hand consumer %q back to Kyma: %w", consumer.Description, err)
	}
	return nil
}

func (c *Conn) handBack(ctx context.Context, stream string, consumer Consumer) error {
	if !c.Connected() {
		return ErrNotConnected
	}
	info, err := c.consumerInfo(ctx, stream, consumer.Name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil // it was handed back before
	}
	if err != nil {
		return mapError(err)
	}
	for _, subject := range consumer.Subjects {
		if subject == routing.RedeliverySubject(consumer.Name) {
			continue
		}
		_, err := c.js.CreatePushConsumer(ctx, stream, kymaConsumer(kymaDescription(consumer, subject), subject, info.AckFloor.Stream+1))
		if err != nil && !errors.Is(err, jetstream.ErrConsumerExists) { // made before an interruption, from a sequence that is no higher
			return mapError(err)
		}
	}
	return c.deleteConsumer(ctx, stream, consumer.Name)
}

func kymaConsumer(description, subject string, start uint64) jetstream.ConsumerConfig {
	name := routing.TypeConsumerName(description)
	return jetstream.ConsumerConfig{
		Durable: name, Name: name, Description: description, FilterSubject: subject, DeliverSubject: nats.NewInbox(),
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: start,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: kymaAckWait, MaxDeliver: kymaMaxDeliver, MaxAckPending: kymaMaxPending,
		FlowControl: true, IdleHeartbeat: kymaHeartbeat, ReplayPolicy: jetstream.ReplayInstantPolicy,
	}
}

// StreamSettings are those that Rouse sets, as the server has them, and what the stream holds.
type StreamSettings struct {
	Replicas          int
	Storage           string
	MaxBytes          int64
	MaxMsgs           int64
	MaxMsgsPerSubject int64
	MaxAge            time.Duration
	DuplicateWindow   time.Duration
	Retention         string
	Discard           string
	// DiscardsNewPerSubject is false where the oldest event of a full type is dropped.
	DiscardsNewPerSubject bool
	Messages, Bytes       uint64
}

// StreamSettings reads them.
func (c *Conn) StreamSettings(ctx context.Context, stream string) (StreamSettings, error) {
	if !c.Connected() {
		return StreamSettings{}, fmt.Errorf("read the settings of stream %q: %w", stream, ErrNotConnected)
	}
	handle, err := c.js.Stream(ctx, stream)
	if err != nil {
		return StreamSettings{}, fmt.Errorf("read the settings of stream %q: %w", stream, mapError(err))
	}
	info := handle.CachedInfo()
	storage := storageFile
	if info.Config.Storage == jetstream.MemoryStorage {
		storage = storageMemory
	}
	return StreamSettings{
		Replicas: info.Config.Replicas, Storage: storage, MaxBytes: info.Config.MaxBytes, MaxMsgs: info.Config.MaxMsgs,
		MaxMsgsPerSubject: info.Config.MaxMsgsPerSubject, MaxAge: info.Config.MaxAge, DuplicateWindow: info.Config.Duplicates,
		Retention: info.Config.Retention.String(), Discard: info.Config.Discard.String(), DiscardsNewPerSubject: info.Config.DiscardNewPerSubject,
		Messages: info.State.Msgs, Bytes: info.State.Bytes,
	}, nil
}
