package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/migration"
)

const (
	// readTimeout bounds one look at a cluster.
	readTimeout = 2 * time.Minute
	// maxObjects bounds the objects of a kind.
	maxObjects = 20_000

	kymaSystem = "kyma-system"
)

// Options say how a cluster is moved.
type Options struct {
	RouseNamespace string
	// HostsMoved confirms that the DNS of all hosts of APIRules leads to Rouse.
	HostsMoved bool
	// Timeout bounds the wait for what others do.
	Timeout time.Duration
	// Relics reads what Kyma's users have, and Ours what only Rouse has.
	Relics, Ours bool
}

// reading reads a cluster.
type reading struct {
	conn    *target.Connection
	objects *target.Objects
	options Options
}

// Read looks at everything that a move concerns.
func Read(ctx context.Context, conn *target.Connection, objects *target.Objects, options Options) (*Survey, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	r := reading{conn, objects, options}
	s := &Survey{Cluster: conn.Name, Namespace: options.RouseNamespace, HostsMoved: options.HostsMoved, Now: time.Now().UTC()}
	readers := []func(context.Context, *Survey) error{
		r.order, r.release, r.modules, r.controllers, r.functions, r.nats, r.subscriptions, r.publisher, r.apiRules,
	}
	if options.Relics {
		readers = append(readers, r.relics)
	}
	if options.Ours {
		readers = append(readers, r.onlyOurs)
	}
	for _, read := range readers {
		if err := read(ctx, s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (r reading) order(ctx context.Context, s *Survey) error {
	found, err := r.objects.Get(ctx, configMaps(), s.Namespace, migration.ConfigMap)
	if err != nil || found == nil {
		return err
	}
	text, _, _ := unstructured.NestedString(found.Object, "data", migration.Key)
	s.Order, err = migration.Parse(text)
	return err
}

// release reads the controller of Rouse.
func (r reading) release(ctx context.Context, s *Survey) error {
	s.Release.Flags = map[string]string{}
	return r.objects.Each(ctx, deployments(), s.Namespace, "app.kubernetes.io/part-of=rouse", maxObjects, func(found *unstructured.Unstructured) error {
		component := found.GetLabels()["app.kubernetes.io/component"]
		if component != "operator" && component != "controller" {
			return nil
		}
		deployment, err := into[appsv1.Deployment](found)
		if err != nil {
			return err
		}
		s.Release.add(deployment, objectOf(deployments(), found), component == "operator")
		return nil
	})
}

func (r *Release) add(deployment *appsv1.Deployment, object Object, operates bool) {
	controller := workloadOf(deployment, object)
	controller.Available = deployment.Status.Replicas // that are not gone
	if operates {
		r.Operates = true
		r.Controllers = slices.Insert(r.Controllers, 0, controller) // it would start the others again
		return
	}
	r.Controllers = append(r.Controllers, controller)
	r.Helm = deployment.Annotations["meta.helm.sh/release-name"]
	r.Runs = deployment.Status.ReadyReplicas > 0
	for _, container := range deployment.Spec.Template.Spec.Containers {
		for _, arg := range container.Args {
			name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			r.Flags[name] = value
		}
	}
}

// kymaController is one of Kyma's controllers, and what it would do to Rouse's objects.
type kymaController struct{ name, effect string }

func kymaControllers() []kymaController {
	return []kymaController{
		{"serverless-operator", "it would start Kyma's Function controller again"},
		{functionController, "it deletes all Deployments of a Function that has more than one"},
		{"eventing-manager", "whenever it starts it deletes the consumers of Rouse, with the events that wait in them"},
		{"api-gateway-controller-manager", "it would make the VirtualServices again, and write the status of APIRules"},
		{"nats-manager", "it would delete the NATS servers with their volumes when their resource is deleted"},
	}
}

const functionController = "serverless-ctrl-mngr"

// controllers looks for those of Kyma that run, in kyma-system and where a Serverless is.
func (r reading) controllers(ctx context.Context, s *Survey) error {
	namespaces := []string{kymaSystem}
	for _, module := range s.Modules {
		if !slices.Contains(namespaces, module.Namespace) {
			namespaces = append(namespaces, module.Namespace)
		}
	}
	for _, namespace := range namespaces {
		for _, each := range kymaControllers() {
			found, err := r.objects.Get(ctx, deployments(), namespace, each.name)
			if err != nil {
				return err
			}
			if found == nil {
				continue
			}
			deployment, err := into[appsv1.Deployment](found)
			if err != nil {
				return err
			}
			if kube.IsAppliedBy(found, kube.OperatorFieldOwner) { // that of Rouse's operator has Kyma's name
				controller := workloadOf(deployment, objectOf(deployments(), found))
				controller.Available = deployment.Status.Replicas
				s.Release.Controllers = append(s.Release.Controllers, controller)
				continue
			}
			if deployment.Status.Replicas > 0 || deployment.Spec.Replicas == nil || *deployment.Spec.Replicas > 0 {
				s.Controllers = append(s.Controllers, Controller{objectOf(deployments(), found), each.effect})
			}
		}
	}
	return nil
}

const (
	kindNATS           = "NATS"
	kindServerless     = "Serverless"
	kindVirtualService = "VirtualService"
)

// modules reads the resources of Kyma's operators.
func (r reading) modules(ctx context.Context, s *Survey) error {
	for resource, finalizer := range map[string]string{
		"serverlesses": "serverless-operator.kyma-project.io/deletion-hook",
		"eventings":    "eventing.operator.kyma-project.io/finalizer",
		"nats":         "", // it stays
	} {
		gvr := schema.GroupVersionResource{Group: "operator.kyma-project.io", Version: "v1alpha1", Resource: resource}
		err := r.objects.Each(ctx, gvr, "", "", maxObjects, func(found *unstructured.Unstructured) error {
			module := Module{Object: objectOf(gvr, found)}
			module.Finalizer, module.released = withoutFinalizer(found, finalizer)
			backend, _, _ := unstructured.NestedString(found.Object, "spec", "backend", "type")
			module.EventMesh = backend == "EventMesh"
			s.Modules = append(s.Modules, module)
			return nil
		})
		if err != nil {
			return err
		}
	}
	slices.SortFunc(s.Modules, func(a, b Module) int { return strings.Compare(a.String(), b.String()) })
	return nil
}

// withoutFinalizer is a patch without the finalizer, for the version of the object that was read.
func withoutFinalizer(object *unstructured.Unstructured, finalizer string) (has bool, patch string) {
	all := object.GetFinalizers()
	if !slices.Contains(all, finalizer) {
		return false, ""
	}
	rest := slices.DeleteFunc(slices.Clone(all), func(each string) bool { return each == finalizer })
	return true, fmt.Sprintf(`{"metadata":{"resourceVersion":%q,"finalizers":%s}}`, object.GetResourceVersion(), listOf(rest))
}

func listOf(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = fmt.Sprintf("%q", text)
	}
	return "[" + strings.Join(quoted, ",") + "]"
}

// nats asks a bridge, which may read the consumers that only the controller may change.
func (r reading) nats(ctx context.Context, s *Survey) error {
	admins, err := r.conn.Admins(ctx)
	for _, admin := range admins {
		client := target.New(admin)
		if s.NATS, err = client.Kyma(ctx); err != nil {
			continue
		}
		if err := r.waiting(ctx, client, s); err != nil { // its streams do not exist before the controller has taken over
			s.Uncounted = err.Error()
		}
		return ctx.Err()
	}
	if ctx.Err() == nil && err != nil {
		s.Unread = err.Error()
		return nil //nolint:nilerr // the plan reports it
	}
	return err
}

// waiting counts what waits for Subscriptions, and what is due later.
func (r reading) waiting(ctx context.Context, client *target.Client, s *Survey) (err error) {
	if s.Work, err = client.Work(ctx, ""); err != nil {
		return err
	}
	_, s.Delayed, err = client.Delayed(ctx, "", 1)
	if exit.CodeOf(err) == exit.NotFound {
		return nil // this bridge delays nothing
	}
	return err
}

func configMaps() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
}

func deployments() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
}

func objectOf(resource schema.GroupVersionResource, found *unstructured.Unstructured) Object {
	return Object{Kind: found.GetKind(), Namespace: found.GetNamespace(), Name: found.GetName(), UID: found.GetUID(), resource: resource}
}

var errUnreadable = errors.New("read what the API server sent")

func into[T any](found *unstructured.Unstructured) (*T, error) {
	object := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, object); err != nil {
		return nil, fmt.Errorf("%w of %s %s/%s: %w", errUnreadable, found.GetKind(), found.GetNamespace(), found.GetName(), err)
	}
	return object, nil
}
