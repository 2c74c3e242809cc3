package migrate

import (
	"context"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/activation"
)

// maxRelics bounds how many places a plan explains.
const maxRelics = 1000

// relics finds what Kyma's users had, each with its counterpart.
func (r reading) relics(ctx context.Context, s *Survey) error {
	for _, read := range []func(context.Context, *Survey) error{r.secrets, r.entrances, r.authorizers, r.rights, r.dashboards, r.alerts, r.scrapes} {
		if err := read(ctx, s); err != nil {
			if ctx.Err() != nil {
				return err
			}
			s.Relics = append(s.Relics, Relic{Now: "a part was not read: " + err.Error()}) // nothing depends on them
		}
	}
	s.Relics = s.Relics[:min(len(s.Relics), maxRelics)]
	slices.SortStableFunc(s.Relics, func(a, b Relic) int { return strings.Compare(a.String(), b.String()) })
	return nil
}

const (
	packageRegistry = "serverless-package-registry-config"
	ownRegistry     = "belongs to Kyma's own registry and can be deleted: the chart's registry has an account for each namespace"
)

// secrets names the Secrets of registries and of Git sources. Their content is not kept.
func (r reading) secrets(ctx context.Context, s *Survey) error {
	resource := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	places := map[types.NamespacedName]string{
		{Namespace: kymaSystem, Name: packageRegistry}: "is not copied to other namespaces: create it in each namespace whose builds need it",
	}
	for i := range s.Functions {
		namespace := s.Functions[i].Namespace
		places[types.NamespacedName{Namespace: namespace, Name: packageRegistry}] = "stays: builds use the same keys"
		places[types.NamespacedName{Namespace: namespace, Name: "serverless-registry-config"}] = "stays: images of the namespace are pushed to that registry"
		places[types.NamespacedName{Namespace: namespace, Name: "serverless-registry-config-default"}] = ownRegistry
		if name := s.Functions[i].GitSecret; name != "" {
			places[types.NamespacedName{Namespace: namespace, Name: name}] = "stays: Git sources use the same keys"
		}
	}
	for place, now := range places {
		found, err := r.objects.Get(ctx, resource, place.Namespace, place.Name)
		if err != nil {
			return err
		}
		if found != nil {
			s.Relics = append(s.Relics, Relic{objectOf(resource, found), now})
		}
	}
	return nil
}

// rights finds the bindings of Kyma's roles.
func (r reading) rights(ctx context.Context, s *Survey) error {
	for _, resource := range []string{"rolebindings", "clusterrolebindings"} {
		gvr := rbacv1.SchemeGroupVersion.WithResource(resource)
		err := r.objects.Each(ctx, gvr, "", "", maxObjects, func(found *unstructured.Unstructured) error {
			role, _, _ := unstructured.NestedString(found.Object, "roleRef", "name")
			if now := roleNow(role); now != "" {
				s.Relics = append(s.Relics, Relic{objectOf(gvr, found), "binds " + role + ": bind " + now})
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// roleNow is the role of the chart that has the rights of a role of Kyma's, empty for any other.
func roleNow(role string) string {
	switch role {
	case "kyma-functions-edit", "kyma-eventing-edit":
		return "rouse-edit, which edit of a namespace contains"
	case "kyma-functions-view", "kyma-eventing-view", "kyma-serverless-view":
		return "rouse-view, which view of a namespace contains"
	case "kyma-serverless-edit":
		return "a role of your own where a Serverless is written: it rules the Functions of all namespaces"
	default:
		return ""
	}
}

// dashboards finds the pages of Kyma's dashboard, the commands of its command line, and what shows its metrics.
func (r reading) dashboards(ctx context.Context, s *Survey) error {
	for _, kind := range []struct {
		selector string
		is       func(*unstructured.Unstructured) bool
		now      string
	}{
		{"busola.io/extension", concerns, "is a page of Kyma's dashboard, which still shows these resources; " +
			"events, backlogs and dead letters are in metrics.dashboards.enabled and the command line"},
		{"kyma-cli/extension", concerns, "is a command of Kyma's command line: rouse init, deploy, get, describe and delete do the same"},
		{"grafana_dashboard", readsKyma, "reads Kyma's metrics: eventing_epp_* and eventing_ec_* are served by the eventbridge, " +
			"and metrics.dashboards.enabled has more"},
	} {
		err := r.objects.Each(ctx, configMaps(), "", kind.selector, maxObjects, func(found *unstructured.Unstructured) error {
			if kind.is(found) {
				s.Relics = append(s.Relics, Relic{objectOf(configMaps(), found), kind.now})
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// concerns reports whether an extension is of one of the modules.
func concerns(found *unstructured.Unstructured) bool {
	return slices.ContainsFunc([]string{"function", "serverless", "subscription", "eventing", "nats", "apirule"}, func(word string) bool {
		return strings.Contains(found.GetName(), word)
	})
}

// readsKyma reports whether an object has one of Kyma's metrics.
func readsKyma(found *unstructured.Unstructured) bool {
	text, err := found.MarshalJSON()
	if err != nil {
		return false
	}
	return slices.ContainsFunc([]string{"eventing_epp_", "eventing_ec_", "serverless_function_", "jetstream_consumer_"}, func(name string) bool {
		return strings.Contains(string(text), name)
	})
}

// alerts finds the rules that read Kyma's metrics.
func (r reading) alerts(ctx context.Context, s *Survey) error {
	gvr := schema.GroupVersionResource{Group: "monitoring.coreos.com", Version: "v1", Resource: "prometheusrules"}
	return r.objects.Each(ctx, gvr, "", "", maxObjects, func(found *unstructured.Unstructured) error {
		if readsKyma(found) {
			s.Relics = append(s.Relics, Relic{
				objectOf(gvr, found), "reads Kyma's metrics: eventing_epp_* and eventing_ec_* are served by the eventbridge, jetstream_* name other consumers, serverless_* end; " +
					"metrics.alerts.enabled has alerts for the same",
			})
		}
		return nil
	})
}

// onlyOurs finds objects that Kyma does not have.
func (r reading) onlyOurs(ctx context.Context, s *Survey) error {
	for _, resource := range []string{"schedules", "doors"} {
		gvr := schema.GroupVersionResource{Group: "rouse.run", Version: "v1alpha1", Resource: resource}
		err := r.objects.Each(ctx, gvr, "", "", maxObjects, func(found *unstructured.Unstructured) error {
			s.OnlyOurs = append(s.OnlyOurs, Difference{objectOf(gvr, found), "exists only in Rouse: delete it"})
			return nil
		})
		if err != nil {
			return err
		}
	}
	err := r.objects.Each(ctx, services(), "", "", maxObjects, func(found *unstructured.Unstructured) error {
		if _, scaled := found.GetAnnotations()[v1alpha2.AnnotationScaleTarget]; scaled {
			s.OnlyOurs = append(s.OnlyOurs, Difference{objectOf(services(), found), "scales a workload: remove annotation " +
				v1alpha2.AnnotationScaleTarget})
		}
		return nil
	})
	if err != nil {
		return err
	}
	listing := discoveryv1.LabelManagedBy + "=" + activation.ManagedBy
	return r.objects.Each(ctx, endpointSlices(), "", listing, maxObjects, func(found *unstructured.Unstructured) error {
		s.Activators = append(s.Activators, objectOf(endpointSlices(), found))
		return nil
	})
}
