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
package envtest
