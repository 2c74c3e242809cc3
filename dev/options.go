package dev

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rouse-run/rouse/dev/instance"
)

const (
	// defaultPort of the publish endpoint.
	defaultPort = 8080
	// defaultAPIRulesPort is before those of Functions, which begin after the publish endpoint's.
	defaultAPIRulesPort = 8070
	lastPort            = 65535
	// The flags of both.
	flagPort         = "--port"
	flagAPIRulesPort = "--apirules-port"
	// defaultCooldown is short, so that a user sees a Function go back to sleep.
	defaultCooldown = 5 * time.Second
)

// Options of a local mode.
type Options struct {
	// Directory is the folder with the manifests.
	Directory string
	// State is the folder that holds the state of all folders; instance.Root when empty.
	State string
	// Cache is the folder of what can be made again; instance.CacheRoot when empty.
	Cache string
	// Port of the publish endpoint. 0 is 8080, or another one when that is taken.
	Port int
	// APIRulesPort is that of the hosts of APIRules. 0 is 8070, or another one when that is taken.
	APIRulesPort int
	// Fresh forgets what an earlier run of the folder left.
	Fresh bool
	// Plain prints lines instead of showing a view.
	Plain bool
	// Debug names the Functions that a debugger can be attached to.
	Debug []string
	// Cooldown is how long a Function stays awake without work.
	Cooldown time.Duration
	// Publish names files with events that are published when everything is up.
	Publish []string
	// Once ends the run when the events of Publish are settled and all Functions asleep.
	Once bool
	// Programs are to be used instead of those of the PATH, by the names of languages.
	Programs map[string]string
	// In and Out are the terminal.
	In  io.Reader
	Out io.Writer
}

// DefaultOptions are those without flags.
func DefaultOptions() Options {
	return Options{Directory: ".", Cooldown: defaultCooldown, Out: io.Discard}
}

// Validate names every option that cannot work, also a folder or a file that is not there.
func (o *Options) Validate() error {
	var errs []error
	for flag, port := range map[string]int{flagPort: o.Port, flagAPIRulesPort: o.APIRulesPort} {
		if port < 0 || port > lastPort {
			errs = append(errs, fmt.Errorf("%s %d: use one from 1 to %d", flag, port, lastPort))
		}
	}
	if o.Cooldown <= 0 {
		errs = append(errs, fmt.Errorf("--cooldown %s: use a time above 0, such as 5s", o.Cooldown))
	}
	if o.Once && len(o.Publish) == 0 {
		errs = append(errs, errors.New("--once has nothing to wait for: say with --publish which events to publish"))
	}
	_, err := instance.Folder(o.State, o.Directory)
	errs = append(errs, err)
	_, err = readEvents(o.Publish)
	return errors.Join(append(errs, err)...)
}
