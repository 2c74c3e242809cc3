package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/rouse-run/rouse/e2e/cluster/command"
)

// Link connects the namespace of the process pid, a further node, with that of the first node.
func Link(ctx context.Context, member Member, first, pid int, log string) error {
	for _, line := range linkCommands(member, strconv.Itoa(first), strconv.Itoa(pid), mtu()) {
		if _, err := shell(line, log, "").Run(ctx); err != nil {
			return err
		}
	}
	return errors.Join(forward(ctx, first, log), forward(ctx, pid, log))
}

// linkCommands: a cable from the first node to each further one. There is no bridge between them, whose packets would pass the packet
// filters of the first node twice.
func linkCommands(member Member, first, pid, mtu string) []string {
	at, there := "nsenter -n -t "+first+" ip ", "nsenter -n -t "+pid+" ip "
	return []string{
		at + "link add " + member.Name + " mtu " + mtu + " type veth peer name eth0 mtu " + mtu + " netns " + pid,
		at + "address add " + member.Gateway + "/30 dev " + member.Name,
		at + "link set " + member.Name + " up",
		at + "route add " + member.Pods + " via " + member.Address + " dev " + member.Name,
		there + "link set lo up",
		there + "address add " + member.Address + "/30 dev eth0",
		there + "link set eth0 up",
		there + "route add default via " + member.Gateway,
	}
}

// JoinLinks lets the host reach the further nodes, through the first.
func JoinLinks(ctx context.Context, log string) error {
	_, err := shell("ip route add "+Links+" via "+Node+" dev "+Device, log, "").Run(ctx)
	return err
}

// forward lets a namespace pass on packets that are not for it.
func forward(ctx context.Context, pid int, log string) error {
	allow := command.Command{Name: "nsenter", Log: log, Args: []string{"-n", "-t", strconv.Itoa(pid), "sh", "-c", "echo 1 >" + forwardSetting}}
	_, err := allow.Run(ctx)
	return err
}

// Cut pulls the cable of a further node, at its end: the node has no network any more, and what others send to it vanishes.
func Cut(ctx context.Context, pid int) error {
	_, err := shell(fmt.Sprintf("nsenter -n -t %d ip link set eth0 down", pid), "", "").Run(ctx)
	return err
}

// Mend puts it in again.
func Mend(ctx context.Context, member Member, pid int) error {
	for _, line := range []string{
		fmt.Sprintf("nsenter -n -t %d ip link set eth0 up", pid),
		fmt.Sprintf("nsenter -n -t %d ip route replace default via %s", pid, member.Gateway),
	} {
		if _, err := shell(line, "", "").Run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// letHostForward has the host pass on packets between pods and the world.
func letHostForward() error {
	if err := os.WriteFile(forwardSetting, []byte("1"), 0o644); err != nil {
		return fmt.Errorf("let the host forward packets: %w", err)
	}
	return nil
}
