package main

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/rouse-run/rouse/e2e/framework"
)

// spinSource uses as many processors as its limit allows, and nothing of Rouse's.
const spinSource = `
new (require('worker_threads').Worker)('for (;;) {}', { eval: true })
module.exports.main = () => 'busy'
`

// busy is a tenant that only computes, and so the control of a hostile one: what is slow beside it waits for a processor, and not in a queue of Rouse's.
type busy struct {
	cluster   *framework.Cluster
	cores     float64 // of all its pods, whose limits are those of the hostile one's
	namespace string
}

// begin returns when all pods compute.
func (b *busy) begin(ctx context.Context) (err error) {
	if b.namespace, err = b.cluster.CreateNamespace(ctx, "busy"); err != nil {
		return err
	}
	var names, documents []string
	for i := range max(1, int(math.Round(b.cores*1000/limitMillis))) {
		name := fmt.Sprintf("busy-%d", i)
		names, documents = append(names, name), append(documents, limited(name, spinSource).YAML())
	}
	if err := b.cluster.ApplyYAML(ctx, b.namespace, strings.Join(documents, "---\n")); err != nil {
		return err
	}
	for _, name := range names {
		if err := b.cluster.AwaitAnswer(ctx, b.namespace, name, "busy", ended); err != nil {
			return err
		}
	}
	return nil
}

func (b *busy) end(ctx context.Context) error {
	if b.namespace == "" {
		return nil
	}
	return b.cluster.DeleteNamespace(ctx, b.namespace)
}
