package framework

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FunctionLabel is on every pod of a Function and holds its name.
const FunctionLabel = "serverless.kyma-project.io/function-name"

// Chain is the sample order chain: each Function is woken by the one before it.
type Chain struct {
	Folder    string
	Namespace string
	Functions []string // in the order of the chain
}

// Orders is the chain of samples/orders, read from its folder.
func Orders(folder string) Chain {
	return Chain{Folder: folder, Namespace: "orders", Functions: []string{"pricing", "invoicing", "recorder"}}
}

// Start applies the sample's files as they are, makes its Functions fall asleep soon, and waits until all sleep.
func (o Chain) Start(ctx context.Context, cluster *Cluster) error {
	for _, file := range append([]string{"namespace"}, o.Functions...) {
		manifest, err := os.ReadFile(filepath.Join(o.Folder, file+".yaml"))
		if err != nil {
			return fmt.Errorf("read the sample: %w", err)
		}
		if err := cluster.ApplyYAML(ctx, o.Namespace, string(manifest)); err != nil {
			return err
		}
	}
	for _, function := range o.Functions {
		if err := cluster.fallAsleepSoon(ctx, o.Namespace, function); err != nil {
			return err
		}
	}
	for _, function := range o.Functions {
		if err := cluster.AwaitCondition(ctx, o.Namespace, FunctionGVK, function, "Running", "True", 2*time.Minute); err != nil {
			return err
		}
		if err := cluster.AwaitSubscribed(ctx, o.Namespace, function); err != nil {
			return err
		}
	}
	return o.AwaitAsleep(ctx, cluster)
}

// AwaitAsleep waits until every Function of the chain is at zero.
func (o Chain) AwaitAsleep(ctx context.Context, cluster *Cluster) error {
	for _, function := range o.Functions {
		if err := cluster.AwaitReplicas(ctx, o.Namespace, function, 0, 3*time.Minute); err != nil {
			return err
		}
	}
	return nil
}

// PublishOrder publishes the sample's order.received under an id of its own.
func (o Chain) PublishOrder(ctx context.Context, cluster *Cluster, id string) error {
	event, err := os.ReadFile(filepath.Join(o.Folder, "events", "order-received.json"))
	if err != nil {
		return fmt.Errorf("read the sample: %w", err)
	}
	header := http.Header{"Content-Type": {"application/cloudevents+json"}}
	body := strings.ReplaceAll(string(event), "order-1001", id)
	status, answer, err := cluster.Request(ctx, http.MethodPost, System, "rouse-eventbridge", "publish", header, []byte(body))
	if err != nil {
		return fmt.Errorf("publish order %s: %w", id, err)
	}
	if status != http.StatusNoContent {
		return fmt.Errorf("publish order %s: status %d: %s", id, status, answer)
	}
	return nil
}

func (c *Cluster) fallAsleepSoon(ctx context.Context, namespace, function string) error {
	patch := &unstructured.Unstructured{}
	patch.SetGroupVersionKind(FunctionGVK)
	patch.SetNamespace(namespace)
	patch.SetName(function)
	patch.SetAnnotations(Fast())
	err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(patch), client.FieldOwner("rouse-e2e-tuning"), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("tune %s: %w", function, err)
	}
	return nil
}
