package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

const (
	// heldEvents is the backlog that has to remain after an upgrade and after a rollback.
	heldEvents = 50
	// started is the timeout for Functions to run, or to fall asleep.
	started = 2 * time.Minute
)

// stage is a namespace with chains of Functions, and with clients that no release of Rouse changes.
type stage struct {
	cluster   *framework.Cluster
	namespace string
	callers   map[string]*framework.Caller   // by the Function that each calls
	moves     map[string]*framework.Replicas // of the Functions that have to stay asleep
	backlog   []string                       // keys of the pending events of held
	load      *load

	older, newer templates
}

func newStage(ctx context.Context, cluster *framework.Cluster) (s *stage, err error) {
	s = &stage{cluster: cluster, moves: map[string]*framework.Replicas{}, callers: map[string]*framework.Caller{}}
	if s.namespace, err = cluster.CreateNamespace(ctx, "upgrade"); err != nil {
		return s, err
	}
	if err := s.startClients(ctx); err != nil {
		return s, err
	}
	var manifest strings.Builder
	for _, function := range functions() {
		function.Runtime, function.Annotations = runtime, framework.Fast()
		manifest.WriteString(function.YAML() + "---\n")
	}
	for _, chain := range chains() {
		subscription := framework.Subscription{Name: chain, Namespace: s.namespace, Type: kind(chain), Sink: chain}
		manifest.WriteString(subscription.YAML() + "---\n")
	}
	rule := framework.APIRule{Name: exposed, Host: exposed, Service: exposed, Gateway: framework.OwnGateway, Methods: []string{http.MethodPost}}
	manifest.WriteString(rule.YAML())
	if err := cluster.ApplyYAML(ctx, s.namespace, manifest.String()); err != nil {
		return s, err
	}
	return s, s.settle(ctx)
}

// startClients starts the ledger, and a client for each Function that gets requests.
func (s *stage) startClients(ctx context.Context) (err error) {
	if err := s.cluster.StartLedger(ctx, s.namespace); err != nil {
		return err
	}
	unchanged := []string{framework.LedgerName}
	for _, called := range []string{asked, exposed, visited} {
		name := called + "-caller"
		if s.callers[called], err = s.cluster.StartCallerAs(ctx, s.namespace, name); err != nil {
			return err
		}
		unchanged = append(unchanged, name)
	}
	for _, name := range unchanged {
		if err := s.cluster.Detach(ctx, s.namespace, name); err != nil {
			return err
		}
	}
	return nil
}

// settle waits until all Functions run, and those that may sleep are asleep.
func (s *stage) settle(ctx context.Context) error {
	if err := s.cluster.AwaitState(ctx, s.namespace, exposed, "Ready", "", started); err != nil {
		return err
	}
	for _, chain := range chains() {
		if err := s.cluster.AwaitSubscribed(ctx, s.namespace, chain); err != nil {
			return err
		}
	}
	for _, function := range functions() {
		if err := s.cluster.AwaitCondition(ctx, s.namespace, framework.FunctionGVK, function.Name, "Running", "True", started); err != nil {
			return err
		}
	}
	for _, function := range functions() {
		if !function.Asleep {
			continue
		}
		if err := s.cluster.AwaitNoPods(ctx, s.namespace, function.Name, started); err != nil {
			return err
		}
	}
	for _, asleep := range []string{held, dormant} {
		record, err := s.cluster.RecordReplicas(ctx, s.namespace, asleep)
		if err != nil {
			return err
		}
		s.moves[asleep] = record
	}
	return nil
}

// hold pauses the chain held and publishes its backlog.
func (s *stage) hold(ctx context.Context, prefix string) error {
	if err := s.pause(ctx, true); err != nil {
		return err
	}
	if err := s.cluster.AwaitNoPods(ctx, s.namespace, held, started); err != nil {
		return err
	}
	record, err := s.cluster.RecordReplicas(ctx, s.namespace, held)
	if err != nil {
		return err
	}
	s.moves[held] = record
	for i := range heldEvents {
		key, err := s.load.publish(ctx, held, fmt.Sprintf("%s-%s-%d", held, prefix, i))
		if err != nil {
			return err
		}
		s.backlog = append(s.backlog, key)
	}
	return nil
}

// release checks that the backlog of held is complete and that no Function woke, and waits until it is delivered.
func (s *stage) release(ctx context.Context) error {
	if err := s.checkAsleep(); err != nil {
		return err
	}
	balance, err := s.cluster.Balance(ctx, s.namespace, held)
	if err != nil {
		return err
	}
	if balance.Pending != heldEvents {
		return fmt.Errorf("%d events were held up, and %d are", heldEvents, balance.Pending)
	}
	if err := s.pause(ctx, false); err != nil {
		return err
	}
	_, err = s.cluster.AwaitLedger(ctx, s.namespace, s.backlog, started)
	s.backlog = nil
	return err
}

func (s *stage) pause(ctx context.Context, paused bool) error {
	subscription := &unstructured.Unstructured{}
	subscription.SetGroupVersionKind(framework.SubscriptionGVK)
	subscription.SetNamespace(s.namespace)
	subscription.SetName(held)
	patch := fmt.Sprintf(`{"spec":{"paused":%t}}`, paused)
	if err := s.cluster.Patch(ctx, subscription, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		return fmt.Errorf("pause %s: %w", held, err)
	}
	return nil
}

// checkAsleep returns an error when a Deployment that has to sleep ever had a desired replica.
func (s *stage) checkAsleep() error {
	var errs []error
	for name, record := range s.moves {
		if moves := record.Moves(); len(moves) != 1 || moves[0].Replicas != 0 {
			errs = append(errs, fmt.Errorf("%s did not stay asleep: %v", name, moves))
		}
	}
	return errors.Join(errs...)
}

// end removes the stage, after dumping it in case of a failure.
func (s *stage) end(ctx context.Context, failed bool) error {
	if s.namespace == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 4*time.Minute)
	defer cancel()
	if failed {
		s.cluster.Dump(ctx, os.Stdout, s.namespace)
	}
	return s.cluster.DeleteNamespace(ctx, s.namespace)
}

const (
	name = "rouse"
	wait = "5m"
)

// defaultGrace is the chart's default. The local cluster's own value is shorter than the time for a leader change,
// which the release before the first tag does not wait for.
const defaultGrace = "gateway.graceSeconds=15"

// release is a chart, a file with the values for its images, and further settings.
type release struct {
	chart, values string
	set           []string
}

type releases struct {
	older, newer release
}

// installOlder replaces the cluster's release by the previous one, and keeps its images in the cluster.
func installOlder(ctx context.Context, older checkout) (releases, error) {
	fmt.Printf("the release before is %s, with NATS %s\n", older.commit, natsBefore)
	found := releases{
		newer: release{chart: "charts/rouse", values: filepath.Join(older.dir, "newer.yaml")},
		older: release{
			chart: filepath.Join(older.dir, "charts", "rouse"), values: filepath.Join(older.dir, "older.yaml"), set: []string{"--set", defaultGrace},
		},
	}
	err := errors.Join(
		saveValues(ctx, found.newer.values),
		helm(ctx, "upgrade", name, found.newer.chart, "--reuse-values", "--set", "crds.keep=false,nats.persistence.keep=false", "--wait", "--timeout", wait),
		helm(ctx, "uninstall", name, "--wait", "--timeout", wait),
	)
	if err != nil {
		return releases{}, err
	}
	if _, err := output(ctx, "e2e/cluster", "go", "run", ".", "up", "--checkout", older.dir); err != nil {
		return releases{}, err
	}
	return found, errors.Join(saveValues(ctx, found.older.values), found.older.upgrade(ctx))
}

func saveValues(ctx context.Context, file string) error {
	values, err := output(ctx, ".", "helm", "get", "values", name, "--namespace", framework.System, "--output", "yaml")
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(values), 0o600)
}

// upgrade runs the documented commands, in both directions.
func (r release) upgrade(ctx context.Context, more ...string) error {
	command := []string{"upgrade", name, r.chart, "--values", r.values, "--wait", "--timeout", wait}
	return helm(ctx, slices.Concat(command, r.set, more)...)
}

func helm(ctx context.Context, args ...string) error {
	_, err := output(ctx, ".", "helm", append(args, "--namespace", framework.System)...)
	return err
}

const (
	// untagged is the last commit before the first installable one. It counts as the release before the first tag.
	untagged = "e25b0a4"
	// natsBefore is the last version of NATS's minor before the cluster's: NATS is upgraded too.
	natsBefore = "v2.14.9"

	natsModule = "e2e/cluster/components/nats"
)

// checkout is the source of a release.
type checkout struct {
	dir, commit string
}

// checkOut writes the files of the previous release into a folder.
func checkOut(ctx context.Context, wanted string) (checkout, error) {
	if wanted == "" {
		wanted = lastRelease(ctx)
	}
	commit, err := output(ctx, ".", "git", "rev-parse", "--verify", "--quiet", wanted+"^{commit}")
	if err != nil {
		return checkout{}, fmt.Errorf("this clone has no %s, which is upgraded from; fetch it with: git fetch --tags origin, and in a shallow clone --unshallow", wanted)
	}
	dir, err := os.MkdirTemp("", "rouse-before-")
	if err != nil {
		return checkout{}, fmt.Errorf("make a folder for %s: %w", wanted, err)
	}
	older := checkout{dir: dir, commit: wanted}
	if err := errors.Join(older.extract(ctx, commit), older.prepare(ctx)); err != nil {
		return checkout{}, errors.Join(err, os.RemoveAll(dir))
	}
	return older, nil
}

// lastRelease returns the last tag before the checked-out commit, which may have a tag itself.
func lastRelease(ctx context.Context) string {
	tag, err := output(ctx, ".", "git", "describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^")
	if err != nil {
		return untagged
	}
	return tag
}

func (c checkout) extract(ctx context.Context, commit string) error {
	archive := exec.CommandContext(ctx, "git", "archive", "--format=tar", commit)
	unpack := exec.CommandContext(ctx, "tar", "-x", "-C", c.dir)
	var err error
	if unpack.Stdin, err = archive.StdoutPipe(); err != nil {
		return fmt.Errorf("read %s: %w", c.commit, err)
	}
	if err := unpack.Start(); err != nil {
		return fmt.Errorf("unpack %s: %w", c.commit, err)
	}
	if err := errors.Join(archive.Run(), unpack.Wait()); err != nil {
		return fmt.Errorf("unpack %s: %w", c.commit, err)
	}
	return nil
}

// prepare sets an older NATS and, for a release without the mode, disables FIPS: the cluster builds with the module,
// which would enable it.
func (c checkout) prepare(ctx context.Context) error {
	if _, err := output(ctx, filepath.Join(c.dir, natsModule), "go", "get", "github.com/nats-io/nats-server/v2@"+natsBefore); err != nil {
		return err
	}
	module, err := os.ReadFile(filepath.Join(c.dir, "go.mod"))
	if err != nil || bytes.Contains(module, []byte("fips140=")) {
		return err
	}
	_, err = output(ctx, c.dir, "go", "mod", "edit", "-godebug=fips140=off")
	return err
}

// output runs a program in a folder and returns its output.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	var stderr bytes.Buffer
	command.Dir, command.Stderr = dir, &stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}
