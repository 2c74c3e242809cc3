package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rouse-run/rouse/e2e/cluster/command"
)

// ErrCollision means that the host already uses the cluster's addresses.
var ErrCollision = errors.New("the cluster's addresses are in use on this host")

const forwardSetting = "/proc/sys/net/ipv4/ip_forward"

// Join connects the network namespace of the process pid with the host.
func Join(ctx context.Context, pid int, log string) error {
	routes, err := command.Command{Name: "ip", Args: []string{"-4", "route"}}.Run(ctx)
	if err != nil {
		return err
	}
	if found := Collisions(routes); len(found) > 0 {
		return fmt.Errorf("%w: %s", ErrCollision, strings.Join(found, ", "))
	}
	if err := letHostForward(); err != nil {
		return err
	}
	namespace := strconv.Itoa(pid)
	for _, line := range joinCommands(namespace, mtu()) {
		if _, err := shell(line, log, "").Run(ctx); err != nil {
			return err
		}
	}
	_, err = shell("nft -f -", log, ruleset()).Run(ctx)
	return err
}

func joinCommands(pid, mtu string) []string {
	inside := "nsenter -n -t " + pid + " ip "
	return []string{
		"ip link add " + Device + " mtu " + mtu + " type veth peer name " + peer + " mtu " + mtu + " netns " + pid,
		"ip address add " + Host + "/30 dev " + Device,
		"ip link set " + Device + " up",
		"ip route add " + Pods + " via " + Node + " dev " + Device,
		"ip route add " + Services + " via " + Node + " dev " + Device,
		inside + "link set lo up",
		inside + "link set " + peer + " name eth0",
		inside + "address add " + Node + "/30 dev eth0",
		inside + "link set eth0 up",
		inside + "route add default via " + Host,
	}
}

// ruleset lets pods out to where the host can go. Packets between the host and the cluster keep their addresses.
func ruleset() string {
	return `table ip ` + Table + ` {
	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		iifname "` + Device + `" oifname != "` + Device + `" masquerade
	}
}
`
}

// mtu is the smallest of the host's devices that carry a default route, so that no packet is too large on its way out.
func mtu() string {
	const standard = "1500"
	routes, err := os.ReadFile("/proc/net/route")
	if err != nil {
		return standard
	}
	for line := range strings.Lines(string(routes)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[1] != "00000000" {
			continue
		}
		if size, err := os.ReadFile("/sys/class/net/" + fields[0] + "/mtu"); err == nil {
			return strings.TrimSpace(string(size))
		}
	}
	return standard
}

// Leave removes what Join made on the host. The device goes with the namespace; it is removed here in case the
// namespace never came to be.
func Leave(ctx context.Context, log string) error {
	var problems []error
	if hasTable(ctx) {
		_, err := shell("nft delete table ip "+Table, log, "").Run(ctx)
		problems = append(problems, err)
	}
	problems = append(problems, command.Await(ctx, time.Minute, 50*time.Millisecond, "the device "+Device+" is gone",
		func(ctx context.Context) error {
			if !HasDevice() {
				return nil
			}
			_, _ = shell("ip link delete "+Device, log, "").Run(ctx)
			if HasDevice() {
				return fmt.Errorf("%s is still there", Device)
			}
			return nil
		}))
	return errors.Join(problems...)
}

// HasDevice says whether the host's end of the veth pair exists.
func HasDevice() bool {
	_, err := os.Stat("/sys/class/net/" + Device)
	return err == nil
}

func hasTable(ctx context.Context) bool {
	tables, err := shell("nft list tables", "", "").Run(ctx)
	return err == nil && strings.Contains(tables, Table)
}

// Leftovers lists what of this package is on the host.
func Leftovers(ctx context.Context) []string {
	var found []string
	if HasDevice() {
		found = append(found, "network device "+Device)
	}
	if hasTable(ctx) {
		found = append(found, "nftables table "+Table)
	}
	return found
}

func shell(line, log, input string) command.Command {
	words := strings.Fields(line)
	return command.Command{Name: words[0], Args: words[1:], Log: log, Stdin: strings.NewReader(input)}
}
