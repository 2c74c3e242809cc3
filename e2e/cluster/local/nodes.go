package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/components"
	"github.com/rouse-run/rouse/e2e/cluster/host"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// startNodes creates the namespaces and joins them to the host's network.
func (c *Cluster) startNodes(ctx context.Context) error {
	dir := c.options.Dir
	name := "node"
	if len(c.nodes) > 1 {
		name = fmt.Sprintf("%d nodes", len(c.nodes))
	}
	return c.progress.Step(ctx, name, func(ctx context.Context, detail command.Detail) error {
		detail("namespaces, network %s, pods %s, services %s", host.NodeAddress, host.PodRange, host.ServiceRange)
		if err := dir.Create(); err != nil {
			return err
		}
		if err := dir.Save(sysctlsName, host.ReadSysctls()); err != nil {
			return err
		}
		if err := host.WritePKI(dir, host.Members(len(c.nodes))); err != nil {
			return err
		}
		if err := host.CreateCgroup(host.CgroupRoot); err != nil {
			return err
		}
		self, err := copySelf(dir)
		if err != nil {
			return err
		}
		pid, err := c.process.StartInit(ctx, self, host.InitSettings{
			State: string(dir), Keep: []string{string(c.options.Cache)}, Hostname: host.NodeName,
		})
		if err != nil {
			return err
		}
		if err := host.JoinNetwork(ctx, pid, c.logs("network")); err != nil {
			return err
		}
		if err := c.startFurther(ctx, pid); err != nil {
			return err
		}
		// Written last: without it the next up starts from the beginning.
		return dir.Save(versionsName, c.versions())
	})
}

// startFurther creates the namespaces of all other nodes, while those of the first are still empty, since they would
// inherit their content.
func (c *Cluster) startFurther(ctx context.Context, first int) error {
	if len(c.nodes) == 1 {
		return nil
	}
	if err := host.JoinLinks(ctx, c.logs("network")); err != nil {
		return err
	}
	for _, one := range c.nodes[1:] {
		if err := one.Dir.Create(); err != nil {
			return err
		}
		if err := host.CreateCgroup(one.Cgroup); err != nil {
			return err
		}
		pid, err := one.process.StartInner(ctx, c.process, host.InitSettings{
			State: string(one.Dir), Keep: []string{string(c.options.Cache), string(c.options.Dir)}, Hostname: one.Name,
		})
		if err != nil {
			return err
		}
		if err := host.LinkMember(ctx, one.Member, first, pid, c.logs("network")); err != nil {
			return err
		}
	}
	return nil
}

const (
	sysctlsName  = "sysctls"
	versionsName = "versions"
)

// versions returns the keys of the programs that cannot be replaced in a running cluster.
func (c *Cluster) versions() map[string]string {
	keys := map[string]string{}
	for _, program := range []components.Component{components.Kubernetes(), components.Etcd(), components.Pause()} {
		keys[program.Name] = c.built[program.Name].Key
	}
	keys["options"] = fmt.Sprintf("%+v", c.options.ControlPlane)
	if len(c.nodes) > 1 {
		keys["nodes"] = strconv.Itoa(len(c.nodes))
		keys[components.NetworkPolicies().Name] = c.built[components.NetworkPolicies().Name].Key
	}
	return keys
}

// sameVersions reports whether the running cluster has the current versions of these programs.
func (c *Cluster) sameVersions() bool {
	var saved map[string]string
	return c.options.Dir.Load(versionsName, &saved) == nil && maps.Equal(saved, c.versions())
}

func copySelf(dir state.Dir) (string, error) {
	content, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return "", err
	}
	return host.CommandCopy(dir), os.WriteFile(host.CommandCopy(dir), content, 0o755)
}

func (c *Cluster) startControlPlane(ctx context.Context) error {
	dir, kubernetes := c.options.Dir, c.built[components.Kubernetes().Name]
	err := c.progress.Step(ctx, "etcd and API server", func(ctx context.Context, detail command.Detail) error {
		detail("%s", host.APIServer)
		etcd := etcd(dir, c.built[components.Etcd().Name].Path("etcd"))
		if err := c.process.Start(ctx, etcd); err != nil {
			return err
		}
		return c.startUntil(ctx, c.nodes[0], apiServer(dir, kubernetes.Path("kube-apiserver")), 3*time.Minute, c.Kubectl().Ready)
	})
	if err != nil {
		return err
	}
	return c.process.Start(ctx,
		controllerManager(dir, kubernetes.Path("kube-controller-manager"), c.options.ControlPlane),
		scheduler(dir, kubernetes.Path("kube-scheduler")))
}

func (c *Cluster) startKubelet(ctx context.Context, on machine) error {
	kubernetes := c.built[components.Kubernetes().Name]
	return c.progress.Step(ctx, on.label("kubelet and kube-proxy"), func(ctx context.Context, detail command.Detail) error {
		detail("node %s is ready", on.Name)
		kubelet, err := writeKubelet(on.Node, kubernetes.Path("kubelet"))
		if err != nil {
			return err
		}
		if err := on.process.Start(ctx, kubelet, kubeProxy(on.Node, kubernetes.Path("kube-proxy"))); err != nil {
			return err
		}
		return c.await(ctx, 4*time.Minute, "the node is ready", func(ctx context.Context) error {
			quiet := c.Kubectl()
			quiet.Log = ""
			_, err := quiet.Run(ctx, "wait", "--for=condition=Ready", "node/"+on.Name, "--timeout=20s")
			return err
		})
	})
}

func (c *Cluster) startUntil(
	ctx context.Context, on machine, program host.Program, limit time.Duration, ready func(context.Context) error,
) error {
	if err := on.process.Start(ctx, program); err != nil {
		return err
	}
	return c.await(ctx, limit, program.Name+" is ready", ready)
}

// checkAlive returns an error for the first program of any node that has ended.
func (c *Cluster) checkAlive(ctx context.Context) error {
	for _, one := range c.nodes {
		if err := one.process.CheckAlive(ctx); err != nil {
			return err
		}
	}
	return nil
}

// await waits for a condition of the cluster, and fails early when one of its programs has died.
func (c *Cluster) await(ctx context.Context, limit time.Duration, what string, ready func(context.Context) error) error {
	var died error
	err := command.Await(ctx, limit, 100*time.Millisecond, what, func(ctx context.Context) error {
		if died = c.checkAlive(ctx); died != nil && errors.Is(died, host.ErrDied) {
			return nil
		}
		return ready(ctx)
	})
	if errors.Is(died, host.ErrDied) {
		return died
	}
	return err
}

// joinFurther makes all other nodes schedulable. By then the cluster's own pods, such as DNS and KEDA, run on the
// first.
func (c *Cluster) joinFurther(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, one := range c.nodes[1:] {
		group.Go(func() error {
			if err := c.startKubelet(ctx, one); err != nil {
				return err
			}
			return c.startPolicies(ctx, one)
		})
	}
	return group.Wait()
}

// startPolicies enforces NetworkPolicies on a node of several.
func (c *Cluster) startPolicies(ctx context.Context, on machine) error {
	if on.Alone {
		return nil
	}
	return c.progress.Step(ctx, on.label("NetworkPolicies"), func(ctx context.Context, detail command.Detail) error {
		detail("enforced on %s", on.Name)
		rights, err := render("policies.yaml", nil)
		if err != nil {
			return err
		}
		if err := c.Kubectl().Apply(ctx, rights); err != nil {
			return err
		}
		program := policies(on.Node, c.built[components.NetworkPolicies().Name].Path("network-policies"))
		return c.startUntil(ctx, on, program, 2*time.Minute, func(ctx context.Context) error { return healthy(ctx, on.PoliciesHealth()) })
	})
}

func healthy(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return nil
}

// running returns the nodes of the running cluster, regardless of the options of this command.
func (c *Cluster) running() []machine {
	further, _ := filepath.Glob(c.options.Dir.Path("nodes", "*")) // the pattern is valid
	return machines(c.options.Dir, 1+len(further))
}

// ErrNoNode means that no further node has that name. The first cannot be disconnected: it runs the API server and all
// links.
var ErrNoNode = errors.New("there is no such node besides the first")

// Cut disconnects a node.
func (c *Cluster) Cut(ctx context.Context, name string) error {
	return c.cable(ctx, name, func(_ host.Member, pid int) error { return host.CutCable(ctx, pid) })
}

// Mend reconnects a node.
func (c *Cluster) Mend(ctx context.Context, name string) error {
	return c.cable(ctx, name, func(member host.Member, pid int) error { return host.MendCable(ctx, member, pid) })
}

func (c *Cluster) cable(_ context.Context, name string, change func(host.Member, int) error) error {
	if os.Geteuid() != 0 {
		return errors.New("only root may change a node's network")
	}
	further := c.running()[1:]
	at := slices.IndexFunc(further, func(one machine) bool { return one.Name == name })
	if at < 0 {
		return fmt.Errorf("%w: %q", ErrNoNode, name)
	}
	pid := host.InnerPID(c.options.Dir, further[at].Dir)
	if pid == 0 {
		return fmt.Errorf("%w: %s", ErrNotRunning, name)
	}
	return change(further[at].Member, pid)
}
