package load

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/rouse-run/rouse/e2e/rig"
)

// Order is what a publisher is to do.
type Order struct {
	Target      string // host:port
	Prefix      string // of the events' ids, different for each order
	Type        string // of the events
	Connections int
	WarmUp      time.Duration // in which nothing is counted
	Duration    time.Duration
	PerSecond   int // 0 for as many as are answered
}

// Result is what came of it.
type Result struct {
	Answered  int // with 204
	Refused   int
	PerSecond float64
	P50, P99  float64 // milliseconds from request to answer
}

// Run lets the publisher at the URL do it.
func (o Order) Run(ctx context.Context, publisher string) (Result, error) {
	query := url.Values{
		"target": {o.Target}, "prefix": {o.Prefix}, "type": {o.Type}, "connections": {strconv.Itoa(o.Connections)},
		"warmup": {o.WarmUp.String()}, "duration": {o.Duration.String()}, "rate": {strconv.Itoa(o.PerSecond)},
	}
	var result Result
	if err := rig.GetJSON(ctx, publisher+"/run?"+query.Encode(), &result); err != nil {
		return Result{}, err
	}
	if result.Refused > 0 || result.Answered == 0 {
		return Result{}, fmt.Errorf("%d events were taken and %d refused", result.Answered, result.Refused)
	}
	return result, nil
}

func read(query url.Values) (o Order, err error) {
	o.Target, o.Prefix, o.Type = query.Get("target"), query.Get("prefix"), query.Get("type")
	if o.Connections, err = strconv.Atoi(query.Get("connections")); err != nil {
		return o, err
	}
	if o.PerSecond, err = strconv.Atoi(query.Get("rate")); err != nil {
		return o, err
	}
	if o.WarmUp, err = time.ParseDuration(query.Get("warmup")); err != nil {
		return o, err
	}
	o.Duration, err = time.ParseDuration(query.Get("duration"))
	return o, err
}
