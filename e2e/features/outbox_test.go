//go:build e2e

package features

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

// The program is killed, and then its pod is replaced, each time between an event and the deletion of its row.
func TestAnOutboxIsPublishedOnceByAWorkloadThatKEDAWakes(t *testing.T) {
	const rows = 50
	t.Parallel()
	cluster, namespace := connect(t)
	database := startPostgres(t, cluster)
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	startOutbox(t, cluster, namespace, database)
	record, err := cluster.RecordReplicas(t.Context(), namespace, "outbox")
	require.NoError(t, err)

	// The last row has no type, which no ingress takes.
	database.query(t, fmt.Sprintf(`INSERT INTO outbox (type, data)
		SELECT CASE WHEN n <= %d THEN 'outbox.rows.v1' ELSE '' END, json_build_object('key', 'row-' || n) FROM generate_series(1, %[1]d + 1) n`, rows))
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "outbox", 1, 2*time.Minute))
	awaitWithinBatch(t, cluster, namespace, database, rows)
	require.NoError(t, cluster.KillPod(t.Context(), podOfOutbox(t, cluster, namespace)))
	// It has begun again, and goes on with what the killed one had published.
	require.NoError(t, framework.Await(t.Context(), time.Minute, "a batch", func(context.Context) (bool, error) {
		return waiting(t, database) <= rows-20, nil
	}))
	awaitWithinBatch(t, cluster, namespace, database, rows)
	require.NoError(t, cluster.Delete(t.Context(), podOfOutbox(t, cluster, namespace), client.GracePeriodSeconds(0)))

	keys := make([]string, rows)
	for i := range keys {
		keys[i] = fmt.Sprintf("row-%d", i+1)
	}
	_, err = cluster.AwaitLedger(t.Context(), namespace, keys, 2*time.Minute)
	require.NoError(t, err)
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "outbox", 0, asleep))
	moves := record.Moves()
	t.Logf("replicas: %v", moves)
	require.Equal(t, 1, framework.DirectionChanges(moves), "one wake, and one sleep: %v", moves)

	requireConserved(t, cluster, namespace, framework.LedgerName, keys)
	entries, err := cluster.Ledger(t.Context(), namespace)
	require.NoError(t, err)
	for _, key := range keys {
		require.Equal(t, 1, entries[key].Count, "%s was delivered again", key)
	}
	require.Regexp(t, `^51\|400 [^\n]+$`, database.query(t, "SELECT id, refused FROM outbox"), "the row that is refused is left, with the reason")
}

// startOutbox starts samples/outbox in a namespace, with a source of its own, and returns when it sleeps. A row takes 0.3 s, so that
// there is a middle to be killed in. The ledger has its events. Packages come from this machine, since pods may reach no registry of them.
func startOutbox(t *testing.T, cluster *framework.Cluster, namespace string, database *postgres) {
	t.Helper()
	sample := filepath.Join("..", "..", "samples", "outbox")
	files := map[string]string{}
	for _, name := range []string{"outbox.py", "outbox.sql", "outbox.yaml", "requirements.txt"} {
		content, err := os.ReadFile(filepath.Join(sample, name))
		require.NoError(t, err)
		files[name] = string(content)
	}
	database.query(t, "CREATE ROLE outbox LOGIN PASSWORD '"+database.password+"'", files["outbox.sql"])
	slow := strings.Replace(files["outbox.py"], "            ingress.publish(", "            time.sleep(0.3)\n            ingress.publish(", 1)
	image, err := cluster.RuntimeImage(t.Context(), "python312")
	require.NoError(t, err)
	here := strings.NewReplacer(
		"namespace: outbox", "namespace: "+namespace, "value: shop", "value: "+namespace, "image: python:3.12-slim", "image: "+image,
		"pollingInterval: 5", "pollingInterval: 1", "cooldownPeriod: 60", "cooldownPeriod: 5",
		"command: [python3, -m, pip, install,", "command: [python3, -m, pip, install, --no-index, --find-links=/wheels,",
		"- {name: tmp, mountPath: /tmp}", "- {name: tmp, mountPath: /tmp}\n            - {name: wheels, mountPath: /wheels}",
		"- name: tmp\n", "- name: wheels\n          configMap: {name: wheels}\n        - name: tmp\n",
	).Replace(files["outbox.yaml"])

	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
	require.NoError(t, cluster.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: meta("wheels"), BinaryData: wheels(t, sample)}))
	require.NoError(t, cluster.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: meta("outbox"), Data: map[string]string{"outbox.py": slow, "requirements.txt": files["requirements.txt"]},
	}))
	require.NoError(t, cluster.Create(t.Context(), &corev1.Secret{ObjectMeta: meta("database"), StringData: map[string]string{
		"host": database.host, "port": database.port, "dbName": "postgres", "userName": "outbox", "password": database.password, "sslmode": "disable",
	}}))
	subscription := framework.Subscription{
		Name: "rows", Namespace: namespace, Source: namespace, Type: "outbox.rows.v1", Sink: framework.LedgerName, InFlight: 50,
	}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, subscription.YAML()+"---\n"+here))
	require.NoError(t, cluster.AwaitSubscribed(t.Context(), namespace, "rows"))
	require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.ScaledObjectGVK, "outbox", "Ready", "True", time.Minute))
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "outbox", 0, asleep))
}

// wheels returns the packages that a sample requires, by their files' names.
func wheels(t *testing.T, sample string) map[string][]byte {
	t.Helper()
	folder, found := t.TempDir(), map[string][]byte{}
	out, err := exec.CommandContext(t.Context(), "python3", "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes",
		"--only-binary=:all:", "--python-version=3.12", "--dest", folder, "--requirement", filepath.Join(sample, "requirements.txt")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, entry := range entries {
		found[entry.Name()], err = os.ReadFile(filepath.Join(folder, entry.Name()))
		require.NoError(t, err)
	}
	return found
}

// waiting returns how many rows are not published, or published and not deleted yet.
func waiting(t *testing.T, database *postgres) int {
	t.Helper()
	n, err := strconv.Atoi(database.query(t, "SELECT count(*) FROM outbox WHERE type <> ''"))
	require.NoError(t, err)
	return n
}

// awaitWithinBatch waits until some rows of a batch are published and none of them is deleted.
func awaitWithinBatch(t *testing.T, cluster *framework.Cluster, namespace string, database *postgres, rows int) {
	t.Helper()
	require.NoError(t, framework.Await(t.Context(), time.Minute, "the middle of a batch", func(ctx context.Context) (bool, error) {
		entries, err := cluster.Ledger(ctx, namespace)
		published, deleted := len(entries), rows-waiting(t, database)
		if err == nil && published >= rows {
			t.Fatal("all rows are published: the test has no effect")
		}
		return published >= deleted+3 && published < deleted+15, err
	}))
}

func podOfOutbox(t *testing.T, cluster *framework.Cluster, namespace string) *corev1.Pod {
	t.Helper()
	pods := &corev1.PodList{}
	require.NoError(t, cluster.List(t.Context(), pods, client.InNamespace(namespace), client.MatchingLabels{"app": "outbox"}))
	require.Len(t, pods.Items, 1)
	return &pods.Items[0]
}

// postgres is a server on this machine that pods reach.
type postgres struct {
	host, port, password string
	programs             string // the folder of its programs
}

// startPostgres starts a server with a password and an empty database until the end of the test.
func startPostgres(t *testing.T, cluster *framework.Cluster) *postgres {
	t.Helper()
	server := &postgres{host: addressForPods(t, cluster), password: rand.Text(), programs: postgresPrograms(t)}
	folder, err := os.MkdirTemp("", "rouse-outbox-") //nolint:usetesting // the server's user does not reach a folder of the test's
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	// It refuses to run as root. Debian's package brings a user.
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGINT}
	secret, data := filepath.Join(folder, "password"), filepath.Join(folder, "data")
	require.NoError(t, os.WriteFile(secret, []byte(server.password), 0o600))
	if os.Geteuid() == 0 {
		attributes.Credential = userOf(t, "postgres")
		for _, path := range []string{folder, secret} {
			require.NoError(t, os.Chown(path, int(attributes.Credential.Uid), int(attributes.Credential.Gid)))
		}
	}
	run := func(program string, args ...string) *exec.Cmd {
		command := exec.CommandContext(t.Context(), filepath.Join(server.programs, program), args...)
		command.Dir, command.SysProcAttr = folder, attributes
		return command
	}
	out, err := run("initdb", "--pgdata", data, "--username=postgres", "--pwfile", secret, "--auth=scram-sha-256", "--no-sync", "--encoding=UTF8").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte("host all all all scram-sha-256\n"), 0o600))

	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(server.host, "0"))
	require.NoError(t, err)
	_, server.port, err = net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	command := run("postgres", "-D", data, "-c", "listen_addresses="+server.host, "-c", "port="+server.port,
		"-c", "unix_socket_directories=", "-c", "fsync=off")
	log := &strings.Builder{}
	command.Stdout, command.Stderr = log, log
	command.Cancel, command.WaitDelay = func() error { return command.Process.Signal(syscall.SIGINT) }, 15*time.Second
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Wait()
		if t.Failed() {
			t.Logf("the server of PostgreSQL: %s", log)
		}
	})
	require.NoError(t, framework.Await(t.Context(), 30*time.Second, "the server of PostgreSQL", func(ctx context.Context) (bool, error) {
		out, err := server.psql(ctx, "SELECT 1")
		if err != nil {
			return false, fmt.Errorf("%w: %s", err, out)
		}
		return true, nil
	}))
	return server
}

// postgresPrograms returns the folder of the server's programs, which Debian puts into no PATH.
func postgresPrograms(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("initdb"); err == nil {
		path, err = filepath.EvalSymlinks(path)
		require.NoError(t, err)
		return filepath.Dir(path)
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	require.NoError(t, err)
	require.NotEmpty(t, found, "there is no PostgreSQL on this machine: run go run -C e2e/cluster . packages")
	return filepath.Dir(found[len(found)-1])
}

// addressForPods returns the address of this machine on the way to the API server, and skips the test where that is loopback.
func addressForPods(t *testing.T, cluster *framework.Cluster) string {
	t.Helper()
	server, err := url.Parse(cluster.Config.Host)
	require.NoError(t, err)
	probe, err := new(net.Dialer).DialContext(t.Context(), "udp", net.JoinHostPort(server.Hostname(), "443")) // sends nothing
	require.NoError(t, err)
	defer func() { _ = probe.Close() }()
	address, ok := probe.LocalAddr().(*net.UDPAddr)
	require.True(t, ok)
	if address.IP.IsLoopback() {
		t.Skip("pods of this cluster cannot reach a server of this machine")
	}
	return address.IP.String()
}

func userOf(t *testing.T, name string) *syscall.Credential {
	t.Helper()
	found, err := user.Lookup(name)
	require.NoError(t, err)
	uid, err := strconv.ParseUint(found.Uid, 10, 32)
	require.NoError(t, err)
	gid, err := strconv.ParseUint(found.Gid, 10, 32)
	require.NoError(t, err)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// query runs statements as the administrator, and returns the rows, with | between columns.
func (p *postgres) query(t *testing.T, statements ...string) string {
	t.Helper()
	out, err := p.psql(t.Context(), strings.Join(statements, ";\n"))
	require.NoError(t, err, "%s", out)
	return out
}

func (p *postgres) psql(ctx context.Context, statements string) (string, error) {
	command := exec.CommandContext(ctx, filepath.Join(p.programs, "psql"), "--no-psqlrc", "--quiet", "--tuples-only", "--no-align",
		"--set=ON_ERROR_STOP=1", "--host", p.host, "--port", p.port, "--username=postgres")
	command.Env = append(os.Environ(), "PGPASSWORD="+p.password)
	command.Stdin = strings.NewReader(statements)
	out, err := command.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}
