package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	hostileNamespace = "hostile"
	hostileSource    = "hostile"
	// deadSink is a Subscription whose Service has no endpoints.
	deadSink = "dead"
	// lowestPriority is the lowest priority of a process.
	lowestPriority = 19
)

// attack is a Subscription of the hostile tenant with the events published to it.
type attack struct {
	name      string
	perSecond int
	data      string
	filter    string
	delivery  routing.Delivery
}

// attacks returns attacks by Subscriptions and events of one namespace.
func attacks() []attack {
	long, list := strings.Repeat("x", 40_000), strings.TrimSuffix(strings.Repeat("1,", 17_000), ",")
	return []attack{
		{name: "later", perSecond: 200, data: `{}`, delivery: routing.Delivery{
			MaxAttempts: 1000, Backoff: routing.Backoff{Delay: time.Hour, MaxDelay: time.Hour},
		}},
		{name: deadSink, perSecond: 40, data: `{"text":"` + long + `"}`},
		{name: "costly", perSecond: 20, data: `{"list":[` + list + `]}`, filter: "data.list.all(a, data.list.all(b, data.list.all(c, a == b)))"},
		{name: "headers", perSecond: 20, data: `{}`},
	}
}

func (a attack) route() routing.Route {
	route := rig.Route(hostileNamespace, a.name, hostileSource, a.name+".v1", 1_000_000)
	route.Delivery = a.delivery
	if a.filter != "" {
		route.Filter = &eventingv1alpha2.Filter{CEL: a.filter}
	}
	return route
}

// startHostile adds the hostile tenant's Subscriptions and its sink to the fixture.
func (s *stage) startHostile() error {
	sink, err := s.rig.Start("hostile-sink")
	if err != nil {
		return err
	}
	s.hostile = sink
	for _, a := range attacks() {
		route := a.route()
		s.fixture.Routes = append(s.fixture.Routes, route)
		if a.name != deadSink {
			s.fixture.Endpoints[route.Service.String()] = []string{strings.TrimPrefix(sink.Where, "http://")}
		}
	}
	return nil
}

// attack starts the attack once the bridges run.
func (s *stage) attack() (*rig.Process, error) {
	ports := make([]string, len(s.bridges))
	for i, b := range s.bridges {
		ports[i] = strconv.Itoa(b.port)
	}
	return s.rig.Start("hostile", ports...)
}

// hostileSinkRole rejects every event, with the maximum number of response headers.
func hostileSinkRole(ctx context.Context, ready func(string), _ []string) error {
	long := strings.Repeat("x", 8<<10)
	return rig.Serve(ctx, 0, ready, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Ce-Type"), "headers") {
			http.Error(w, "later", http.StatusServiceUnavailable)
			return
		}
		for i := range 120 {
			w.Header().Set("X-Long-"+strconv.Itoa(i), long)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
}

// hostileRole attacks the bridges at the ports until ctx ends.
func hostileRole(ctx context.Context, ready func(string), ports []string) error {
	if len(ports) == 0 {
		return errors.New("there is no bridge to attack")
	}
	if err := lowerPriority(); err != nil {
		return err
	}
	ready("")
	h := &hostile{ports: ports}
	for _, a := range attacks() {
		h.running.Go(func() { h.publish(ctx, a) })
	}
	for i := range 64 {
		address := "127.0.0.1:" + ports[i%len(ports)]
		h.running.Go(func() { h.hold(ctx, address, silent) })
		h.running.Go(func() { h.hold(ctx, address, deaf) })
	}
	for i := range 4 {
		address := "127.0.0.1:" + ports[i%len(ports)]
		h.running.Go(func() { h.hold(ctx, address, verbose) })
	}
	h.running.Wait()
	return nil
}

// lowerPriority prevents this process from taking processor time from the bridges on the same machine: only its
// requests should affect them. Threads inherit their priority, so it sets that of all existing ones.
func lowerPriority() error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("lower the priority: %w", err)
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err == nil {
			err = syscall.Setpriority(syscall.PRIO_PROCESS, id, lowestPriority)
		}
		if err != nil {
			return fmt.Errorf("lower the priority: %w", err)
		}
	}
	return nil
}

// The requests of the hostile tenant's connections.
const (
	// silent announces an event but does not send it.
	silent = "POST /publish HTTP/1.1\r\nHost: bridge\r\nContent-Type: application/cloudevents+json\r\nContent-Length: 60000\r\n\r\n{"
	// deaf is a request of a client that reads no response.
	deaf = "POST /publish HTTP/1.1\r\nHost: bridge\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
)

// verbose is a request with a very large number of headers.
var verbose = "POST /publish HTTP/1.1\r\nHost: bridge\r\n" + strings.Repeat("a:\r\n", 200_000)

const (
	hostileTimeout = 5 * time.Second
	hostileAtATime = 16
	mostHeld       = 64 << 10 // on one connection
)

// hostile is the process of a tenant that tries to harm others.
type hostile struct {
	ports   []string
	running sync.WaitGroup
}

// publish sends the events of an attack at its rate, as far as the bridges allow.
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
			continue // the bridges lag behind
		}
		sent.Go(func() {
			defer func() { <-slots }()
			h.send(ctx, client, h.ports[number%len(h.ports)], a.name, number, a.data)
		})
	}
}

func (h *hostile) send(ctx context.Context, client *http.Client, port, name string, number int, data string) {
	event := rig.Event{ID: name + "-" + strconv.Itoa(number), Source: hostileSource, Type: name + ".v1", Data: data}
	_, _, _ = event.Publish(ctx, client, "http://127.0.0.1:"+port+"/publish") // errors are expected
}

// hold sends a text on a connection repeatedly, up to mostHeld bytes, without reading, and reconnects when the bridge
// closes the connection.
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

// awaitClose waits until the bridge has closed the connection. It detects this by a write per second, without reading.
func awaitClose(ctx context.Context, conn net.Conn) {
	for err := error(nil); err == nil && ctx.Err() == nil; {
		pause(ctx, time.Second)
		_, err = io.WriteString(conn, " ")
	}
}
