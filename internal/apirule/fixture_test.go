package apirule

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

var (
	kymaGateway = types.NamespacedName{Namespace: "kyma-system", Name: "kyma-gateway"}
	price       = types.NamespacedName{Namespace: "shop", Name: "price"}
	stock       = types.NamespacedName{Namespace: "warehouse", Name: "stock"}
)

// surroundings have one gateway, Service price of the namespace shop and Service stock of another.
func surroundings(changes ...func(*Objects)) *Objects {
	cluster := &Objects{
		Gateways: map[types.NamespacedName]Gateway{kymaGateway: {Hosts: []string{"*.example.com"}}},
		Services: map[types.NamespacedName]ServiceInfo{
			price: {Selects: true, Address: "10.0.0.1", Ports: []int32{80, 8080}},
			stock: {Selects: true, Address: "10.0.0.2", Ports: []int32{80}},
		},
		Authorizers: map[string]bool{"sessions": true},
	}
	for _, change := range changes {
		change(cluster)
	}
	return cluster
}

// rule is an APIRule of that name in the namespace shop, created in that second, which leads to price at a host.
func rule(name string, second int64, host v2.Host, changes ...func(*v2.APIRule)) *v2.APIRule {
	r := &v2.APIRule{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Generation: 1, CreationTimestamp: metav1.Unix(second, 0),
		},
		Spec: v2.APIRuleSpec{
			Hosts: []v2.Host{host}, Gateway: new(kymaGateway.String()), Service: &v2.Service{Name: "price", Port: 80},
			Rules: []v2.Rule{{Path: "/*", Methods: []v2.Method{"GET"}, NoAuth: new(true)}},
		},
	}
	for _, change := range changes {
		change(r)
	}
	return r
}

func to(service v2.Service) func(*v2.APIRule) {
	return func(r *v2.APIRule) { r.Spec.Service = &service }
}

func deleted(r *v2.APIRule) { r.DeletionTimestamp = new(metav1.NewTime(time.Unix(100, 0))) }

// mistaken gives an APIRule a path that the CRD would refuse.
func mistaken(r *v2.APIRule) { r.Spec.Rules[0].Path = "/{**}/{**}" }

// hosts are what the APIRules answer at, in the order of the Exposures.
func hosts(exposures []Exposure) map[string]string {
	found := map[string]string{}
	for i := range exposures {
		found[exposures[i].APIRule.Name] = exposures[i].Host
	}
	return found
}

func service(changes ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "price"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.0.0.1", Selector: map[string]string{"app": "price"},
			Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

func ownedBy(kind, name, group string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: group + "/v1alpha2", Kind: kind, Name: name, UID: "uid", Controller: new(true)}}
	}
}

var functions = v1alpha2.GroupVersion.Group
