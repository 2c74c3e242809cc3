package broker

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// idlePrefix begins the subjects of announcements. The namespace and the name of the Function follow.
	idlePrefix = "rouse.idle."
	// maxIdlePending bounds the announcements that wait. Further ones are dropped: each is repeated.
	maxIdlePending = 4096
)

// AnnounceIdle says that a Function has nothing to do. Nobody has to listen, and nothing is stored: repeat it for as long
// as it is true.
func (c *Conn) AnnounceIdle(function types.NamespacedName) error {
	if !isLabel(function.Namespace) || !isLabel(function.Name) {
		return fmt.Errorf("announce that %q is idle: its namespace or its name is no part of a subject", function)
	}
	if err := c.nc.Publish(idlePrefix+function.Namespace+"."+function.Name, nil); err != nil {
		return fmt.Errorf("announce that %q is idle: %w", function, mapError(err))
	}
	return nil
}

// WatchIdle calls apply with each Function that is announced to be idle, one call at a time, until ctx ends. It goes on
// after a reconnect; what is announced meanwhile is not reported. Anybody who may publish may announce anything.
func (c *Conn) WatchIdle(ctx context.Context, apply func(types.NamespacedName)) error {
	messages := make(chan *nats.Msg, maxIdlePending)
	subscription, err := c.nc.ChanSubscribe(idlePrefix+"*.*", messages)
	if err != nil {
		return fmt.Errorf("listen for idle Functions: %w", mapError(err))
	}
	defer func() { _ = subscription.Unsubscribe() }() // fails only when the connection is gone
	for {
		select {
		case <-ctx.Done():
			return nil
		case message := <-messages:
			if function, ok := idleFunction(message.Subject); ok {
				apply(function)
			}
		}
	}
}

// idleFunction reads the Function from the subject of an announcement.
func idleFunction(subject string) (types.NamespacedName, bool) {
	rest, found := strings.CutPrefix(subject, idlePrefix)
	namespace, name, pair := strings.Cut(rest, ".")
	return types.NamespacedName{Namespace: namespace, Name: name}, found && pair && isLabel(namespace) && isLabel(name)
}

// isLabel reports whether a namespace or a Function may have this name, which then is one token of a subject.
func isLabel(text string) bool { return len(validation.IsDNS1123Label(text)) == 0 }
