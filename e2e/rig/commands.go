package rig

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// Command is one tool of a program.
type Command struct {
	Name, About string
	Run         func(ctx context.Context, args []string) error
}

// Commands is the main function of a program whose first argument selects a tool. It exits with 1 when the tool fails.
func Commands(program string, commands []Command) {
	var name string
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	i := slices.IndexFunc(commands, func(c Command) bool { return c.Name == name })
	if i < 0 {
		fmt.Fprintf(os.Stderr, "usage: %s COMMAND [flags]\n", program)
		for _, c := range commands {
			fmt.Fprintf(os.Stderr, "  %-14s %s\n", c.Name, c.About)
		}
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := commands[i].Run(ctx, os.Args[2:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}
