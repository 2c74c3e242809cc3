// Package envtest gives tests a real kube-apiserver with a real etcd, and with
// the CRDs of the chart. There are no controllers and no nodes: what is created
// stays as it is unless the test changes it.
//
// It owns the two processes. They start at the first test that asks for them,
// once per test package, and it guarantees that they end with the test process,
// even when that one is killed.
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
// Package executable writes programs that a test runs at once.
//
// A process that another test starts while the file is open for writing has it open too until it runs its own
// program, and until then the kernel refuses to run the file: "text file busy". What is written through this
// package is open in no other process (https://go.dev/issue/22315).
package envtest
