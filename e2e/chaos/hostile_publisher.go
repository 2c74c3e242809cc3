package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	hostileTimeout = 5 * time.Second
	hostileAtATime = 16
	mostHeld       = 64 << 10 // on one connection
)

// hostile is the process of a tenant that wants to harm others.
type hostile struct {
	ports   []string
	running sync.WaitGroup
}

// publish sends the events of an attack, as fast as it says and the bridges allow.
func (h *hostile) publish(ctx context.Context, a attack) {
	client := &http.Client{Timeout: hostileTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: hostileAtATime}}
	defer client.CloseIdleConnections()
	var sent sync.WaitGroup
	defer sent.Wait()
	slots := make(chan struct{}, hostileAtATime)
	ticker := time.NewTicker(time.Second / time.Duration(a.perSecond))
	defer ticker.Stop()
	for number := 0; ctx.Err() == nil; number++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		select {
		case slots <- struct{}{}:
		default:
			continue // the bridges are behind
		}
		sent.Go(func() {
			defer func() { <-slots }()
			h.send(ctx, client, h.ports[number%len(h.ports)], a.name, number, a.data)
		})
	}
}

func (h *hostile) send(ctx context.Context, client *http.Client, port, name string, number int, data string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:"+port+"/publish", strings.NewReader(data))
	if err != nil {
		return
	}
	for header, value := range map[string]string{
		"Ce-Specversion": "1.0", "Ce-Id": name + "-" + strconv.Itoa(number), "Ce-Source": hostileSource,
		"Ce-Type": name + ".v1", "Content-Type": "application/json",
	} {
		request.Header.Set(header, value)
	}
	response, err := client.Do(request)
	if err != nil {
		return // failed events do not matter to it
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
}

// hold sends a text on a connection, again and again up to mostHeld bytes, reads nothing, and begins again when the
// bridge closes the connection.
func (h *hostile) hold(ctx context.Context, address, text string) {
	for ctx.Err() == nil {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			pause(ctx, 200*time.Millisecond)
			continue
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		for sent := 0; err == nil && (sent == 0 || sent+len(text) <= mostHeld); sent += len(text) {
			_, err = io.WriteString(conn, text)
		}
		if err == nil {
			awaitClose(ctx, conn)
		}
		stop()
		_ = conn.Close()
		pause(ctx, 50*time.Millisecond)
	}
}

// awaitClose waits until the bridge has closed the connection. It writes once a second to find out without a read.
func awaitClose(ctx context.Context, conn net.Conn) {
	for err := error(nil); err == nil && ctx.Err() == nil; {
		pause(ctx, time.Second)
		_, err = io.WriteString(conn, " ")
	}
}
