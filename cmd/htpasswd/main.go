// Command htpasswd writes the file by which the chart's registry knows its one user.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"golang.org/x/crypto/bcrypt"

	"github.com/rouse-run/rouse/internal/daemon"
)

func main() {
	o := &options{}
	os.Exit(daemon.Main("htpasswd", os.Args[1:], o, func(context.Context, logr.Logger) error { return o.write() }))
}

type options struct{ login, out string }

// BindFlags adds all flags of the command.
func (o *options) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.login, "login", o.login, "directory with the files username and password")
	fs.StringVar(&o.out, "out", o.out, "file to write")
}

// Validate refuses to guess.
func (o *options) Validate() error {
	var problems []error
	if o.login == "" {
		problems = append(problems, errors.New("--login: must be a directory"))
	}
	if o.out == "" {
		problems = append(problems, errors.New("--out: must be a file"))
	}
	return errors.Join(problems...)
}

// write hashes at the lowest cost. The password is made up of 40 random letters and digits, which no speed of trying
// finds; and the registry computes the hash for every request of a build, at the usual cost for a tenth of a second.
func (o *options) write() error {
	username, userErr := os.ReadFile(filepath.Join(o.login, "username"))
	password, passwordErr := os.ReadFile(filepath.Join(o.login, "password"))
	if err := errors.Join(userErr, passwordErr); err != nil {
		return fmt.Errorf("read the registry's login: %w", err)
	}
	hash, err := bcrypt.GenerateFromPassword(password, bcrypt.MinCost)
	if err != nil {
		return fmt.Errorf("hash the registry's password: %w", err)
	}
	if err := os.WriteFile(o.out, fmt.Appendf(nil, "%s:%s\n", username, hash), 0o600); err != nil { //nolint:gosec // the path is the chart's
		return fmt.Errorf("write the registry's users: %w", err)
	}
	return nil
}
