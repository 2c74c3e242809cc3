package target

import (
	"context"
	"errors"
	"net/url"
)

// Work is what one Subscription has to do.
type Work struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Consumer is false when there are only leftovers of a Subscription.
	Consumer       bool   `json:"consumer"`
	Backlog        uint64 `json:"backlog"`
	AckPending     uint64 `json:"ackPending"`
	WaitingRetries uint64 `json:"waitingRetries"`
	DeadLetters    uint64 `json:"deadLetters"`
}

// Work is what each Subscription of a namespace has to do, or of all for "".
func (c *Client) Work(ctx context.Context, namespace string) ([]Work, error) {
	var answer struct {
		Subscriptions []Work `json:"subscriptions"`
	}
	err := c.read(ctx, "/v1/subscriptions", inNamespace(namespace), &answer)
	return answer.Subscriptions, err
}

// inNamespace is the query for one namespace, or for all.
func inNamespace(namespace string) url.Values {
	if namespace == "" {
		return nil
	}
	return url.Values{"namespace": {namespace}}
}

// Idle reports whether no Subscription has anything to deliver, as far as the user may know: in all namespaces, or within one.
func (c *Client) Idle(ctx context.Context, within string) (bool, error) {
	all, err := c.Work(ctx, "")
	if errors.Is(err, errForbidden) && within != "" {
		all, err = c.Work(ctx, within)
	}
	if err != nil {
		return false, err
	}
	for _, w := range all {
		if w.Consumer && w.Backlog+w.AckPending+w.WaitingRetries > 0 {
			return false, nil
		}
	}
	return true, nil
}
