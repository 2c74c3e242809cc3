package load

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	size    = 1024 // bytes of an event's data
	timeout = 30 * time.Second
)

// connection publishes one event at a time.
type connection struct {
	conn    net.Conn
	answers *bufio.Reader
	head    string
	request []byte
}

func dial(ctx context.Context, o Order) (*connection, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", o.Target)
	if err != nil {
		return nil, err
	}
	head := "POST /publish HTTP/1.1\r\nHost: " + o.Target + "\r\nContent-Type: application/json\r\n" +
		"Content-Length: " + strconv.Itoa(size) + "\r\n" +
		"Ce-Specversion: 1.0\r\nCe-Source: bench\r\nCe-Type: " + o.Type + "\r\nCe-Id: "
	return &connection{conn: conn, answers: bufio.NewReader(conn), head: head}, nil
}

// publish returns whether the event was taken. Its data begin with the time.
func (c *connection) publish(id string, at time.Time) (bool, error) {
	data := `{"at":` + strconv.FormatInt(at.UnixNano(), 10) + `,"text":"`
	c.request = append(append(append(c.request[:0], c.head...), id...), "\r\n\r\n"...)
	c.request = append(c.request, data...)
	c.request = append(c.request, strings.Repeat("x", size-len(data)-len(`"}`))...)
	c.request = append(c.request, `"}`...)
	_ = c.conn.SetDeadline(time.Now().Add(timeout))
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
