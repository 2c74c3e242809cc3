package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/target"
)

func newPause(streams Streams) *cobra.Command {
	return newSwitch(streams, true, &cobra.Command{
		Use:   "pause (subscription|function) NAME",
		Short: "Keep events instead of delivering them",
		Long: `pause sets spec.paused of a Subscription, or of all Subscriptions that lead to a Function: events that match are kept, and delivered
after resume. A Function without events sleeps; HTTP requests still wake it.

A manifest that says otherwise takes effect when it is applied again.`,
		Example: `  rouse pause subscription pricing --context staging -n orders
  rouse pause function/pricing --context staging -n orders`,
	})
}

func newResume(streams Streams) *cobra.Command {
	return newSwitch(streams, false, &cobra.Command{
		Use:   "resume (subscription|function) NAME",
		Short: "Deliver the events that were kept, and those that come",
		Long:  "resume ends what pause began, for a Subscription or for all Subscriptions that lead to a Function.",
		Example: `  rouse resume subscription pricing --context staging -n orders
  rouse resume function/pricing --context staging -n orders`,
	})
}

// newSwitch completes a command that pauses or resumes.
func newSwitch(streams Streams, pause bool, cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	s := askCluster(streams, cmd)
	cmd.ValidArgsFunction = s.completeTyped(kindSubscription, subscriptionNames)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		kind, name, err := typed(args, kindSubscription, kindFunction)
		if err != nil {
			return err
		}
		return s.withObjects(func(conn *target.Connection, objects *target.Objects) error {
			subs, err := s.subscriptionsOf(cmd.Context(), conn, kind, name)
			if err != nil {
				return err
			}
			return s.setPaused(cmd.Context(), objects, subs, pause)
		})
	}
	return cmd
}

// subscriptionsOf returns the Subscription of a name, or those that lead to the Function of a name.
func (s *session) subscriptionsOf(ctx context.Context, conn *target.Connection, kind, text string) ([]target.Subscription, error) {
	namespace, name, err := s.function(conn, text)
	if err != nil {
		return nil, err
	}
	s.reportProgress("looking for Subscriptions in " + conn.Name)
	all, err := conn.Subscriptions(ctx, namespace)
	if err != nil {
		return nil, err
	}
	if kind == kindFunction {
		fn, err := conn.Find(ctx, namespace, name)
		if err != nil {
			return nil, err
		}
		return leadingTo(all, &fn)
	}
	names := make([]string, 0, len(all))
	for _, sub := range all {
		if sub.Name == name {
			return []target.Subscription{sub}, nil
		}
		names = append(names, sub.Name)
	}
	if len(names) == 0 {
		return nil, exit.Errorf(exit.NotFound, "there is no Subscription %s in namespace %s, nor any other", name, namespace)
	}
	return nil, exit.Errorf(exit.NotFound, "there is no Subscription %s in namespace %s; there are %s", name, namespace, strings.Join(names, ", "))
}

func leadingTo(all []target.Subscription, fn *target.Function) ([]target.Subscription, error) {
	var found []target.Subscription
	for _, sub := range all {
		if sub.LeadsTo(fn) {
			found = append(found, sub)
		}
	}
	if len(found) == 0 {
		return nil, exit.Errorf(exit.NotFound, "no Subscription leads to Function %s: it gets no events", fn.Name)
	}
	return found, nil
}

func (s *session) setPaused(ctx context.Context, objects *target.Objects, subs []target.Subscription, pause bool) error {
	for _, sub := range subs {
		changed, err := objects.Pause(ctx, sub.Namespace, sub.Name, pause)
		if err != nil {
			return err
		}
		s.endProgress()
		text := map[bool]string{true: "paused", false: "resumed"}[pause]
		if !changed {
			text += " already"
		}
		if _, err := fmt.Fprintf(s.Out, "subscription/%s %s\n", sub.Name, text); err != nil {
			return err
		}
	}
	return nil
}
