package rig

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	host       = "127.0.0.1"
	syncAlways = "always"
	syncUsual  = "2m" // nats-server's default
)

// NATS configures a nats-server.
type NATS struct {
	Name   string
	Port   int
	Route  int    // port for the other servers, 0 for a single server
	Routes []int  // of all servers
	Store  string // a directory; empty: one of the rig's
	Sync   string // nats-server's sync_interval; empty: the chart's for a single server, nats-server's in a cluster
}

// StartNATS runs a nats-server. Its store remains after its end, so that it can be restarted.
func (r *Rig) StartNATS(n NATS) (*Process, error) {
	routes := make([]string, len(n.Routes))
	for i, port := range n.Routes {
		routes[i] = strconv.Itoa(port)
	}
	return r.Start("nats", "-name", n.Name, "-store", cmp.Or(n.Store, filepath.Join(r.dir, n.Name)), "-port", strconv.Itoa(n.Port),
		"-sync", n.sync(), "-route", strconv.Itoa(n.Route), "-routes", strings.Join(routes, ","))
}

// sync returns the sync_interval. NATS_SYNC overrides it, to measure its cost.
func (n NATS) sync() string {
	usual := syncAlways
	if n.Route > 0 {
		usual = syncUsual
	}
	return cmp.Or(n.Sync, os.Getenv("NATS_SYNC"), usual)
}

func natsRole(ctx context.Context, ready func(string), args []string) error {
	flags := flag.NewFlagSet("nats", flag.ContinueOnError)
	options := server.Options{Host: host, JetStream: true, NoLog: true, NoSigs: true, MaxPayload: 1 << 20}
	flags.StringVar(&options.ServerName, "name", "nats", "")
	flags.StringVar(&options.StoreDir, "store", "", "")
	flags.IntVar(&options.Port, "port", 0, "")
	flags.Func("sync", "", func(text string) (err error) {
		if options.SyncAlways = text == syncAlways; !options.SyncAlways {
			options.SyncInterval, err = time.ParseDuration(text)
		}
		return err
	})
	route := flags.Int("route", 0, "")
	routes := flags.String("routes", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *route > 0 {
		options.Cluster = server.ClusterOpts{Name: "rig", Host: host, Port: *route}
		for port := range strings.SplitSeq(*routes, ",") {
			options.Routes = append(options.Routes, &url.URL{Scheme: "nats-route", Host: net.JoinHostPort(host, port)})
		}
	}
	if options.Port == 0 {
		options.Port = server.RANDOM_PORT
	}
	running, err := server.NewServer(&options)
	if err != nil {
		return fmt.Errorf("configure nats-server: %w", err)
	}
	running.Start()
	if !running.ReadyForConnections(startBound) {
		return errors.New("nats-server takes no connections")
	}
	ready(running.ClientURL())
	<-ctx.Done()
	running.Shutdown()
	running.WaitForShutdown()
	return nil
}

// Ports returns n free ports. Another process may take them before they are used: a cluster's servers need each other's
// ports before the first of them listens.
func Ports(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			return nil, fmt.Errorf("find a port: %w", err)
		}
		defer func() { _ = listener.Close() }()
		ports[i] = listener.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// Serve serves requests on a port, 0 for any, until ctx ends.
func Serve(ctx context.Context, port int, ready func(string), handler http.Handler) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	ready("http://" + listener.Addr().String())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); ctx.Err() == nil {
		return err
	}
	return nil
}

// GetJSON requests a URL of a role and decodes the response, unless answer is nil.
func GetJSON(ctx context.Context, url string, answer any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("ask %s: %s", url, response.Status)
	}
	if answer == nil {
		return nil
	}
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	return nil
}

// WriteJSON writes the response to GetJSON.
func WriteJSON(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // fails when the client has disconnected
}
