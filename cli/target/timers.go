package target

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Schedule is a Schedule and what has become of it.
type Schedule struct {
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	When      string     `json:"when"`
	Type      string     `json:"type"`
	Source    string     `json:"source"`
	Problem   string     `json:"problem,omitempty"`
	Last      *time.Time `json:"last,omitempty"`
	Next      *time.Time `json:"next,omitempty"`
	Published int64      `json:"published"`
	Missed    int64      `json:"missed"`
}

// Schedules returns the Schedules of a namespace, or of all for "".
func (c *Client) Schedules(ctx context.Context, namespace string) ([]Schedule, error) {
	var answer struct {
		Schedules []Schedule `json:"schedules"`
	}
	err := c.read(ctx, "/v1/schedules", inNamespace(namespace), &answer)
	return answer.Schedules, err
}

// RunSchedule publishes the event of a Schedule now, and returns the event's id.
func (c *Client) RunSchedule(ctx context.Context, namespace, name string) (id string, err error) {
	var answer struct {
		ID string `json:"id"`
	}
	err = c.exchange(ctx, http.MethodPost, "/v1/schedules/run", nil, named{Namespace: namespace, Name: name}, &answer)
	return answer.ID, err
}

// Delayed is an event that is to go on later.
type Delayed struct {
	ID        string    `json:"id"`
	Due       time.Time `json:"due"`
	Namespace string    `json:"namespace,omitempty"`
	Source    string    `json:"source,omitempty"`
	Type      string    `json:"type,omitempty"`
	EventID   string    `json:"eventID,omitempty"`
}

// Delayed returns the next events that are to go on later, of a namespace or of all for "", and how many there are.
func (c *Client) Delayed(ctx context.Context, namespace string, limit int) (next []Delayed, total int, err error) {
	var answer struct {
		Delayed []Delayed `json:"delayed"`
		Total   int       `json:"total"`
	}
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	maps.Copy(query, inNamespace(namespace))
	err = c.read(ctx, "/v1/delayed", query, &answer)
	return answer.Delayed, answer.Total, err
}

// CancelDelayed deletes one of them.
func (c *Client) CancelDelayed(ctx context.Context, namespace, id string) error {
	return c.exchange(ctx, http.MethodPost, "/v1/delayed/cancel", nil, named{Namespace: namespace, ID: id}, &struct{}{})
}

// named is the body of a request about one object.
type named struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name,omitempty"`
	ID        string `json:"id,omitempty"`
}
