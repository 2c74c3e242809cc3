package local

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/rouse-run/rouse/e2e/cluster/kubectl"
	"github.com/rouse-run/rouse/e2e/cluster/progress"
	"github.com/rouse-run/rouse/e2e/cluster/release"
)

const ownCluster = `KUBECONFIG names a cluster of your own, so none is built. It needs:
- KEDA in the namespace keda (or the chart's value keda.namespace), and a default StorageClass for NATS
- Rouse in the namespace %[1]s, from images that the cluster can pull:
    docker build -t REGISTRY/rouse:TAG .
    docker build -t REGISTRY/rouse-runtime-nodejs22:TAG runtimes/nodejs   (and so on, with --build-arg BASE_IMAGE: %[2]s)
    helm upgrade --install %[3]s charts/rouse --namespace %[1]s --create-namespace --set image.repository=REGISTRY/rouse --set image.tag=TAG

`

// CheckOwn checks whether the user's own cluster answers and has what is needed, and changes nothing.
func (c *Cluster) CheckOwn(ctx context.Context) error {
	c.progress.Printf(ownCluster, release.Namespace, strings.Join(release.DefaultRuntimes(), ", "), release.Name)
	return c.progress.Step(ctx, "cluster of your own", func(ctx context.Context, detail progress.Detail) error {
		binary, err := exec.LookPath("kubectl")
		if err != nil {
			return fmt.Errorf("look at the cluster of KUBECONFIG: %w", err)
		}
		client := kubectl.Client{Binary: binary}
		if err := client.Ready(ctx); err != nil {
			return fmt.Errorf("the cluster of KUBECONFIG=%s does not answer: %w", c.options.Kubeconfig, err)
		}
		detail("%s answers", c.options.Kubeconfig)
		return nil
	})
}
