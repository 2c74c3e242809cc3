package bridge

import "context"

// Idle tells whether no Subscription has anything to deliver.
func (c *Client) Idle(ctx context.Context) (bool, error) {
	var answer struct {
		Subscriptions []struct {
			Consumer       bool   `json:"consumer"`
			Backlog        uint64 `json:"backlog"`
			AckPending     uint64 `json:"ackPending"`
			WaitingRetries uint64 `json:"waitingRetries"`
		} `json:"subscriptions"`
	}
	if err := c.read(ctx, "/v1/subscriptions", nil, &answer); err != nil {
		return false, err
	}
	for _, s := range answer.Subscriptions {
		if s.Consumer && s.Backlog+s.AckPending+s.WaitingRetries > 0 {
			return false, nil
		}
	}
	return true, nil
}
