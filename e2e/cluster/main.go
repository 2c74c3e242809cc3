// Command rouse-cluster runs a real Kubernetes of one or several nodes on a bare Debian machine, with KEDA, and Rouse installed
// by its chart. It builds every part from source, keeps what it built in a cache, and leaves nothing on the machine
// after `down`.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/host"
	"github.com/rouse-run/rouse/e2e/cluster/local"
	"github.com/rouse-run/rouse/e2e/cluster/rouse"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

const usage = `Usage: go run -C e2e/cluster . <command> [flags]

Commands:
  up          bring the cluster up, or what is missing of it
  down        take it down and check that nothing is left
  status      show what runs
  cut NODE    pull the cable of a node besides the first
  mend NODE   put it in again
  leftovers   list what is on this machine of a cluster; fails when there is something
  officials   print the official images that the runtimes can stand on, one a line behind its runtime
  preflight   say what this machine lacks to run the cluster
  packages    install the Debian packages that the project's tests need beside it
  programs    build and fetch what the cluster runs, and start nothing
  assets      build kube-apiserver, kubectl, etcd, nats-server and registry for tests, fetch envoy and Python, and print their directory
  bases       write the bases of runtimes' images into the folder --out, for amd64 and arm64, as an OCI layout
  env         print the shell commands that select the cluster

Environment:
  KUBECONFIG      a cluster of your own to use instead; up then builds none
  ROUSE_CACHE     where built programs and image layers are kept (default: rouse in the user's cache directory)
  ROUSE_STATE     where the running cluster keeps its files (default: /var/lib/rouse-cluster)
  ROUSE_RUNTIMES  the runtimes to make images of, separated by commas
  NATS_REPLICAS   1 or 3
  NODES           how many nodes; several enforce NetworkPolicies

Flags:
`

func main() {
	// A second signal during the cleanup is ignored: the cleanup is bounded in time and has to finish.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	adjust()
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// adjust makes the cluster independent of the login that started it: root's search path lacks the administrator's
// programs after a plain su, and containers have to read the files written here.
func adjust() {
	_ = os.Setenv("PATH", os.Getenv("PATH")+":/usr/local/sbin:/usr/sbin:/sbin")
	syscall.Umask(0o022)
}

func run(ctx context.Context, args []string, out, messages io.Writer) int {
	if len(args) == 2 && args[0] == host.InitCommand {
		_, _ = fmt.Fprintln(messages, host.Init(ctx, state.Dir(args[1])))
		return 1
	}
	report := command.NewProgress(messages)
	if err := dispatch(ctx, args, out, report); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return 0
		}
		report.Explain(err)
		return 1
	}
	return 0
}

func dispatch(ctx context.Context, args []string, out io.Writer, report *command.Progress) error {
	if wanted := os.Getenv("ROUSE_CLUSTER"); wanted != "" && wanted != "local" {
		return fmt.Errorf("ROUSE_CLUSTER, which is make's CLUSTER, is %q: this command runs the cluster local alone; that of kind is e2e/kind.sh", wanted)
	}
	options, err := local.DefaultOptions(os.Getenv)
	if err != nil {
		return err
	}
	workload, err := rouse.DefaultOptions(os.Getenv)
	if err != nil {
		return err
	}
	flags := pflag.NewFlagSet("rouse-cluster", pflag.ContinueOnError)
	flags.Usage = func() { report.Printf("%s%s", usage, flags.FlagUsages()) }
	bare := flags.Bool("bare", false, "up: Kubernetes, CoreDNS, registry and KEDA only, without Rouse")
	options.BindFlags(flags)
	workload.BindFlags(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1+operands[flags.Arg(0)] {
		flags.Usage()
		return errors.New("name one command, and for cut and mend a node")
	}
	if err := errors.Join(options.Validate(), workload.Validate()); err != nil {
		return err
	}
	if options.Repository, err = rouse.FindRepository(); err != nil {
		return err
	}
	workload.Checkout = cmp.Or(workload.Checkout, options.Repository)
	options.Registries, options.OwnCluster = rouse.Registries(), rouse.OwnCluster()
	installed := rouse.New(workload)
	cluster := local.New(options, installed, report)
	if *bare {
		cluster = local.New(options, local.Nothing{}, report)
	}
	run, ok := commandsOf(cluster, installed, out, flags.Arg(1))[flags.Arg(0)]
	if !ok {
		return fmt.Errorf("there is no command %q", flags.Arg(0))
	}
	return run(ctx)
}

type commands map[string]func(context.Context) error

// operands is the number of arguments of a command.
var operands = map[string]int{"cut": 1, "mend": 1}

func commandsOf(cluster *local.Cluster, installed *rouse.Rouse, out io.Writer, operand string) commands {
	return commands{
		"cut":       func(ctx context.Context) error { return cluster.Cut(ctx, operand) },
		"mend":      func(ctx context.Context) error { return cluster.Mend(ctx, operand) },
		"up":        cluster.Up,
		"down":      cluster.Down,
		"preflight": cluster.Preflight,
		"packages":  cluster.Packages,
		"programs":  cluster.Programs,
		"status":    func(ctx context.Context) error { return cluster.Status(ctx, out) },
		"env":       func(context.Context) error { return cluster.Env(out) },
		"leftovers": func(ctx context.Context) error { return leftovers(cluster.Leftovers(ctx), out) },
		"assets":    func(ctx context.Context) error { return assets(ctx, cluster, out) },
		"bases":     func(ctx context.Context) error { return installed.Bases(ctx, cluster) },
		"officials": func(context.Context) error { return officials(out) },
	}
}

func officials(out io.Writer) error {
	for _, runtime := range rouse.Catalogue() {
		if _, err := fmt.Fprintln(out, runtime.Name, "docker.io/library/"+runtime.Official); err != nil {
			return err
		}
	}
	return nil
}

func leftovers(found []string, out io.Writer) error {
	for _, one := range found {
		_, _ = fmt.Fprintln(out, one)
	}
	if len(found) > 0 {
		return local.ErrLeftovers
	}
	return nil
}

func assets(ctx context.Context, cluster *local.Cluster, out io.Writer) error {
	dir, err := cluster.Assets(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, dir)
	return err
}
