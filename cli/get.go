package cli

import (
	"github.com/spf13/cobra"
)

// newGet returns `rouse get`, for those who know kubectl: the lists of the commands of the same names.
func newGet(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "get",
		GroupID: groupAsk,
		Short:   "List Functions, Subscriptions or Schedules",
		Long:    "get lists Functions, Subscriptions or Schedules, as the commands of the same names do. describe shows one Function in full.",
		Example: `  rouse get functions
  rouse get subscriptions --context staging -n orders -o json`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	schedules := newScheduleList(streams)
	schedules.Use, schedules.Aliases = "schedules", []string{"schedule"}
	schedules.Example = "  rouse get schedules\n  rouse get schedules -A -o json"
	for _, list := range []*cobra.Command{newFunctions(streams), newSubscriptions(streams), schedules} {
		list.GroupID = ""
		cmd.AddCommand(list)
	}
	return cmd
}
