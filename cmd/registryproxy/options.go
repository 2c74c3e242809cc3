package main

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/rouse-run/rouse/registryproxy"
)

type options struct {
	proxy                          registryproxy.Options
	store                          registryproxy.StoreOptions
	address, metricsAddress, login string
}

func defaultOptions() *options {
	return &options{proxy: registryproxy.DefaultOptions(), store: registryproxy.DefaultStoreOptions(), address: ":5000", metricsAddress: ":9090"}
}

// BindFlags adds all flags of the command.
func (o *options) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.address, "address", o.address, "address of the registry as others see it")
	fs.StringVar(&o.metricsAddress, "metrics-address", o.metricsAddress, "address of /metrics")
	fs.StringVar(&o.login, "login", o.login, "directory with the files username, password and accountKey")
	o.proxy.BindFlags(fs)
	o.store.BindFlags(fs)
}

// Validate reports everything that is wrong.
func (o *options) Validate() error {
	problems := errors.Join(o.proxy.Validate(), o.store.Validate())
	if o.login == "" {
		return errors.Join(errors.New("--login: must be a directory"), problems)
	}
	return problems
}
