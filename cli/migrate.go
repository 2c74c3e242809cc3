package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/convert"
	"github.com/rouse-run/rouse/cli/migrate"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
)

// newMigrate returns the commands that move a cluster from Kyma to Rouse in place, and the old name for converting APIRules.
func newMigrate(streams Streams) *cobra.Command {
	cmd := convert.NewMigrate()
	cmd.GroupID = groupAsk
	cmd.Long = `migrate moves a cluster from Kyma's serverless, eventing and API gateway modules to Rouse, in place and while it serves:
plan says what is changed and what will differ, apply does it, status says how far it is, back goes back to Kyma.

It works with your own rights, and refuses while one of Kyma's controllers runs. A move that ended at any point continues with the next apply.`
	cmd.AddCommand(newMigratePlan(streams), newMigrateApply(streams), newMigrateStatus(streams), newMigrateBack(streams))
	return cmd
}

// mover runs the commands.
type mover struct {
	*session
	options migrate.Options
}

func newMover(streams Streams, cmd *cobra.Command) *mover {
	m := &mover{session: askCluster(streams, cmd, output.JSON, output.YAML)}
	cmd.GroupID = ""
	cmd.Args = cobra.NoArgs
	cmd.Flags().BoolVar(&m.options.HostsMoved, "hosts-moved", false,
		"the DNS of all hosts of APIRules leads to Rouse, and no caller has the old address")
	return m
}

func (m *mover) waiting(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&m.options.Timeout, "timeout", 15*time.Minute, "how long to wait for what controllers and pods have to do")
}

// look reads the cluster.
func (m *mover) look(ctx context.Context, do func(*migrate.Survey) error) error {
	return m.withObjects(func(conn *target.Connection, objects *target.Objects) error {
		m.reportProgress("looking at " + conn.Name)
		m.options.RouseNamespace = m.session.options.RouseNamespace
		survey, err := migrate.Read(ctx, conn, objects, m.options)
		if err != nil {
			return err
		}
		m.endProgress()
		return do(survey)
	})
}

func (m *mover) show(plan migrate.Plan) error {
	if m.forPeople() {
		return plan.Print(m.Out)
	}
	return output.WriteOne(m.Out, m.format.Chosen, plan)
}

func newMigratePlan(streams Streams) *cobra.Command {
	var back bool
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Say what apply would change, object by object, and what will differ",
		Long: `plan changes nothing. It says what has to be done first, what apply would change and delete, what you have to do yourself,
what will differ from Kyma in this cluster, and where Secrets, rights, dashboards and alerts are now.`,
		Example: `  rouse migrate plan --context staging
  rouse migrate plan --context staging -o json
  rouse migrate plan --back --context staging`,
	}
	m := newMover(streams, cmd)
	cmd.Flags().BoolVar(&back, "back", false, "plan the way back to Kyma")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		m.options.Relics, m.options.Ours = !back, back
		return m.look(cmd.Context(), func(survey *migrate.Survey) error {
			if back {
				return m.show(migrate.DecideBack(survey))
			}
			return m.show(migrate.Decide(survey))
		})
	}
	return cmd
}

func newMigrateApply(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Move the cluster to Rouse, or continue a move",
		Long: `apply does what plan says, and waits for what controllers and pods have to do. Functions, publishers and callers are served
throughout, and no event is lost. Start it again after any interruption: it looks at the cluster and goes on.`,
		Example: `  rouse migrate apply --context staging
  rouse migrate apply --context staging --hosts-moved`,
	}
	m := newMover(streams, cmd)
	m.waiting(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return m.move(cmd.Context(), "migrate", (*migrate.Mover).Apply)
	}
	return cmd
}

func newMigrateBack(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "back",
		Short: "Return to Kyma's objects, while nothing is in use that only Rouse has",
		Long: `back hands events to consumers as Kyma makes them, stops Rouse's controllers, and leaves the Deployments of Functions to Kyma's
controller, which finds them by their labels. Start Kyma's controllers after it, and uninstall Rouse when these serve.`,
		Example: `  rouse migrate back --context staging`,
	}
	m := newMover(streams, cmd)
	m.waiting(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return m.move(cmd.Context(), "back", (*migrate.Mover).Back)
	}
	return cmd
}

// move runs a move and prints its last line.
func (m *mover) move(ctx context.Context, name string, do func(*migrate.Mover, context.Context) (migrate.Result, error)) error {
	return m.withObjects(func(conn *target.Connection, objects *target.Objects) error {
		m.options.RouseNamespace = m.session.options.RouseNamespace
		result, err := do(&migrate.Mover{
			Conn: conn, Objects: objects, Options: m.options, Waiting: m.reportProgress, Note: func(change string) { m.note("%s", output.Clean(change)) },
		}, ctx)
		if err != nil {
			return err
		}
		m.endProgress()
		if !m.forPeople() {
			return output.WriteOne(m.Out, m.format.Chosen, result)
		}
		_, err = fmt.Fprintf(m.Out, "%s ok: functions=%d subscriptions=%d apirules=%d leftovers=%d seconds=%d\n", name, result.Functions,
			result.Subscriptions, result.APIRules, result.Leftovers, result.Seconds)
		return err
	})
}

func newMigrateStatus(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Say how far a move is",
		Long:    "status says when a move has begun and ended, and what is left to do.",
		Example: `  rouse migrate status --context staging`,
	}
	m := newMover(streams, cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		m.options.Ours = true // it may be the way back
		return m.look(cmd.Context(), func(survey *migrate.Survey) error {
			status := survey.Status()
			if m.forPeople() {
				return status.Print(m.Out)
			}
			return output.WriteOne(m.Out, m.format.Chosen, status)
		})
	}
	return cmd
}
