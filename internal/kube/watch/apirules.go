package watch

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayapi "sigs.k8s.io/gateway-api/apis/v1"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	rousev1alpha1 "github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/door"
	"github.com/rouse-run/rouse/internal/flags"
)

// APIRuleSettings configure the gateways that APIRules may name. Gateways and the controller need the same settings.
type APIRuleSettings struct {
	// Enabled is true if APIRules are served at all.
	Enabled bool
	// Domains are the domains of Rouse's own gateways. They take precedence over Gateways of the same names.
	Domains map[types.NamespacedName]string
	// GatewayAPI allows APIRules to name Gateways of Gateway API; its CRDs have to be installed.
	GatewayAPI bool
	// Authorizers are the names that extAuth may use.
	Authorizers []string
	// DoorService takes the requests to Doors; without a name there are no Doors.
	DoorService types.NamespacedName
	// Alias is a Service that leads to the bridges.
	Alias PublisherAlias
}

// PublisherAlias is a Service that leads to the bridges from another namespace: Kyma's address for publishers. Its endpoints are no pods
// of its namespace, so whoever reads them has to know it.
type PublisherAlias struct {
	// Service is the alias, a Service without a selector. Without a name there is none.
	Service types.NamespacedName
	// Target is the Service whose endpoints it has.
	Target types.NamespacedName
}

// Flags implements flags.Options.
func (a *PublisherAlias) Flags(fs *flags.Set) {
	fs.Service(&a.Service, "publisher-alias", "Service without a selector that leads to the bridges, namespace/name; empty: there is none")
	fs.Service(&a.Target, "publisher-service", "Service of the bridges, namespace/name, whose endpoints --publisher-alias gets")
	fs.Require(a.Service.Name == "" || a.Target.Name != "", "--publisher-alias needs --publisher-service")
}

// Flags declares the flags of all settings but Authorizers and Alias.
func (s *APIRuleSettings) Flags(fs *flags.Set) {
	fs.Bool(&s.Enabled, "apirules", "serve APIRules, whose CustomResourceDefinition has to be there")
	fs.Var(&domains{s}, "gateway-domain",
		"gateway that APIRules may name and that Rouse itself is, with its domain: namespace/name=example.com; repeatable")
	for _, gateway := range slices.SortedFunc(maps.Keys(s.Domains), byName) {
		domain := s.Domains[gateway]
		full, ok := apirule.FullHost(v2.Host(domain), nil)
		fs.Require(ok && !strings.HasPrefix(full, "*."), "--gateway-domain %s: %q is not a domain such as example.com", gateway, domain)
	}
	fs.Service(&s.DoorService, "door-service", "Service that takes the requests to Doors, namespace/name; empty: there are no Doors")
	fs.Bool(&s.GatewayAPI, "gateway-api", "let APIRules name Gateways of gateway.networking.k8s.io/v1 too")
}

func byName(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }

// domains is the flag for Domains.
type domains struct{ settings *APIRuleSettings }

// Set parses one gateway with its domain.
func (d *domains) Set(text string) error {
	name, domain, found := strings.Cut(text, "=")
	namespace, name, qualified := strings.Cut(name, "/")
	if !found || !qualified || namespace == "" || name == "" || strings.Contains(name, "/") {
		return fmt.Errorf("%q is not namespace/name=domain", text)
	}
	if d.settings.Domains == nil {
		d.settings.Domains = map[types.NamespacedName]string{}
	}
	d.settings.Domains[types.NamespacedName{Namespace: namespace, Name: name}] = domain
	return nil
}

// Type returns the value's name in the usage text.
func (d *domains) Type() string { return "gateway" }

// String returns all domains.
func (d *domains) String() string {
	if d.settings == nil {
		return ""
	}
	texts := make([]string, 0, len(d.settings.Domains))
	for gateway, domain := range d.settings.Domains {
		texts = append(texts, gateway.String()+"="+domain)
	}
	slices.Sort(texts)
	return strings.Join(texts, ",")
}

const (
	// pause is the minimum time between two decisions.
	pause = 100 * time.Millisecond
	// share scales the pause by the duration of the last decision, so that deciding leaves time for other work.
	share = 3
	// retry is the interval at which missing kinds are looked up.
	retry = 5 * time.Second
)

// APIRules calls apply with the Exposures of all APIRules, the oldest first, at once and after each change, until ctx
// ends. The Exposures point into the cache and must not be changed. The cache should be limited by GatewayServices and
// TransformAPIRules.
func APIRules(ctx context.Context, c cache.Cache, settings APIRuleSettings, apply func([]apirule.Exposure)) error {
	w := &watch{cache: c, settings: settings, changed: make(chan struct{}, 1), missing: []kind{
		{"Services", &corev1.Service{}, serviceDiffers}, {"APIRules", &v2.APIRule{}, ruleDiffers},
	}}
	if settings.GatewayAPI {
		w.missing = append(w.missing, kind{"Gateways", &gatewayapi.Gateway{}, gatewayDiffers})
	}
	if settings.DoorService.Name != "" {
		w.missing = append(w.missing, kind{"Doors", &rousev1alpha1.Door{}, doorDiffers})
	}
	defer w.end()
	if err := w.find(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	return w.follow(ctx, func() error {
		exposures, err := w.read(ctx)
		if err == nil {
			apply(exposures)
		}
		return err
	})
}

// kind is a kind of objects that decisions depend on.
type kind struct {
	name    string
	object  client.Object
	differs func(before, after any) bool
}

// watch is the state of a running APIRules.
type watch struct {
	cache    cache.Cache
	settings APIRuleSettings
	decider  apirule.Decider
	changed  chan struct{}
	missing  []kind // not served by the API server yet
	undo     []func()
}

func (w *watch) end() {
	for _, undo := range w.undo {
		undo()
	}
}

// find watches the kinds that the API server serves. A missing kind counts as empty: gateways must not wait for
// CustomResourceDefinitions.
func (w *watch) find(ctx context.Context) error {
	var missing []kind
	var inStep []toolscache.InformerSynced
	for _, each := range w.missing {
		informer, err := w.cache.GetInformer(ctx, each.object, cache.BlockUntilSynced(false))
		if meta.IsNoMatchError(err) {
			missing = append(missing, each)
			continue
		}
		if err != nil {
			return ignoreEnd(ctx, fmt.Errorf("watch %s: %w", each.name, err))
		}
		registration, err := informer.AddEventHandler(onChangeOf(each.differs, w.raise))
		if err != nil {
			return ignoreEnd(ctx, fmt.Errorf("watch %s: %w", each.name, err))
		}
		w.undo = append(w.undo, func() { _ = informer.RemoveEventHandler(registration) }) // fails only when the informer is gone
		inStep = append(inStep, informer.HasSynced, registration.HasSynced)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), inStep...) {
		return ignoreEnd(ctx, errOutOfStep)
	}
	w.missing = missing
	return nil
}

// ignoreEnd returns nil once ctx has ended.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

func (w *watch) raise() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// follow decides at once and after each change, and looks up missing kinds.
func (w *watch) follow(ctx context.Context, decide func() error) error {
	for {
		began := time.Now()
		if err := decide(); err != nil {
			return ignoreEnd(ctx, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(pause, share*time.Since(began))):
		}
		if err := w.await(ctx); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// await waits for a change.
func (w *watch) await(ctx context.Context) error {
	for {
		var again <-chan time.Time
		if len(w.missing) > 0 {
			again = time.After(retry)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.changed:
			return nil
		case <-again:
			if err := w.find(ctx); err != nil {
				return err
			}
		}
	}
}

func onChangeOf(differs func(before, after any) bool, raise func()) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { raise() },
		UpdateFunc: func(before, after any) {
			if differs(before, after) {
				raise()
			}
		},
		DeleteFunc: func(any) { raise() },
	}
}

// ruleDiffers ignores updates of the status.
func ruleDiffers(before, after any) bool {
	was, _ := before.(*v2.APIRule)
	is, _ := after.(*v2.APIRule)
	return was == nil || is == nil || was.UID != is.UID || was.Generation != is.Generation ||
		was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero()
}

// doorDiffers ignores updates of the status.
func doorDiffers(before, after any) bool {
	was, _ := before.(*rousev1alpha1.Door)
	is, _ := after.(*rousev1alpha1.Door)
	return was == nil || is == nil || was.UID != is.UID || was.Generation != is.Generation ||
		was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero()
}

func serviceDiffers(before, after any) bool {
	was, _ := before.(*corev1.Service)
	is, _ := after.(*corev1.Service)
	return was == nil || is == nil || !reflect.DeepEqual(apirule.ServiceInfoOf(was), apirule.ServiceInfoOf(is))
}

func gatewayDiffers(before, after any) bool {
	was, _ := before.(*gatewayapi.Gateway)
	is, _ := after.(*gatewayapi.Gateway)
	return was == nil || is == nil || !slices.Equal(hostsOf(was), hostsOf(is))
}

// read decides from the contents of the cache. The result points into the cache and must not be changed.
func (w *watch) read(ctx context.Context) ([]apirule.Exposure, error) {
	rules, services, gateways, doors := &v2.APIRuleList{}, &corev1.ServiceList{}, &gatewayapi.GatewayList{}, &rousev1alpha1.DoorList{}
	for name, list := range map[string]client.ObjectList{"APIRules": rules, "Services": services, "Gateways": gateways, "Doors": doors} {
		if name == "Gateways" && !w.settings.GatewayAPI || name == "Doors" && w.settings.DoorService.Name == "" ||
			slices.ContainsFunc(w.missing, func(k kind) bool { return k.name == name }) {
			continue
		}
		if err := w.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list %s: %w", name, err)
		}
	}
	cluster := &apirule.Objects{
		Gateways:    make(map[types.NamespacedName]apirule.Gateway, len(gateways.Items)+len(w.settings.Domains)),
		Services:    make(map[types.NamespacedName]apirule.ServiceInfo, len(services.Items)),
		Authorizers: w.settings.Authorizers,
	}
	for i := range gateways.Items {
		cluster.Gateways[client.ObjectKeyFromObject(&gateways.Items[i])] = apirule.Gateway{Hosts: hostsOf(&gateways.Items[i])}
	}
	for gateway, domain := range w.settings.Domains {
		cluster.Gateways[gateway] = apirule.Gateway{Hosts: []string{"*." + domain}}
	}
	for i := range services.Items {
		cluster.Services[client.ObjectKeyFromObject(&services.Items[i])] = apirule.ServiceInfoOf(&services.Items[i])
	}
	if alias := w.settings.Alias; alias.Service.Name != "" {
		cluster.SetAlias(alias.Service, alias.Target)
	}
	cluster.DoorService = apirule.Target{Service: w.settings.DoorService, Port: door.ServicePort}
	exposed := apirule.ExposeDoors(pointers(doors.Items), cluster.DoorService)
	cluster.Doors = exposed.Of
	return w.decider.Decide(append(pointers(rules.Items), exposed.Rules...), cluster), nil
}

func pointers[T any](items []T) []*T {
	all := make([]*T, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	return all
}

// hostsOf returns the hosts of a Gateway's listeners for HTTP, with or without TLS. A listener for every host has an
// empty one.
func hostsOf(gateway *gatewayapi.Gateway) []string {
	var hosts []string
	for i := range gateway.Spec.Listeners {
		listener := &gateway.Spec.Listeners[i]
		if listener.Protocol != gatewayapi.HTTPProtocolType && listener.Protocol != gatewayapi.HTTPSProtocolType {
			continue
		}
		host := ""
		if listener.Hostname != nil {
			host = string(*listener.Hostname)
		}
		hosts = append(hosts, host)
	}
	return hosts
}

// GatewayServices limits the fields of Services in a cache to those that gateways read. APIRules relies on it; it belongs
// into cache.Options.ByObject.
func GatewayServices() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&corev1.Service{}: {Transform: withoutDetails}}
}

// TransformAPIRules limits the fields of APIRules and Gateways in a cache. It belongs into
// cache.Options.DefaultTransform. Other objects do not change.
func TransformAPIRules(object any) (any, error) {
	switch typed := object.(type) {
	case *v2.APIRule:
		typed.Annotations, typed.ManagedFields = nil, nil // may have 256 KiB
	case *rousev1alpha1.Door:
		typed.Annotations, typed.ManagedFields = nil, nil
	case *gatewayapi.Gateway:
		onlyListeners(typed)
	}
	return object, nil
}

// withoutDetails keeps only the fields of a Service that determine its backends, who may expose it, and how HTTP wakes its workload.
func withoutDetails(object any) (any, error) {
	service, ok := object.(*corev1.Service)
	if !ok {
		return object, nil
	}
	const longest = 64 // of a setting; a name of a workload is not read, only that there is one
	kept := v1alpha2.DebugUntil(service.Annotations)
	for _, name := range []string{apirule.AnnotationFrom, v1alpha2.AnnotationScaleTarget, v1alpha2.AnnotationHTTPWake, v1alpha2.AnnotationHTTPWait} {
		value, named := service.Annotations[name]
		if !named {
			continue
		}
		if name != apirule.AnnotationFrom && len(value) > longest {
			value = ""
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[name] = value
	}
	service.Annotations, service.ManagedFields, service.Status = kept, nil, corev1.ServiceStatus{}
	return service, nil
}

// onlyListeners keeps only the listeners of a Gateway.
func onlyListeners(gateway *gatewayapi.Gateway) {
	gateway.Annotations, gateway.ManagedFields = nil, nil
	listeners := make([]gatewayapi.Listener, len(gateway.Spec.Listeners))
	for i := range gateway.Spec.Listeners {
		from := &gateway.Spec.Listeners[i]
		listeners[i] = gatewayapi.Listener{Name: from.Name, Hostname: from.Hostname, Port: from.Port, Protocol: from.Protocol}
	}
	gateway.Spec, gateway.Status = gatewayapi.GatewaySpec{Listeners: listeners}, gatewayapi.GatewayStatus{}
}
