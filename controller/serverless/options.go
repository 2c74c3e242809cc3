package serverless

import (
	"errors"

	"github.com/spf13/pflag"
)

// Options are the settings of the operator.
type Options struct {
	// InstallationFile is where the chart has described the installation.
	InstallationFile string
}

// BindFlags lets command-line flags change the settings.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.InstallationFile, "installation-file", o.InstallationFile,
		"what the chart says about the Function controller to install, as YAML")
}

// Validate reports everything that is wrong.
func (o *Options) Validate() error {
	if o.InstallationFile == "" {
		return errors.New("--installation-file: must not be empty")
	}
	return nil
}
