package dev

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rouse-run/rouse/dev/instance"
)

const (
	// defaultPort is the port of the publish endpoint.
	defaultPort = 8080
	// defaultAPIRulesPort is below the ports of Functions, which begin after the publish endpoint's.
	defaultAPIRulesPort  = 8070
	defaultDashboardPort = 8060
	lastPort             = 65535
	// flagPort, flagAPIRulesPort and flagDashboardPort are their flags.
	flagPort          = "--port"
	flagAPIRulesPort  = "--apirules-port"
	flagDashboardPort = "--dashboard-port"
	// defaultCooldown is short, so that a user sees a Function scale to zero.
	defaultCooldown = 5 * time.Second
)

// Options are the options of a local mode.
type Options struct {
	// Directory is the folder with the manifests.
	Directory string
	// State is the folder that holds the state of all folders; instance.Root when empty.
	State string
	// Cache is the cache folder; instance.CacheRoot when empty.
	Cache string
	// Port is the port of the publish endpoint. 0 is 8080, or another one when that is taken.
	Port int
	// APIRulesPort is the port of the hosts of APIRules. 0 is 8070, or another one when that is taken.
	APIRulesPort int
	// DashboardPort is the port of the dashboard. 0 is 8060, or another one when that is taken.
	DashboardPort int
	// Open opens the dashboard in a browser.
	Open bool
	// Fresh deletes the state of earlier runs of the folder.
	Fresh bool
	// Plain prints lines instead of a live view.
	Plain bool
	// Debug names the Functions that a debugger can be attached to.
	Debug []string
	// Cooldown is the time without work after which a Function scales to zero.
	Cooldown time.Duration
	// Publish names files with events to publish when everything is up.
	Publish []string
	// Once ends the run when the events of Publish are settled and all Functions asleep.
	Once bool
	// Expect names a file with events to publish and with what they have to cause; only with Once.
	Expect string
	// Programs are used in place of those in the PATH, by the name of the language.
	Programs map[string]string
	// opener opens a file in a browser; the desktop's program when empty.
	opener string
	// In and Out are the terminal.
	In  io.Reader
	Out io.Writer
}

// UsualPort is a port that local mode takes when a flag names none.
type UsualPort struct {
	Number int
	Use    string
	Flag   string
}

// UsualPorts returns the ports that local mode takes when they are free.
func UsualPorts() []UsualPort {
	return []UsualPort{
		{Number: defaultPort, Use: "the publish endpoint", Flag: flagPort},
		{Number: defaultAPIRulesPort, Use: "APIRules", Flag: flagAPIRulesPort},
		{Number: defaultDashboardPort, Use: "the dashboard", Flag: flagDashboardPort},
	}
}

// DefaultOptions returns the options without flags.
func DefaultOptions() Options {
	return Options{Directory: ".", Cooldown: defaultCooldown, Out: io.Discard}
}

// Validate reports every invalid option, including folders and files that do not exist.
func (o *Options) Validate() error {
	var errs []error
	for flag, port := range map[string]int{flagPort: o.Port, flagAPIRulesPort: o.APIRulesPort, flagDashboardPort: o.DashboardPort} {
		if port < 0 || port > lastPort {
			errs = append(errs, fmt.Errorf("%s %d: use one from 1 to %d", flag, port, lastPort))
		}
	}
	if o.Cooldown <= 0 {
		errs = append(errs, fmt.Errorf("--cooldown %s: use a time above 0, such as 5s", o.Cooldown))
	}
	if o.Expect != "" && !o.Once {
		errs = append(errs, errors.New("--expect needs --once: what is expected is compared when everything is settled"))
	}
	if o.Open && o.Once {
		errs = append(errs, errors.New("--open and --once contradict each other: a run with --once has no dashboard"))
	}
	_, err := instance.Folder(o.State, o.Directory)
	errs = append(errs, err)
	read, err := o.readInput()
	if err == nil && o.Once && len(read.events) == 0 {
		err = errors.New("--once has no events to wait for: name files with events with --publish, or list them in the file of --expect")
	}
	return errors.Join(append(errs, err)...)
}
