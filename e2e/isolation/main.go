// Command isolation plays attacks of one tenant, or of the author of a package or a repository, on another tenant and
// on the installation, on the cluster that KUBECONFIG names. It prints what refused each, and fails when one succeeds.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/rouse-run/rouse/e2e/framework"
)

// attack ends with what refused it, or with an error: errSucceeded, or one that kept it from being played.
type attack struct {
	name string
	play func(ctx context.Context, s *stage) (refusal string, err error)
}

var errSucceeded = errors.New("THE ATTACK SUCCEEDED")

func succeeded(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errSucceeded, fmt.Sprintf(format, args...))
}

func main() { framework.Main("isolation", run) }

func run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	cluster, err := framework.Connect()
	if err != nil {
		return err
	}
	fmt.Println("setting up two tenants, and waiting for what the victim builds ...")
	s, err := newStage(ctx, cluster)
	if err != nil {
		return errors.Join(err, s.end(ctx))
	}
	attacks := allAttacks()
	refused, failure := playAll(ctx, s, attacks)
	if failure != nil {
		for _, namespace := range []string{s.victim, s.attacker} {
			cluster.Dump(context.WithoutCancel(ctx), os.Stdout, namespace)
		}
	}
	if err := errors.Join(failure, s.end(ctx)); err != nil {
		return err
	}
	fmt.Printf("isolation ok: attacks=%d refused=%d\n", len(attacks), refused)
	return nil
}

func playAll(ctx context.Context, s *stage, attacks []attack) (refused int, failure error) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "ATTACK\tREFUSED BY")
	for _, each := range attacks {
		refusal, err := each.play(ctx, s)
		if err != nil {
			failure = errors.Join(failure, fmt.Errorf("%s: %w", each.name, err))
			refusal = "-  " + err.Error()
		} else {
			refused++
		}
		_, _ = fmt.Fprintf(table, "%s\t%.140s\n", each.name, refusal)
	}
	_ = table.Flush()
	return refused, failure
}

func allAttacks() []attack {
	return slices.Concat(imageAttacks(), registryAttacks(), buildAttacks(), controllerAttacks(), apiRuleAttacks(), sliceAttacks(), adminAttacks())
}
