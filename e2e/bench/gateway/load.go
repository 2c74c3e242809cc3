package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/e2e/rig"
)

// Kinds of requests, which are their paths.
const (
	get   = "/get"
	post  = "/post"
	known = "/known"
	fresh = "/fresh"
)

const (
	connections   = 32
	bodySize      = 1 << 10
	answerTimeout = 30 * time.Second
)

// order is one load for the clients, who send the next request when the last one was answered.
type order struct {
	Target   string // host:port
	Kind     string
	Tokens   string // the file with them
	Duration time.Duration
}

// result is what the clients have seen.
type result struct {
	Answered            int
	PerSecond, P50, P99 float64
}

// run sends the order to the clients and waits for their result.
func (o order) run(ctx context.Context, clients string) (result, error) {
	query := url.Values{"target": {o.Target}, "kind": {o.Kind}, "tokens": {o.Tokens}, "duration": {o.Duration.String()}}
	var seen result
	err := rig.GetJSON(ctx, clients+"/run?"+query.Encode(), &seen)
	return seen, err
}

// loadRole is the clients. It writes HTTP itself, which takes little of a small machine.
func loadRole(ctx context.Context, ready func(string), _ []string) error {
	next := &atomic.Int64{} // token
	return rig.Serve(ctx, 0, ready, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		duration, err := time.ParseDuration(query.Get("duration"))
		var tokens []string
		if err == nil {
			tokens, err = readTokens(query.Get("tokens"))
		}
		var seen result
		if err == nil {
			o := order{Target: query.Get("target"), Kind: query.Get("kind"), Duration: duration}
			seen, err = o.do(r.Context(), tokens, next)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		rig.WriteJSON(w, seen)
	}))
}

func readTokens(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	return strings.Fields(string(text)), err
}

func (o order) do(ctx context.Context, tokens []string, next *atomic.Int64) (result, error) {
	group, ctx := errgroup.WithContext(ctx)
	took := make([][]time.Duration, connections)
	end := time.Now().Add(o.Duration)
	for i := range connections {
		group.Go(func() error {
			c, err := dialTarget(ctx, o)
			if err != nil {
				return err
			}
			defer func() { _ = c.conn.Close() }()
			for began := time.Now(); began.Before(end); {
				token := ""
				switch o.Kind {
				case known:
					token = tokens[i]
				case fresh:
					token = tokens[int(next.Add(1))%len(tokens)]
				}
				if err := c.exchange(token); err != nil {
					return err
				}
				now := time.Now()
				took[i] = append(took[i], now.Sub(began))
				began = now
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return result{}, err
	}
	all := slices.Concat(took...)
	slices.Sort(all)
	return result{
		Answered: len(all), PerSecond: float64(len(all)) / o.Duration.Seconds(), P50: rig.Milliseconds(all, 50), P99: rig.Milliseconds(all, 99),
	}, nil
}

// client sends one request at a time.
type client struct {
	conn    net.Conn
	answers *bufio.Reader
	head    string
	body    string
	request []byte
}

func dialTarget(ctx context.Context, o order) (*client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", o.Target)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(o.Duration + answerTimeout))
	c := &client{conn: conn, answers: bufio.NewReader(conn)}
	method := http.MethodGet
	if o.Kind == post {
		method, c.body = http.MethodPost, strings.Repeat("x", bodySize)
	}
	c.head = method + " " + o.Kind + " HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: bench\r\nAccept: */*\r\n"
	if c.body != "" {
		c.head += "Content-Type: text/plain\r\nContent-Length: " + strconv.Itoa(bodySize) + "\r\n"
	}
	return c, nil
}

func (c *client) exchange(token string) error {
	c.request = append(c.request[:0], c.head...)
	if token != "" {
		c.request = append(append(append(c.request, "Authorization: Bearer "...), token...), "\r\n"...)
	}
	c.request = append(append(c.request, "\r\n"...), c.body...)
	if _, err := c.conn.Write(c.request); err != nil {
		return fmt.Errorf("send a request: %w", err)
	}
	return c.answer()
}

var errLength = errors.New("read an answer: it has no Content-Length")

// answer reads an answer of a known length.
func (c *client) answer() error {
	length := -1
	for first := true; ; first = false {
		line, err := c.answers.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("read an answer: %w", err)
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case first && !bytes.Contains(line, []byte(" 200 ")):
			rest, _ := c.answers.Peek(c.answers.Buffered())
			return fmt.Errorf("%s: %s", line, rest)
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return fmt.Errorf("read an answer: %w", err)
			}
		}
	}
	if length < 0 {
		return errLength
	}
	_, err := io.CopyN(io.Discard, c.answers, int64(length))
	return err
}
