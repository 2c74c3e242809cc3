package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/rouse-run/rouse/gateway"
	"github.com/rouse-run/rouse/gateway/apirules"
	"github.com/rouse-run/rouse/internal/kube/settingswatch"
	"github.com/rouse-run/rouse/internal/kube/watch"
)

type options struct {
	gateway         gateway.Options
	apiRules        watch.APIRuleSettings
	authorizersFile string
	settings        settingswatch.Options
}

// BindFlags implements daemon.Options.
func (o *options) BindFlags(fs *pflag.FlagSet) {
	o.gateway.BindFlags(fs)
	o.apiRules.BindFlags(fs)
	o.settings.BindFlags(fs)
	fs.StringVar(&o.authorizersFile, "authorizers-file", o.authorizersFile, "list of the authorizers that extAuth of APIRules may name, as JSON")
}

// Validate implements daemon.Options.
func (o *options) Validate() error {
	return errors.Join(o.gateway.Validate(), o.apiRules.Validate(), o.settings.Validate())
}

// readAuthorizers makes those of the file known.
func (o *options) readAuthorizers() error {
	if o.authorizersFile == "" {
		return nil
	}
	text, err := os.ReadFile(o.authorizersFile)
	if err != nil {
		return fmt.Errorf("--authorizers-file: %w", err)
	}
	if o.gateway.APIRules.Authorizers, err = apirules.ParseAuthorizers(text); err != nil {
		return fmt.Errorf("--authorizers-file: %w", err)
	}
	o.apiRules.Authorizers = map[string]bool{}
	for i := range o.gateway.APIRules.Authorizers {
		o.apiRules.Authorizers[o.gateway.APIRules.Authorizers[i].Name] = true
	}
	return nil
}
