package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/e2e/rig"
)

// order is one load for the publisher of the benchmarks: a role of a rig, in a process of its own, so that its cost is not charged to
// the process that it measures. It writes HTTP itself on connections that stay open, which takes little of a small machine.
//
// Closed, each connection publishes as soon as its last event was answered. Open, events are published at a rate regardless of the
// answers, and each carries in its data the time at which it should have been sent.
type order struct {
	Target      string // host:port
	Prefix      string // of the events' ids, different for each order
	Type        string // of the events
	Connections int
	WarmUp      time.Duration // in which nothing is counted
	Duration    time.Duration
	PerSecond   int // 0 for as many as are answered
	// At a Door: how the sender proves who it is.
	Proof string
}

// The proofs: an HMAC of the body, or a client certificate.
const (
	proofHMAC        = "hmac"
	proofCertificate = "certificate"
)

// loadResult is what the publisher measured.
type loadResult struct {
	Answered  int // with 204
	Refused   int
	PerSecond float64
	P50, P99  float64 // milliseconds from request to answer
}

// Run sends the order to the publisher at the URL and waits for its result.
func (o order) Run(ctx context.Context, publisher string) (loadResult, error) {
	query := url.Values{
		"target": {o.Target}, "prefix": {o.Prefix}, "type": {o.Type}, "connections": {strconv.Itoa(o.Connections)},
		"warmup": {o.WarmUp.String()}, "duration": {o.Duration.String()}, "proof": {o.Proof}, "rate": {strconv.Itoa(o.PerSecond)},
	}
	var result loadResult
	if err := rig.GetJSON(ctx, publisher+"/run?"+query.Encode(), &result); err != nil {
		return loadResult{}, err
	}
	if result.Refused > 0 || result.Answered == 0 {
		return loadResult{}, fmt.Errorf("%d events were taken and %d refused", result.Answered, result.Refused)
	}
	return result, nil
}

func readOrder(query url.Values) (o order, err error) {
	o.Target, o.Prefix, o.Type, o.Proof = query.Get("target"), query.Get("prefix"), query.Get("type"), query.Get("proof")
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

// loadRole is the role. It takes orders over HTTP.
func loadRole(ctx context.Context, ready func(string), _ []string) error {
	return rig.Serve(ctx, 0, ready, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		order, err := readOrder(r.URL.Query())
		var result loadResult
		if err == nil {
			result, err = order.do(r.Context())
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		rig.WriteJSON(w, result)
	}))
}

// tally is what one connection has seen.
type tally struct {
	took    []time.Duration
	refused int
}

func (o order) do(ctx context.Context) (loadResult, error) {
	connections := make([]*connection, o.Connections)
	for i := range connections {
		c, err := dialPublisher(ctx, o)
		if err != nil {
			return loadResult{}, err
		}
		defer func() { _ = c.conn.Close() }()
		connections[i] = c
	}
	start := time.Now()
	counted, end := start.Add(o.WarmUp), start.Add(o.WarmUp+o.Duration)
	group, ctx := errgroup.WithContext(ctx)
	times := o.times(ctx, group, start, end)
	tallies := make([]tally, o.Connections)
	for i, c := range connections {
		group.Go(func() error { return c.work(o.Prefix+"-"+strconv.Itoa(i)+"-", times, end, counted, &tallies[i]) })
	}
	if err := group.Wait(); err != nil {
		return loadResult{}, err
	}
	var result loadResult
	var took []time.Duration
	for _, t := range tallies {
		took = append(took, t.took...)
		result.Refused += t.refused
	}
	slices.Sort(took)
	result.Answered, result.PerSecond = len(took), float64(len(took))/o.Duration.Seconds()
	result.P50, result.P99 = rig.Milliseconds(took, 50), rig.Milliseconds(took, 99)
	return result, nil
}

// times are when events are to be sent; nil: as soon as a connection is free.
func (o order) times(ctx context.Context, group *errgroup.Group, start, end time.Time) <-chan time.Time {
	if o.PerSecond == 0 {
		return nil
	}
	// Its buffer holds all, so that slow answers delay no event but their own.
	times := make(chan time.Time, int(end.Sub(start).Seconds()*float64(o.PerSecond))+1)
	group.Go(func() error {
		defer close(times)
		for i := 0; ; i++ {
			at := start.Add(time.Duration(i) * time.Second / time.Duration(o.PerSecond))
			if !at.Before(end) || ctx.Err() != nil {
				return nil
			}
			time.Sleep(time.Until(at))
			times <- at
		}
	})
	return times
}

func (c *connection) work(prefix string, times <-chan time.Time, end, counted time.Time, t *tally) error {
	for i := 0; ; i++ {
		at := time.Now()
		if times != nil {
			var more bool
			if at, more = <-times; !more {
				return nil
			}
		} else if !at.Before(end) {
			return nil
		}
		sent := time.Now()
		taken, err := c.publish(prefix+strconv.Itoa(i), at)
		switch {
		case err != nil:
			return err
		case !taken:
			t.refused++
		case !at.Before(counted):
			t.took = append(t.took, time.Since(sent))
		}
	}
}

const (
	dataSize      = 1024 // bytes of an event's data
	answerTimeout = 30 * time.Second
)

// connection publishes one event at a time.
type connection struct {
	conn    net.Conn
	answers *bufio.Reader
	head    string
	kind    string // of the event, in its data
	signs   hash.Hash
	data    []byte
	request []byte
}

func dialPublisher(ctx context.Context, o order) (*connection, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", o.Target)
	if err != nil {
		return nil, err
	}
	if o.Proof != "" {
		return dialDoor(ctx, conn, o)
	}
	head := "POST /publish HTTP/1.1\r\nHost: " + o.Target + "\r\nContent-Type: application/json\r\n" +
		"Content-Length: " + strconv.Itoa(dataSize) + "\r\n" +
		"Ce-Specversion: 1.0\r\nCe-Source: bench\r\nCe-Type: " + o.Type + "\r\nCe-Id: "
	return &connection{conn: conn, answers: bufio.NewReader(conn), head: head, kind: o.Type}, nil
}

// publish returns whether the event was taken. Its data begin with the time.
func (c *connection) publish(id string, at time.Time) (bool, error) {
	c.data = append(append(append(c.data[:0], `{"at":`...), strconv.FormatInt(at.UnixNano(), 10)...), `,"type":"`+c.kind+`","text":"`...)
	c.data = append(append(c.data, strings.Repeat("x", dataSize-len(c.data)-len(`"}`))...), `"}`...)
	c.request = append(append(append(c.request[:0], c.head...), id...), "\r\n"...)
	if c.signs != nil {
		c.signs.Reset()
		_, _ = c.signs.Write(c.data)
		c.request = append(hex.AppendEncode(append(c.request, doorHeader+": "...), c.signs.Sum(nil)), "\r\n"...)
	}
	c.request = append(append(c.request, "\r\n"...), c.data...)
	_ = c.conn.SetDeadline(time.Now().Add(answerTimeout))
	if _, err := c.conn.Write(c.request); err != nil {
		return false, fmt.Errorf("publish: %w", err)
	}
	response, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		return false, fmt.Errorf("publish: %w", err)
	}
	_, err = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return response.StatusCode == http.StatusNoContent, err
}
