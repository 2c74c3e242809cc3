package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

const (
	chain       = "NETWORK-POLICIES"
	queueNumber = 100
)

// rules are iptables' arguments. Answers and further packets of a connection that was allowed pass; the first packets are asked about
// after Services have become pods, and where pods call the node itself. The node may call its pods, as its probes do.
func rules(pods string) []string {
	return []string{
		"-N " + chain,
		"-A " + chain + " -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN",
		fmt.Sprintf("-A %s -s %s -j NFQUEUE --queue-num %d", chain, pods, queueNumber),
		fmt.Sprintf("-A %s -d %s -j NFQUEUE --queue-num %d", chain, pods, queueNumber),
		"-I FORWARD -j " + chain,
		fmt.Sprintf("-I INPUT -s %s -j %s", pods, chain),
	}
}

func writeRules(ctx context.Context, pods string) error {
	for _, rule := range rules(pods) {
		arguments := append([]string{"-w"}, strings.Fields(rule)...)
		if out, err := exec.CommandContext(ctx, "iptables", arguments...).CombinedOutput(); err != nil {
			return fmt.Errorf("iptables %s: %w: %s", rule, err, out)
		}
	}
	return nil
}
