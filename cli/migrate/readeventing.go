package migrate

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/internal/activation"
)

func subscriptionsResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "eventing.kyma-project.io", Version: "v1alpha2", Resource: "subscriptions"}
}

// subscriptions reads the Subscriptions; what the bridge has said of their consumers is there.
func (r reading) subscriptions(ctx context.Context, s *Survey) error {
	work := map[string]target.Work{}
	for _, each := range s.Work {
		work[each.Namespace+"/"+each.Name] = each
	}
	err := r.objects.Each(ctx, subscriptionsResource(), "", "", maxObjects, func(found *unstructured.Unstructured) error {
		sub, err := into[eventingv1alpha2.Subscription](found)
		if err != nil {
			return err
		}
		read := subscriptionRead(sub, objectOf(subscriptionsResource(), found))
		waiting := work[read.key()]
		read.Consumer, read.Retries, read.DeadLetters = waiting.Consumer, waiting.WaitingRetries, waiting.DeadLetters
		s.Subscriptions = append(s.Subscriptions, read)
		return nil
	})
	slices.SortFunc(s.Subscriptions, func(a, b Subscription) int { return strings.Compare(a.key(), b.key()) })
	return err
}

func subscriptionRead(sub *eventingv1alpha2.Subscription, object Object) Subscription {
	read := Subscription{Object: object, Ready: sub.Status.Ready, Types: len(sub.Spec.Types), OnlyOurs: onlyOursOf(sub.Annotations)}
	for _, condition := range sub.Status.Conditions {
		if condition.Status != corev1.ConditionFalse || condition.Message == "" || read.Problem != "" {
			continue
		}
		read.Problem = condition.Message
		read.Invalid = condition.Type == eventingv1alpha2.ConditionSpecValid && strings.HasPrefix(condition.Message, "Subscription validation failed")
	}
	for field, set := range map[string]bool{
		"spec.filter": sub.Spec.Filter != nil, "spec.delivery": sub.Spec.Delivery != nil, "spec.paused": sub.Spec.Paused,
	} {
		if set {
			read.OnlyOurs = append(read.OnlyOurs, field)
		}
	}
	slices.Sort(read.OnlyOurs)
	return read
}

const publisherName = "eventing-publisher-proxy"

func services() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "services"}
}

func endpointSlices() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
}

// publisher reads the Service at Kyma's address for publishers.
func (r reading) publisher(ctx context.Context, s *Survey) error {
	workload, err := r.objects.Get(ctx, deployments(), kymaSystem, publisherName)
	if err != nil {
		return err
	}
	if workload != nil {
		s.Publisher.Workload = new(objectOf(deployments(), workload))
	}
	found, err := r.objects.Get(ctx, services(), kymaSystem, publisherName)
	if err != nil || found == nil {
		return err
	}
	service, err := into[corev1.Service](found)
	if err != nil {
		return err
	}
	p := &s.Publisher
	p.Service = new(objectOf(services(), found))
	p.Owned = service.Annotations["meta.helm.sh/release-name"] == s.Release.Helm && service.Annotations["meta.helm.sh/release-namespace"] == s.Namespace
	p.Selects = len(service.Spec.Selector) > 0
	return r.publisherEndpoints(ctx, p)
}

// publisherEndpoints finds Rouse's endpoints of the Service, and those that other controllers of Kubernetes leave when it selects no pods.
func (r reading) publisherEndpoints(ctx context.Context, p *Publisher) error {
	resource := endpointSlices()
	named := discoveryv1.LabelServiceName + "=" + publisherName
	err := r.objects.Each(ctx, resource, kymaSystem, named, maxObjects, func(found *unstructured.Unstructured) error {
		if found.GetLabels()[discoveryv1.LabelManagedBy] != activation.AliasManagedBy {
			p.Stale = append(p.Stale, objectOf(resource, found))
			return nil
		}
		slice, err := into[discoveryv1.EndpointSlice](found)
		if err != nil {
			return err
		}
		p.Aliased = p.Aliased || slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool {
			return e.Conditions.Ready == nil || *e.Conditions.Ready
		})
		return nil
	})
	if err != nil {
		return err
	}
	endpoints := schema.GroupVersionResource{Version: "v1", Resource: "endpoints"}
	found, err := r.objects.Get(ctx, endpoints, kymaSystem, publisherName)
	if err != nil || found == nil {
		return err
	}
	p.Stale = slices.Insert(p.Stale, 0, objectOf(endpoints, found)) // before what is mirrored of it
	return nil
}
