package broker

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// DefaultStream is the stream that holds the events.
	DefaultStream = "sap"
	// DeadLetterStream is the stream that holds what could not be delivered.
	DeadLetterStream = "rouse-dead-letters"

	storageFile   = "file"
	storageMemory = "memory"

	maxStreamName = 32
)

// StreamOptions are the settings of the streams.
type StreamOptions struct {
	// Name of the stream that holds the events.
	Name string
	// Replicas of all streams: 1, 3 or 5 servers.
	Replicas int
	// Storage is "file" or "memory". It cannot be changed later.
	Storage string
	// MaxBytes that waiting events may take; more is refused, not dropped.
	MaxBytes int64
	// MaxMsgsPerSubject that may wait per event type; more is refused.
	MaxMsgsPerSubject int64
	// DuplicateWindow in which an event with the same source, id and type is stored once.
	DuplicateWindow time.Duration
	// DeadLetterMaxAge after which dead letters are deleted.
	DeadLetterMaxAge time.Duration
	// DeadLetterMaxBytes that dead letters may take; then the oldest are dropped of the
	// namespace that holds most. It is at least what one may need: the server's max_payload and 1 KiB.
	DeadLetterMaxBytes int64
	// RetryMaxBytes that events may take that wait for another attempt; more wait in
	// their consumers, where they hold up others.
	RetryMaxBytes int64
}

// DefaultStreamOptions are Kyma's settings for the events.
func DefaultStreamOptions() StreamOptions {
	const (
		mebibyte          = 1 << 20
		maxMsgsPerSubject = 1_000_000
		week              = 7 * 24 * time.Hour
	)
	return StreamOptions{
		Name:               DefaultStream,
		Replicas:           1,
		Storage:            storageFile,
		MaxBytes:           700 * mebibyte,
		MaxMsgsPerSubject:  maxMsgsPerSubject,
		DuplicateWindow:    2 * time.Minute,
		DeadLetterMaxAge:   week,
		DeadLetterMaxBytes: 100 * mebibyte,
		RetryMaxBytes:      100 * mebibyte,
	}
}

// BindFlags adds the flags; what o holds is their default.
func (o *StreamOptions) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Name, "stream-name", o.Name, "stream that holds the events")
	fs.IntVar(&o.Replicas, "stream-replicas", o.Replicas, "NATS servers that keep a copy of the streams")
	fs.StringVar(&o.Storage, "stream-storage", o.Storage, "where the streams are stored: file or memory")
	fs.Var((*byteSize)(&o.MaxBytes), "stream-max-bytes", "bytes that waiting events may take, for example 700Mi")
	fs.Int64Var(&o.MaxMsgsPerSubject, "stream-max-msgs-per-subject", o.MaxMsgsPerSubject,
		"events of one type that may wait")
	fs.DurationVar(&o.DuplicateWindow, "stream-duplicate-window", o.DuplicateWindow,
		"time in which an event with the same source, id and type is stored once")
	fs.DurationVar(&o.DeadLetterMaxAge, "stream-dead-letter-max-age", o.DeadLetterMaxAge,
		"age at which dead letters are deleted")
	fs.Var((*byteSize)(&o.DeadLetterMaxBytes), "stream-dead-letter-max-bytes", "bytes that dead letters may take")
	fs.Var((*byteSize)(&o.RetryMaxBytes), "stream-retry-max-bytes", "bytes that events may take that wait for another attempt")
}

// Validate reports everything that is wrong with the options.
func (o *StreamOptions) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(o.Name != "" && len(o.Name) <= maxStreamName, "--stream-name must have 1 to %d characters", maxStreamName)
	check(o.Name != DeadLetterStream && o.Name != RetryStream, "--stream-name must not be %q", o.Name)
	check(o.Replicas >= 1 && o.Replicas <= 5, "--stream-replicas must be from 1 to 5, not %d", o.Replicas)
	check(o.Storage == storageFile || o.Storage == storageMemory,
		"--stream-storage must be %s or %s, not %q", storageFile, storageMemory, o.Storage)
	check(o.MaxBytes > 0, "--stream-max-bytes must be positive")
	check(o.MaxMsgsPerSubject > 0, "--stream-max-msgs-per-subject must be positive")
	check(o.DuplicateWindow > 0, "--stream-duplicate-window must be positive")
	check(o.DeadLetterMaxAge >= deadLetterWindow, "--stream-dead-letter-max-age must be at least %s", deadLetterWindow)
	check(o.DeadLetterMaxBytes > 0, "--stream-dead-letter-max-bytes must be positive")
	check(o.RetryMaxBytes > 0, "--stream-retry-max-bytes must be positive")
	return errors.Join(errs...)
}

// byteSize is a flag that takes Kubernetes quantities.
type byteSize int64

func (b *byteSize) String() string { return strconv.FormatInt(int64(*b), 10) }

func (b *byteSize) Type() string { return "bytes" }

func (b *byteSize) Set(text string) error {
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return fmt.Errorf("parse size %q: %w", text, err)
	}
	*b = byteSize(quantity.Value())
	return nil
}
