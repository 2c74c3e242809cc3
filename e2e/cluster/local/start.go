package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"time"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/component"
	"github.com/rouse-run/rouse/e2e/cluster/controlplane"
	"github.com/rouse-run/rouse/e2e/cluster/host"
	"github.com/rouse-run/rouse/e2e/cluster/network"
	"github.com/rouse-run/rouse/e2e/cluster/node"
	"github.com/rouse-run/rouse/e2e/cluster/pki"
	"github.com/rouse-run/rouse/e2e/cluster/process"
	"github.com/rouse-run/rouse/e2e/cluster/progress"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// startNodes makes the namespaces and joins them to the host's network.
func (c *Cluster) startNodes(ctx context.Context) error {
	dir := c.options.Dir
	name := "node"
	if len(c.nodes) > 1 {
		name = fmt.Sprintf("%d nodes", len(c.nodes))
	}
	return c.progress.Step(ctx, name, func(ctx context.Context, detail progress.Detail) error {
		detail("namespaces, network %s, pods %s, services %s", network.Node, network.Pods, network.Services)
		if err := dir.Create(); err != nil {
			return err
		}
		if err := dir.Save(sysctlsName, host.ReadSysctls()); err != nil {
			return err
		}
		if err := pki.Write(dir, network.Members(len(c.nodes))); err != nil {
			return err
		}
		if err := host.CreateCgroup(host.CgroupRoot); err != nil {
			return err
		}
		self, err := copySelf(dir)
		if err != nil {
			return err
		}
		pid, err := c.process.StartInit(ctx, self, process.Settings{
			State: string(dir), Keep: []string{string(c.options.Cache)}, Hostname: network.NodeName,
		})
		if err != nil {
			return err
		}
		if err := network.Join(ctx, pid, c.logs("network")); err != nil {
			return err
		}
		if err := c.startFurther(ctx, pid); err != nil {
			return err
		}
		// Written last: without it the next up starts from the beginning.
		return dir.Save(versionsName, c.versions())
	})
}

// startFurther makes the namespaces of all nodes but the first, before there is anything in those of the first that they would inherit.
func (c *Cluster) startFurther(ctx context.Context, first int) error {
	if len(c.nodes) == 1 {
		return nil
	}
	if err := network.JoinLinks(ctx, c.logs("network")); err != nil {
		return err
	}
	for _, one := range c.nodes[1:] {
		if err := one.Dir.Create(); err != nil {
			return err
		}
		if err := host.CreateCgroup(one.Cgroup); err != nil {
			return err
		}
		pid, err := one.process.StartInner(ctx, c.process, process.Settings{
			State: string(one.Dir), Keep: []string{string(c.options.Cache), string(c.options.Dir)}, Hostname: one.Name,
		})
		if err != nil {
			return err
		}
		if err := network.Link(ctx, one.Member, first, pid, c.logs("network")); err != nil {
			return err
		}
	}
	return nil
}

const (
	sysctlsName  = "sysctls"
	versionsName = "versions"
)

// versions are the keys of the programs that a running cluster cannot exchange.
func (c *Cluster) versions() map[string]string {
	keys := map[string]string{}
	for _, program := range []component.Component{component.Kubernetes(), component.Etcd(), component.Pause()} {
		keys[program.Name] = c.built[program.Name].Key
	}
	keys["options"] = fmt.Sprintf("%+v", c.options.ControlPlane)
	if len(c.nodes) > 1 {
		keys["nodes"] = strconv.Itoa(len(c.nodes))
		keys[component.NetworkPolicies().Name] = c.built[component.NetworkPolicies().Name].Key
	}
	return keys
}

// sameVersions says whether the running cluster was made of the programs that are wanted now.
func (c *Cluster) sameVersions() bool {
	var saved map[string]string
	return c.options.Dir.Load(versionsName, &saved) == nil && maps.Equal(saved, c.versions())
}

func copySelf(dir state.Dir) (string, error) {
	content, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return "", err
	}
	return process.Self(dir), os.WriteFile(process.Self(dir), content, 0o755)
}

func (c *Cluster) startControlPlane(ctx context.Context) error {
	dir, kubernetes := c.options.Dir, c.built[component.Kubernetes().Name]
	err := c.progress.Step(ctx, "etcd and API server", func(ctx context.Context, detail progress.Detail) error {
		detail("%s", network.APIServer)
		etcd := controlplane.Etcd(dir, c.built[component.Etcd().Name].Path("etcd"))
		if err := c.process.Start(ctx, etcd); err != nil {
			return err
		}
		return c.startUntil(ctx, c.nodes[0], controlplane.APIServer(dir, kubernetes.Path("kube-apiserver")), 3*time.Minute, c.kubectl().Ready)
	})
	if err != nil {
		return err
	}
	return c.process.Start(ctx,
		controlplane.ControllerManager(dir, kubernetes.Path("kube-controller-manager"), c.options.ControlPlane),
		controlplane.Scheduler(dir, kubernetes.Path("kube-scheduler")))
}

func (c *Cluster) startKubelet(ctx context.Context, on machine) error {
	kubernetes := c.built[component.Kubernetes().Name]
	return c.progress.Step(ctx, on.label("kubelet and kube-proxy"), func(ctx context.Context, detail progress.Detail) error {
		detail("node %s is ready", on.Name)
		kubelet, err := node.WriteKubelet(on.Node, kubernetes.Path("kubelet"))
		if err != nil {
			return err
		}
		if err := on.process.Start(ctx, kubelet, node.Proxy(on.Node, kubernetes.Path("kube-proxy"))); err != nil {
			return err
		}
		return c.await(ctx, 4*time.Minute, "the node is ready", func(ctx context.Context) error {
			quiet := c.kubectl()
			quiet.Log = ""
			_, err := quiet.Run(ctx, "wait", "--for=condition=Ready", "node/"+on.Name, "--timeout=20s")
			return err
		})
	})
}

func (c *Cluster) startUntil(
	ctx context.Context, on machine, program process.Program, limit time.Duration, ready func(context.Context) error,
) error {
	if err := on.process.Start(ctx, program); err != nil {
		return err
	}
	return c.await(ctx, limit, program.Name+" is ready", ready)
}

// checkAlive fails with the first program of any node that has ended.
func (c *Cluster) checkAlive(ctx context.Context) error {
	for _, one := range c.nodes {
		if err := one.process.CheckAlive(ctx); err != nil {
			return err
		}
	}
	return nil
}

// await waits for something in the cluster, and gives up early when one of its programs has died.
func (c *Cluster) await(ctx context.Context, limit time.Duration, what string, ready func(context.Context) error) error {
	var died error
	err := command.Await(ctx, limit, 100*time.Millisecond, what, func(ctx context.Context) error {
		if died = c.checkAlive(ctx); died != nil && errors.Is(died, process.ErrDied) {
			return nil
		}
		return ready(ctx)
	})
	if errors.Is(died, process.ErrDied) {
		return died
	}
	return err
}
