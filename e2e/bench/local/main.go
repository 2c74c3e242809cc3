// Command local measures how long a sleeping Function takes in local mode from the moment its event is stored to the
// first line that its handler prints, in both languages. Beside it, in the same rounds, the bare HTTP server of the same
// interpreter is started and asked once.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/rouse-run/rouse/e2e/framework"
	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/e2e/verbs"
)

func main() {
	rounds := flag.Int("rounds", 20, "how many wakes of each language, and how many bare starts")
	program := flag.String("rouse", "bin/rouse", "the built command")
	flag.Parse()
	framework.Main("bench-local", func(ctx context.Context) error { return run(ctx, *rounds, *program) })
}

func run(ctx context.Context, rounds int, program string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	folder, err := os.MkdirTemp("", "rouse-bench-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	m := mode{folder: folder, rouse: verbs.Rouse{
		Program: program, Where: []string{"--dir", folder}, Env: []string{"XDG_STATE_HOME=" + folder + "/.state"},
	}}
	stop, err := m.start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	measured, bare := map[string][]time.Duration{}, map[string][]time.Duration{}
	for round := range rounds {
		for _, l := range languages() {
			wake, err := m.wake(ctx, l, round)
			if err != nil {
				return err
			}
			alone, err := l.bare(ctx)
			if err != nil {
				return err
			}
			fmt.Printf("round %2d  %-6s  wake %4d ms  bare %4d ms\n", round+1, l.name, wake.Milliseconds(), alone.Milliseconds())
			measured[l.name], bare[l.name] = append(measured[l.name], wake), append(bare[l.name], alone)
		}
	}
	fmt.Print("local")
	for _, l := range languages() {
		fmt.Printf(" %s_p50_ms=%.0f %s_p95_ms=%.0f bare_%s_p50_ms=%.0f", l.name, rig.Milliseconds(measured[l.name], 50),
			l.name, rig.Milliseconds(measured[l.name], 95), l.name, rig.Milliseconds(bare[l.name], 50))
	}
	fmt.Println()
	return nil
}
