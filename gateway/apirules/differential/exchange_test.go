package differential

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// restAfter is how slow a body is that comes slowly.
	restAfter = 300 * time.Millisecond
	// exchangeTimeout is beyond what any answer takes.
	exchangeTimeout = time.Minute
	// atATime has the slow answers wait together.
	atATime = 8
)

// reply is what came back, as far as it has to be alike.
type reply struct {
	status int
	header map[string]string
	body   string
	// whole says that the body ended as it had to.
	whole bool
	// behind is what came behind the last answer of a connection.
	behind string
}

// untold are the headers of answers that need not be alike: those of the transport, and those that each gateway names itself by.
func untold(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "x-envoy-") || slices.Contains([]string{
		"date", "server", "x-request-id", "connection", "keep-alive", "content-length", "transfer-encoding",
	}, name)
}

// exchangeAll sends all requests, some at a time, and has the replies in their order.
func exchangeAll(t *testing.T, address string, requests []request) []reply {
	t.Helper()
	replies := make([]reply, len(requests))
	next := make(chan int)
	var senders sync.WaitGroup
	for range atATime {
		senders.Go(func() {
			for i := range next {
				replies[i] = exchange(t.Context(), address, requests[i])
			}
		})
	}
	for i := range requests {
		next <- i
	}
	close(next)
	senders.Wait()
	return replies
}

// exchange sends a request as it is and reads the answer. Without one, the status is 0 and the body says why.
func exchange(ctx context.Context, address string, sent request) reply {
	dialer := net.Dialer{Timeout: exchangeTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return reply{body: err.Error()}
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(exchangeTimeout)); err != nil {
		return reply{body: err.Error()}
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	sending.Go(func() {
		_, err := io.WriteString(conn, sent.text) // it may be answered before it is read
		if err == nil && sent.rest != "" {
			time.Sleep(restAfter)
			_, _ = io.WriteString(conn, sent.rest)
		}
	})

	method, _, _ := strings.Cut(sent.text, " ")
	from := bufio.NewReader(conn)
	response, err := http.ReadResponse(from, &http.Request{Method: method})
	for err == nil && response.StatusCode == http.StatusContinue {
		response, err = http.ReadResponse(from, &http.Request{Method: method})
	}
	if err != nil {
		return reply{body: err.Error()}
	}
	defer func() { _ = response.Body.Close() }()
	defer func() { _ = conn.Close() }() // before what is still being sent is waited for
	got := read(response, from)
	if sent.last {
		behind, err := io.ReadAll(from)
		if got.behind = string(behind); errors.Is(err, os.ErrDeadlineExceeded) {
			got.behind += " and the connection goes on"
		}
	}
	return got
}

func read(response *http.Response, from io.Reader) reply {
	got := reply{status: response.StatusCode, header: map[string]string{}}
	body := io.Reader(response.Body)
	if response.StatusCode == http.StatusSwitchingProtocols {
		body = from
	}
	text, err := io.ReadAll(body)
	got.body, got.whole = string(text), err == nil
	for name, values := range response.Header {
		if !untold(name) {
			slices.Sort(values)
			got.header[name] = strings.Join(values, " | ")
		}
	}
	return got
}

// parts lists what is not alike in two replies.
func parts(a, b reply) []string {
	var found []string
	note := func(part string, equal bool) {
		if !equal {
			found = append(found, part)
		}
	}
	note("status", a.status == b.status)
	note("body", a.body == b.body)
	note("end", a.whole == b.whole)
	note("behind", a.behind == "" && b.behind == "")
	for name := range a.header {
		note(name, a.header[name] == b.header[name])
	}
	for name := range b.header {
		if _, both := a.header[name]; !both {
			note(name, false)
		}
	}
	slices.Sort(found)
	return found
}
