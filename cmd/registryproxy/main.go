// Command registryproxy is the proxy of the chart's registry, in the same pod. It lets each namespace read and write only
// the repositories of its own Functions.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/registryproxy"
)

const (
	// transferTimeout bounds the transfer of one layer.
	transferTimeout = 15 * time.Minute
	// readerTimeout bounds how long a client may leave a write unread.
	readerTimeout = time.Minute
)

func main() {
	o := defaultOptions()
	os.Exit(daemon.Main("registryproxy", os.Args[1:], o, func(ctx context.Context, log logr.Logger) error { return run(ctx, o, log) }))
}

func run(ctx context.Context, o *options, log logr.Logger) error {
	metrics := daemon.NewRegistry()
	deps := registryproxy.Deps{Registry: metrics, Log: log}
	for file, value := range map[string]*string{"username": &deps.Username, "password": &deps.Password} {
		text, err := o.read(file)
		if err != nil {
			return err
		}
		*value = text
	}
	key, err := o.read("accountKey")
	if err != nil {
		return err
	}
	deps.Key = []byte(key)
	var ground []func(context.Context) error
	if o.store.Directory != "" {
		swept := registryproxy.NewStore(o.store, metrics, log)
		deps.Store, ground = swept, append(ground, swept.Start)
	}
	proxy, err := registryproxy.New(deps, o.proxy)
	if err != nil {
		return fmt.Errorf("set up the proxy: %w", err)
	}
	serve := func(ctx context.Context) error {
		return daemon.Serve(ctx, daemon.Server{
			Name: "registry", Addr: o.address, Handler: proxy, ReadTimeout: transferTimeout, WriteTimeout: readerTimeout,
		}, log)
	}
	return daemon.RunOn(ctx, serve, append(ground, func(ctx context.Context) error {
		return daemon.Serve(ctx, daemon.Server{
			Name: "metrics", Addr: o.metricsAddress, Handler: promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}),
		}, log)
	})...)
}

// read returns a value of the Secret, which must not be empty.
func (o *options) read(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(o.login, name)) //nolint:gosec // the chart's own directory
	if err != nil {
		return "", fmt.Errorf("read the registry's login: %w", err)
	}
	if value := strings.TrimSpace(string(text)); value != "" {
		return value, nil
	}
	return "", fmt.Errorf("read the registry's login: %s is empty", filepath.Join(o.login, name))
}

type options struct {
	proxy                          registryproxy.Options
	store                          registryproxy.StoreOptions
	address, metricsAddress, login string
}

func defaultOptions() *options {
	return &options{proxy: registryproxy.DefaultOptions(), store: registryproxy.DefaultStoreOptions(), address: ":5000", metricsAddress: ":9090"}
}

// Flags implements flags.Options.
func (o *options) Flags(fs *flags.Set) {
	fs.String(&o.address, "address", "address of the registry as others see it")
	fs.String(&o.metricsAddress, "metrics-address", "address of /metrics")
	fs.String(&o.login, "login", "directory with the files username, password and accountKey").NotEmpty()
	fs.Add(&o.proxy, &o.store)
}
