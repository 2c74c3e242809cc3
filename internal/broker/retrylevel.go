package broker

import (
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"k8s.io/apimachinery/pkg/types"
)

// retryLevel is one of the queues that retries wait in. All retries of a level wait equally long there, by the times at
// which the server stored them, so the first is always the next to go on and those behind it need no check. Level
// 0 does not wait, level 1 a retryUnit, and each further one twice as long as the one before. A delay is the sum of
// some of them.
type retryLevel int

const (
	// retryUnit is what a retry waits for in the hands of a bridge, at most: no level is shorter.
	retryUnit = 125 * time.Millisecond
	// lastRetryLevel has 18 hours. What is left of a delay at a level is less than twice its wait.
	lastRetryLevel retryLevel = 20
	// MaxRetryDelay is how long a retry may be asked to wait.
	MaxRetryDelay = 24 * time.Hour
)

// levelOf is the level in which most of the delay is waited for.
func levelOf(delay time.Duration) retryLevel {
	if delay < retryUnit {
		return 0
	}
	return min(retryLevel(bits.Len64(uint64(delay/retryUnit))), lastRetryLevel)
}

func (l retryLevel) wait() time.Duration {
	if l == 0 {
		return 0
	}
	return retryUnit << (l - 1)
}

// levelAbove is the first level in which all of the delay is waited for.
func levelAbove(delay time.Duration) retryLevel {
	level := levelOf(delay)
	if level.wait() < delay {
		level++
	}
	return min(level, lastRetryLevel)
}

// longest is what is left of a delay at this level at most.
func (l retryLevel) longest() time.Duration { return retryUnit << l }

// String is the level's part of subjects and of its consumer's name.
func (l retryLevel) String() string { return l.wait().String() }

func (l retryLevel) consumer() string { return retryConsumer + "-" + l.String() }

// filters are of the retries that wait in the level and of the events of detached calls.
func (l retryLevel) filters() []string {
	return []string{delayPrefix + "." + l.String() + ".>", callPrefix + "." + l.String() + ".>"}
}

// schedule returns when a retry of this level is due, and when to check it next: then it is due, or waits for the rest of its
// delay at another level. All are times of the server. Whatever the headers hold, a retry of a level is due when
// its wait is over, or within as long again.
func (l retryLevel) schedule(stored time.Time, header nats.Header) (due, next time.Time) {
	over := stored.Add(l.wait())
	due = firstDue(stored, header)
	if due.Before(over) {
		due = over
	}
	if latest := stored.Add(l.longest()); due.After(latest) {
		due = latest
	}
	if due.Sub(over) < retryUnit {
		return due, due
	}
	return due, over
}

// firstDue is when the retry was to come back when it was made.
func firstDue(stored time.Time, header nats.Header) time.Time {
	if due, err := strconv.ParseInt(header.Get(headerDue), 10, 64); err == nil {
		return time.Unix(0, due)
	}
	delay, _ := strconv.ParseInt(header.Get(headerDelay), 10, 64)
	return stored.Add(time.Duration(delay))
}

// retrySubject is where a retry waits: rouse.delay.<level>.<size>.<namespace>.<name>.
func retrySubject(level retryLevel, size string, subscription types.NamespacedName) string {
	return waitingSubject(delayPrefix, level, size, subscription)
}

// callSubject is where the event of a detached call waits: rouse.call.<level>.<size>.<namespace>.<name>.
func callSubject(level retryLevel, size string, subscription types.NamespacedName) string {
	return waitingSubject(callPrefix, level, size, subscription)
}

func waitingSubject(prefix string, level retryLevel, size string, subscription types.NamespacedName) string {
	return subjectOf(strings.Join([]string{prefix, level.String(), size}, "."), subscription)
}

func isDetached(subject string) bool { return strings.HasPrefix(subject, callPrefix+".") }

// waitingOf reads a subject of any form.
func waitingOf(subject string) (size string, subscription types.NamespacedName) {
	rest, ok := strings.CutPrefix(subject, delayPrefix+".")
	if !ok {
		rest, ok = strings.CutPrefix(subject, callPrefix+".")
	}
	if !ok {
		return "", subscriptionOf(oldRetryPrefix, subject)
	}
	_, rest, _ = strings.Cut(rest, ".")
	size, rest, _ = strings.Cut(rest, ".")
	namespace, name, _ := strings.Cut(rest, ".")
	return size, types.NamespacedName{Namespace: namespace, Name: name}
}

const kibibyte = 1 << 10

// sizeClass is the size in KiB, rounded up to a power of two, as it stands in the subject: so a count of the
// retries of a Subscription also gives their bytes, within a factor of two.
func sizeClass(bytes int) string {
	return strconv.Itoa(1 << bits.Len64(uint64(max(bytes-1, 0)/kibibyte)))
}

func classBytes(size string) uint64 {
	kibibytes, err := strconv.ParseUint(size, 10, 32)
	if err != nil {
		return kibibyte
	}
	return kibibytes * kibibyte
}

// storedSize is about what the stream keeps for a message.
func storedSize(header nats.Header, data []byte) int {
	size := len(data)
	for name, values := range header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	return size
}
