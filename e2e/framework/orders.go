package framework

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// FunctionLabel is the label with the Function's name on its pods.
const FunctionLabel = "serverless.kyma-project.io/function-name"

// Chain is the sample order chain: each Function emits the event that wakes the next.
type Chain struct {
	Folder    string
	Namespace string
	Functions []string // in the order of the chain

	Subscriptions []string
}

// Orders is the chain of samples/orders, read from its folder.
func Orders(folder string) Chain {
	chain := []string{"pricing", "invoicing", "recorder"}
	return Chain{Folder: folder, Namespace: "orders", Functions: chain, Subscriptions: chain}
}

// Shop is the chain of samples/shop, which has an HTTP entrance. The Function status is not part of it: it stays awake
// as long as it holds data.
func Shop(folder string) Chain {
	chain := Orders(folder)
	chain.Functions = append(slices.Clone(chain.Functions), "shop")
	chain.Subscriptions = append(slices.Clone(chain.Subscriptions), "status")
	return chain
}

// Start applies the sample like kubectl apply -k, makes its Functions fall asleep soon, and waits until they sleep.
func (o Chain) Start(ctx context.Context, cluster *Cluster) error {
	functions, err := o.apply(ctx, cluster)
	if err != nil {
		return err
	}
	for _, function := range o.Functions {
		if err := cluster.FallAsleepSoon(ctx, o.Namespace, function); err != nil {
			return err
		}
	}
	for _, function := range functions {
		if err := cluster.AwaitCondition(ctx, o.Namespace, FunctionGVK, function, "Running", "True", 2*time.Minute); err != nil {
			return err
		}
	}
	for _, subscription := range o.Subscriptions {
		if err := cluster.AwaitSubscribed(ctx, o.Namespace, subscription); err != nil {
			return err
		}
	}
	return o.AwaitAsleep(ctx, cluster)
}

// apply applies the sample without APIRules, which not every cluster supports, and returns the names of all Functions.
func (o Chain) apply(ctx context.Context, cluster *Cluster) (functions []string, err error) {
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), o.Folder)
	if err != nil {
		return nil, fmt.Errorf("build the sample: %w", err)
	}
	for _, object := range objects.Resources() {
		if object.GetKind() == "APIRule" {
			continue
		}
		manifest, err := object.AsYAML()
		if err != nil {
			return nil, fmt.Errorf("build the sample: %w", err)
		}
		if err := cluster.ApplyYAML(ctx, o.Namespace, string(manifest)); err != nil {
			return nil, err
		}
		if object.GetKind() == FunctionGVK.Kind {
			functions = append(functions, object.GetName())
		}
	}
	return functions, nil
}

// AwaitAsleep waits until every Function of the chain has no replicas.
func (o Chain) AwaitAsleep(ctx context.Context, cluster *Cluster) error {
	for _, function := range o.Functions {
		if err := cluster.AwaitReplicas(ctx, o.Namespace, function, 0, 3*time.Minute); err != nil {
			return err
		}
	}
	return nil
}

// PublishOrder publishes the sample's order.received with the given id.
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

// FallAsleepSoon adds the annotations of Fast to a Function.
func (c *Cluster) FallAsleepSoon(ctx context.Context, namespace, function string) error {
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
