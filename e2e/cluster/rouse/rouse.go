package rouse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/components"
	"github.com/rouse-run/rouse/e2e/cluster/host"
	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/local"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// Options are the user's options for Rouse on a cluster.
type Options struct {
	Checkout     string // of Rouse, its chart, its runtimes and NATS
	Runtimes     []string
	NATSReplicas int
	Out          string // output directory of bases
}

// DefaultOptions returns the defaults and the options in the environment.
func DefaultOptions(getenv func(string) string) (Options, error) {
	options := Options{Runtimes: DefaultRuntimes(), NATSReplicas: 1}
	if names := getenv("ROUSE_RUNTIMES"); names != "" {
		options.Runtimes = strings.Split(names, ",")
	}
	if text := getenv("NATS_REPLICAS"); text != "" {
		var err error
		if options.NATSReplicas, err = strconv.Atoi(text); err != nil {
			return options, fmt.Errorf("NATS_REPLICAS: %w", err)
		}
	}
	return options, nil
}

// Validate reports every invalid option.
func (o *Options) Validate() error {
	var problems []error
	if o.NATSReplicas != 1 && o.NATSReplicas != 3 {
		problems = append(problems, fmt.Errorf("NATS replicas can be 1 or 3, not %d", o.NATSReplicas))
	}
	_, err := Choose(o.Runtimes)
	return errors.Join(append(problems, err)...)
}

// BindFlags adds the options' flags.
func (o *Options) BindFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Checkout, "checkout", o.Checkout, "up: another checkout that Rouse, its chart, its runtimes and NATS are made of")
	flags.StringSliceVar(&o.Runtimes, "runtimes", o.Runtimes, "up: runtimes of Functions to make images of (ROUSE_RUNTIMES)")
	flags.IntVar(&o.NATSReplicas, "nats-replicas", o.NATSReplicas, "up: 1 is the chart's NATS, 3 a cluster of servers beside it (NATS_REPLICAS)")
	flags.StringVar(&o.Out, "out", o.Out, "bases: the folder that they are written to, which is not there yet")
}

// FindRepository returns the root of the checkout that contains the working directory.
func FindRepository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if line, _, _ := strings.Cut(string(content), "\n"); err == nil && line == "module github.com/rouse-run/rouse" {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("not inside a checkout of the repository")
		}
		dir = parent
	}
}

// Rouse is the Workload of the project's own clusters.
type Rouse struct {
	options  Options
	sources  image.Image // the source server of the e2e tests
	runtimes map[string]image.Image
	nats     image.Image
	server   image.Image // with all binaries of the cluster
}

// New returns the workload of a checkout.
func New(options Options) *Rouse { return &Rouse{options: options, runtimes: map[string]image.Image{}} }

func (r *Rouse) source(cluster *local.Cluster) Source {
	return Source{Repository: r.options.Checkout, Store: cluster.Store(), Logs: cluster.Builder().Logs}
}

// Tools implements local.Workload. The runtimes' layers contain npm packages.
func (r *Rouse) Tools() []host.Tool {
	return []host.Tool{
		{Name: "Node.js 20 or newer", Works: []string{"node", "--eval", "process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)"}},
		{Name: "npm", Works: []string{"npm", "--version"}},
	}
}

// Components implements local.Workload. The version of NATS is that of the installed Rouse.
func (r *Rouse) Components() []components.Component {
	nats := components.NATS()
	nats.Checkout = r.options.Checkout
	return []components.Component{nats, components.Helm()}
}

// Prepare implements local.Workload: it makes the images of the runtimes and of the tests' source server.
func (r *Rouse) Prepare(ctx context.Context, cluster *local.Cluster) error {
	chosen, err := Choose(r.options.Runtimes)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for _, runtime := range chosen {
			err := cluster.Step(ctx, "runtime "+runtime.Name, func(ctx context.Context, detail command.Detail) error {
				detail("%s", runtime.Really)
				made, err := r.source(cluster).Runtime(ctx, runtime)
				made.Registry = local.RegistryHost
				r.runtimes[runtime.Name] = made
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	group.Go(func() error {
		return cluster.Step(ctx, "source server of the tests", func(ctx context.Context, _ command.Detail) (err error) {
			r.sources, err = r.source(cluster).SourceServer(ctx)
			return err
		})
	})
	return group.Wait()
}

// Images implements local.Workload.
func (r *Rouse) Images(cluster *local.Cluster) ([]image.Image, error) {
	var err error
	r.nats, err = cluster.BinaryImage(components.NATS().Name)
	r.nats.Name = "rouse-nats"
	all := []image.Image{r.nats, r.sources}
	for _, made := range r.runtimes {
		all = append(all, made)
	}
	return all, err
}

// Build implements local.Workload: it compiles the checkout.
func (r *Rouse) Build(ctx context.Context, cluster *local.Cluster) error {
	return cluster.Step(ctx, "Rouse image", func(ctx context.Context, detail command.Detail) (err error) {
		if r.server, err = r.source(cluster).Binaries(ctx); err == nil {
			detail("%s", r.server.Reference())
		}
		return err
	})
}

// standIns is how many a namespace may ask for.
const standIns = 5

// Install implements local.Workload: it loads the image, installs NATS if it has several servers, and installs the
// chart.
func (r *Rouse) Install(ctx context.Context, cluster *local.Cluster) error {
	if err := cluster.Kubectl().Apply(ctx, fixtures(r.sources.Reference())); err != nil {
		return err
	}
	registry, err := cluster.BinaryImage(components.Registry().Name)
	if err != nil {
		return err
	}
	authorities, err := cluster.Authorities()
	if err != nil {
		return err
	}
	images := Images{
		Rouse: r.server, NATS: r.nats, Registry: registry, Runtimes: r.runtimes, CABundle: authorities, Nodes: cluster.Links(),
	}
	// A checkout of an earlier release has a chart that refuses these values.
	schema, err := os.ReadFile(filepath.Join(r.options.Checkout, "charts", "rouse", "values.schema.json"))
	if err != nil {
		return fmt.Errorf("read the schema of the chart's values: %w", err)
	}
	has := func(value string) bool { return bytes.Contains(schema, []byte(strconv.Quote(value))) }
	if has("standIns") {
		images.StandIns = standIns
	}
	if has("schemas") {
		images.EventSchemas = "event-schemas"
	}
	images.Dashboard = has("dashboard")
	err = cluster.Step(ctx, "load Rouse's image", func(ctx context.Context, _ command.Detail) error {
		return cluster.Load(ctx, r.server)
	})
	if err != nil {
		return err
	}
	if replicas := r.options.NATSReplicas; replicas > 1 {
		if err := r.installNATS(ctx, cluster); err != nil {
			return err
		}
		images.NATSURL, images.StreamReplicas = natsURL(replicas), replicas
	}
	return cluster.Step(ctx, "install the chart", func(ctx context.Context, detail command.Detail) error {
		detail("release %s in namespace %s", release, namespace)
		values, err := images.Values()
		if err != nil {
			return err
		}
		return cluster.InstallChart(ctx, namespace, release, filepath.Join(r.options.Checkout, "charts", "rouse"), values)
	})
}

func (r *Rouse) installNATS(ctx context.Context, cluster *local.Cluster) error {
	return cluster.Step(ctx, "NATS cluster", func(ctx context.Context, detail command.Detail) error {
		detail("%s", strings.ReplaceAll(natsURL(r.options.NATSReplicas), "nats://", ""))
		manifests, err := natsManifests(r.nats, r.options.NATSReplicas)
		if err != nil {
			return err
		}
		if err := cluster.Kubectl().Apply(ctx, manifests); err != nil {
			return err
		}
		return cluster.Kubectl().RolledOut(ctx, "nats-system", "statefulset/nats", local.RolloutLimit)
	})
}

// Bases writes the base images of the runtimes into the output folder, for a release.
func (r *Rouse) Bases(ctx context.Context, cluster *local.Cluster) error {
	if r.options.Out == "" {
		return errors.New("--out is empty: name the folder that the bases are written to")
	}
	if _, err := os.Stat(r.options.Out); err == nil {
		return fmt.Errorf("--out %s is there already: remove it, or name another folder", r.options.Out)
	}
	chosen, err := Choose(r.options.Runtimes)
	if err != nil {
		return err
	}
	unlock, err := state.Lock(state.LockFile)
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.MkdirAll(cluster.Builder().Logs, 0o755); err != nil {
		return err
	}
	if err := cluster.InstallPackages(ctx); err != nil {
		return err
	}
	return cluster.Step(ctx, "bases of runtimes", func(ctx context.Context, detail command.Detail) error {
		detail("%d, for two architectures", len(chosen))
		if err := r.source(cluster).Bases(ctx, chosen, r.options.Out); err != nil {
			return errors.Join(err, os.RemoveAll(r.options.Out))
		}
		return nil
	})
}

// OwnCluster returns the requirements of a user's own cluster.
func OwnCluster() string {
	return fmt.Sprintf(`KUBECONFIG names a cluster of your own, so none is built. It needs:
- KEDA in the namespace keda (or the chart's value keda.namespace), and a default StorageClass for NATS
- Rouse in the namespace %[1]s, from images that the cluster can pull:
    docker build -t REGISTRY/rouse:TAG .
    docker build -t REGISTRY/rouse-runtime-nodejs22:TAG runtimes/nodejs   (and so on, with --build-arg BASE_IMAGE: %[2]s)
    helm upgrade --install %[3]s charts/rouse --namespace %[1]s --create-namespace --set image.repository=REGISTRY/rouse --set image.tag=TAG

`, namespace, strings.Join(DefaultRuntimes(), ", "), release)
}
