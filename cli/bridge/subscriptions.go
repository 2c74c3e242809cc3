package bridge

import "context"

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

// Work is what each Subscription has to do.
func (c *Client) Work(ctx context.Context) ([]Work, error) {
	var answer struct {
		Subscriptions []Work `json:"subscriptions"`
	}
	err := c.read(ctx, "/v1/subscriptions", nil, &answer)
	return answer.Subscriptions, err
}

// Idle reports whether no Subscription has anything to deliver.
func (c *Client) Idle(ctx context.Context) (bool, error) {
	all, err := c.Work(ctx)
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
