package activator

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// Options bounds what waits.
type Options struct {
	// Wait is how long a request may wait for a pod, where the Function does not say.
	Wait time.Duration
	// MaxWaiting is how many requests of one Function may wait at a time.
	MaxWaiting int
	// MaxWaitingBytes bounds the memory for all requests that wait. A namespace, and a caller, take no more of it than they leave free.
	MaxWaitingBytes int64
	// DialInterval is the pause between two attempts to connect to a pod that starts.
	DialInterval time.Duration
	// BodyTimeout is for how long a caller may send nothing of a body that he has announced.
	BodyTimeout time.Duration
	// ForgetAfter is how long the pods of a Function are followed after its last request.
	ForgetAfter time.Duration

	// The following are for local mode. No flag sets them.

	// AllowLoopback is for pods that are processes of this machine.
	AllowLoopback bool
	// StayOnPath keeps callers' connections while a pod is ready: no Service leads to the pods.
	StayOnPath bool
	// FreshConnections makes one to a pod for each request. In a cluster a pod goes on for a while before it ends; one that does not
	// would close a kept connection while a request is on its way.
	FreshConnections bool
}

// DefaultOptions are the values that a cluster runs with.
func DefaultOptions() Options {
	return Options{
		Wait:            time.Minute,
		MaxWaiting:      1000,
		MaxWaitingBytes: 128 << 20,
		DialInterval:    5 * time.Millisecond,
		BodyTimeout:     time.Minute,
		ForgetAfter:     5 * time.Minute,
	}
}

// BindFlags adds the options to fs, with their present values as defaults.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.Wait, "wait", o.Wait, "how long a request may wait for a pod, where the Function does not say")
	fs.IntVar(&o.MaxWaiting, "max-waiting", o.MaxWaiting, "how many requests of one Function may wait at a time")
	fs.Int64Var(&o.MaxWaitingBytes, "max-waiting-bytes", o.MaxWaitingBytes, "memory for all requests that wait")
	fs.DurationVar(&o.DialInterval, "dial-interval", o.DialInterval, "pause between two attempts to connect to a pod that starts")
	fs.DurationVar(&o.BodyTimeout, "body-timeout", o.BodyTimeout, "for how long a caller may send nothing of the body that he has announced")
	fs.DurationVar(&o.ForgetAfter, "forget-after", o.ForgetAfter, "how long the pods of a Function are followed after its last request")
}

// Validate reports everything that is wrong.
func (o *Options) Validate() error {
	var problems []error
	for flag, value := range map[string]time.Duration{
		"wait": o.Wait, "dial-interval": o.DialInterval, "body-timeout": o.BodyTimeout, "forget-after": o.ForgetAfter,
	} {
		if value <= 0 {
			problems = append(problems, fmt.Errorf("--%s must be more than 0, is %s", flag, value))
		}
	}
	if o.MaxWaiting < 1 {
		problems = append(problems, fmt.Errorf("--max-waiting must be at least 1, is %d", o.MaxWaiting))
	}
	if o.MaxWaitingBytes < waitingCost {
		problems = append(problems, fmt.Errorf("--max-waiting-bytes must be at least %d, is %d", waitingCost, o.MaxWaitingBytes))
	}
	return errors.Join(problems...)
}
