package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// hop is what happened to one event of the chain, and when.
type hop struct {
	function  string
	published time.Time // stored in JetStream
	pushed    time.Time // the scaler sent true to KEDA
	scaled    time.Time // the Deployment wants 1 replica
	addressed time.Time // the pod has an address
	firstByte time.Time // the handler runs
	acked     time.Time // the bridge has acked the event
	asleep    time.Time // the Deployment wants 0 replicas again
}

// printTimeline prints a row per hop; the times count from the hop's own publish.
func printTimeline(out io.Writer, order string, hops []hop) {
	_, _ = fmt.Fprintf(out, "\n%s\n", order)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(table, "Function\tpublished\ttrue sent\treplicas 1\taddress\tfirst byte\tacked\tback to zero\t")
	for _, h := range hops {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", h.function, h.published.Local().Format("15:04:05.000"),
			since(h.published, h.pushed), since(h.published, h.scaled), since(h.published, h.addressed),
			since(h.published, h.firstByte), since(h.published, h.acked), since(h.published, h.asleep))
	}
	_ = table.Flush()
	_, _ = fmt.Fprintln(out)
}

func since(start, at time.Time) string {
	switch d := at.Sub(start); {
	case start.IsZero() || at.IsZero():
		return "-"
	case d >= 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	default:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
}
