package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/component"
	"github.com/rouse-run/rouse/e2e/cluster/controlplane"
	"github.com/rouse-run/rouse/e2e/cluster/host"
	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/network"
	"github.com/rouse-run/rouse/e2e/cluster/node"
	"github.com/rouse-run/rouse/e2e/cluster/pki"
	"github.com/rouse-run/rouse/e2e/cluster/process"
	"github.com/rouse-run/rouse/e2e/cluster/progress"
	"github.com/rouse-run/rouse/e2e/cluster/release"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// Up brings the cluster up, or what is missing of it. A cluster that it could not bring up it takes down again; one
// that ran before is left running.
func (c *Cluster) Up(ctx context.Context) error {
	if c.options.Kubeconfig != "" {
		return c.CheckOwn(ctx)
	}
	err := c.progress.Step(ctx, "check the machine", func(ctx context.Context, detail progress.Detail) error {
		detail("%s", c.describe())
		return host.Preflight(ctx, c.needs())
	})
	if err != nil {
		return err
	}
	unlock, err := state.Lock(state.LockFile)
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.checkAlone(); err != nil {
		return err
	}
	images, err := c.prepare(ctx)
	if err != nil {
		return err
	}

	ran := c.Running() && c.process.CheckAlive(ctx) == nil && c.sameVersions()
	if err := c.bringUp(ctx, ran, images); err != nil {
		if ran || c.options.KeepFailed {
			return err
		}
		c.progress.Explain(err)
		c.progress.Printf("\n")
		// The context may be over, which must not keep the cluster from being taken down.
		return errors.Join(ErrTakenDown, c.takeDown(context.WithoutCancel(ctx)))
	}
	return nil
}

func (c *Cluster) needs() host.Needs {
	needs := host.Needs{Dirs: []string{string(c.options.Cache), string(c.options.Dir)}, Tools: [][]string{{"go", "version"}}}
	if !c.options.Bare {
		// The runtimes' layers are made of their packages.
		needs.Tools = append(needs.Tools, []string{"npm", "--version"}, []string{"python3", "-m", "pip", "--version"})
	}
	return needs
}

// ErrTakenDown means that the start failed for the reason printed, and that nothing of it is left.
var ErrTakenDown = errors.New("the start failed, see above")

// prepare installs packages and builds, which changes nothing but packages and the cache.
func (c *Cluster) prepare(ctx context.Context) (images, error) {
	// What was left by builds before: logs, and what was half done when they were killed.
	if err := errors.Join(os.RemoveAll(c.builder.Logs), c.options.Cache.Sweep()); err != nil {
		return images{}, err
	}
	err := c.progress.Step(ctx, "packages", func(ctx context.Context, detail progress.Detail) error {
		missing := host.Missing(host.Packages())
		detail("%d to install", len(missing))
		return host.Install(ctx, c.options.Cache.Path("logs", "packages.log"), missing)
	})
	if err != nil {
		return images{}, err
	}
	// Runtimes wait for downloads, components for the processor.
	var made images
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.build(groupCtx, c.components()...) })
	group.Go(func() (err error) {
		if !c.options.Bare {
			made.runtimes, err = c.runtimeImages(groupCtx)
		}
		return err
	})
	if err := group.Wait(); err != nil {
		return images{}, err
	}
	if made.base, err = c.baseImages(ctx); err == nil && !c.options.Bare {
		made.nats, err = c.natsImage()
	}
	return made, err
}

// components are those of the local cluster, the longest build first.
func (c *Cluster) components() []component.Component {
	all := []component.Component{
		component.Kubernetes(), component.KEDAOperator(), component.KEDAAdapter(), component.CoreDNS(), component.Registry(),
		component.Etcd(), component.Pause(),
	}
	if !c.options.Bare {
		all = append(all, component.NATS(), component.Helm())
	}
	return all
}

// images are all that the cluster runs. Rouse's own changes with each edit of the checkout, the others seldom.
type images struct {
	base     baseImages
	nats     image.Image
	runtimes map[string]image.Image
}

func (i images) all() []image.Image {
	all := i.base.all()
	if i.nats.Name != "" {
		all = append(all, i.nats)
	}
	return slices.AppendSeq(all, maps.Values(i.runtimes))
}

func (c *Cluster) bringUp(ctx context.Context, ran bool, images images) error {
	if !ran && c.options.Dir.Exists() {
		if err := c.takeDown(ctx); err != nil {
			return err
		}
	}
	if c.options.Bare {
		return c.bringUpKubernetes(ctx, ran, images)
	}
	// Compiling keeps the cores busy while the cluster waits for itself.
	var rouse image.Image
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		rouse, err = c.rouseImage(groupCtx)
		return err
	})
	group.Go(func() error { return c.bringUpKubernetes(groupCtx, ran, images) })
	if err := group.Wait(); err != nil {
		return err
	}
	return c.installRouse(ctx, release.Images{Rouse: rouse, NATS: images.nats, Runtimes: images.runtimes})
}

func (c *Cluster) bringUpKubernetes(ctx context.Context, ran bool, images images) error {
	if !ran {
		if err := c.startNode(ctx); err != nil {
			return err
		}
	}
	// Images go in while the control plane starts.
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.startContainerd(groupCtx, ran, images) })
	group.Go(func() error { return c.startControlPlane(groupCtx) })
	if err := group.Wait(); err != nil {
		return err
	}
	if err := c.startKubelet(ctx); err != nil {
		return err
	}
	if err := c.linkTools(); err != nil {
		return err
	}
	return c.installAddons(ctx, images.base)
}

// startNode makes the namespaces and joins them to the host's network.
func (c *Cluster) startNode(ctx context.Context) error {
	dir := c.options.Dir
	return c.progress.Step(ctx, "node", func(ctx context.Context, detail progress.Detail) error {
		detail("namespaces, network %s, pods %s, services %s", network.Node, network.Pods, network.Services)
		if err := dir.Create(); err != nil {
			return err
		}
		if err := dir.Save(sysctlsName, host.ReadSysctls()); err != nil {
			return err
		}
		if err := pki.Write(dir); err != nil {
			return err
		}
		if err := host.CreateCgroups(); err != nil {
			return err
		}
		self, err := copySelf(dir)
		if err != nil {
			return err
		}
		pid, err := c.process.StartInit(ctx, self, process.Settings{
			State: string(dir), Keep: []string{string(c.options.Cache)}, Hostname: pki.NodeName,
		})
		if err != nil {
			return err
		}
		if err := network.Join(ctx, pid, c.logs("network")); err != nil {
			return err
		}
		// Written last: without it the next up starts anew.
		return dir.Save(versionsName, c.versions())
	})
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
		return c.startUntil(ctx, controlplane.APIServer(dir, kubernetes.Path("kube-apiserver")), time.Minute, c.kubectl().Ready)
	})
	if err != nil {
		return err
	}
	return c.process.Start(ctx,
		controlplane.ControllerManager(dir, kubernetes.Path("kube-controller-manager"), c.options.ControlPlane),
		controlplane.Scheduler(dir, kubernetes.Path("kube-scheduler")))
}

func (c *Cluster) startKubelet(ctx context.Context) error {
	dir, kubernetes := c.options.Dir, c.built[component.Kubernetes().Name]
	return c.progress.Step(ctx, "kubelet and kube-proxy", func(ctx context.Context, detail progress.Detail) error {
		detail("node %s is ready", pki.NodeName)
		kubelet, err := node.WriteKubelet(dir, kubernetes.Path("kubelet"))
		if err != nil {
			return err
		}
		if err := c.process.Start(ctx, kubelet, node.Proxy(dir, kubernetes.Path("kube-proxy"))); err != nil {
			return err
		}
		return c.await(ctx, 90*time.Second, "the node is ready", func(ctx context.Context) error {
			quiet := c.kubectl()
			quiet.Log = ""
			_, err := quiet.Run(ctx, "wait", "--for=condition=Ready", "node/"+pki.NodeName, "--timeout=20s")
			return err
		})
	})
}

func (c *Cluster) startUntil(ctx context.Context, program process.Program, limit time.Duration, ready func(context.Context) error) error {
	if err := c.process.Start(ctx, program); err != nil {
		return err
	}
	return c.await(ctx, limit, program.Name+" is ready", ready)
}

// await waits for something in the cluster, and gives up early when one of its programs has died.
func (c *Cluster) await(ctx context.Context, limit time.Duration, what string, ready func(context.Context) error) error {
	var died error
	err := command.Await(ctx, limit, 100*time.Millisecond, what, func(ctx context.Context) error {
		if died = c.process.CheckAlive(ctx); died != nil && errors.Is(died, process.ErrDied) {
			return nil
		}
		return ready(ctx)
	})
	if errors.Is(died, process.ErrDied) {
		return died
	}
	return err
}
