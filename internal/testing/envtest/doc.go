// Package envtest gives tests a real kube-apiserver with a real etcd, and with the CRDs of the chart. There are no controllers and
// nodes: objects do not change unless the test changes them.
//
// It owns the two processes. They start with the first test that needs them, once per test package, and it guarantees that they end
// with the test process, even when it is killed.
//
//	var cluster = envtest.New()
//
//	func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }
//
//	func TestSomething(t *testing.T) {
//		env := cluster.Environment(t)
//		namespace := env.Namespace(t)
//		err := env.Client.Create(t.Context(), ...)
//	}
//
// With ROUSE_WATCH_LAG=1s the events of watches come up to a second late, at random: caches are then stale as on a busy cluster, and
// what takes them for the truth fails soon instead of once in fifty runs.
//
// It also writes executables that a test runs at once. A process that another test starts while such a file is open for writing inherits
// the file until it runs its own program, and until then the kernel refuses to run it: "text file busy". Files written by this
// package are open in no other process (https://go.dev/issue/22315).
package envtest
