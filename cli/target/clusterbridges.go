package target

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // what client-go's SPDY dialer still returns
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/internal/activation"
)

const (
	bridgePods = "app.kubernetes.io/part-of=rouse,app.kubernetes.io/component=eventbridge"
	publishing = "http" // the ports of a bridge
	operating  = "admin"
)

// Publish implements Target.
func (c *cluster) Publish(ctx context.Context) (string, error) {
	bridges, err := c.bridges(ctx)
	if err != nil {
		return "", err
	}
	url, err := c.forward(ctx, &bridges[0], portOf(&bridges[0], publishing))
	if err != nil {
		return "", err
	}
	return url + "/publish", nil
}

// Admins implements Target.
func (c *cluster) Admins(ctx context.Context) ([]Admin, error) {
	urls, err := c.adminURLs(ctx)
	if err != nil {
		return nil, err
	}
	token, err := c.login(ctx)
	if err != nil {
		return nil, err
	}
	admins := make([]Admin, len(urls))
	for i, url := range urls {
		admins[i] = Admin{URL: url, Token: token}
	}
	return admins, nil
}

// adminURLs returns the URLs that the user set, or else forwarded ports of all bridges.
func (c *cluster) adminURLs(ctx context.Context) ([]string, error) {
	if len(c.options.AdminURLs) > 0 {
		return c.options.AdminURLs, nil
	}
	bridges, err := c.bridges(ctx)
	if err != nil {
		return nil, err
	}
	if portOf(&bridges[0], operating) == 0 {
		return nil, exit.Errorf(exit.Unreachable, "the admin API is switched off in %s: set eventbridge.admin.enabled of the chart to true", c.name)
	}
	urls := make([]string, len(bridges))
	for i := range bridges {
		if urls[i], err = c.forward(ctx, &bridges[i], portOf(&bridges[i], operating)); err != nil {
			return nil, err
		}
	}
	return urls, nil
}

// bridges returns the ready bridges, at least one.
func (c *cluster) bridges(ctx context.Context) ([]corev1.Pod, error) {
	c.options.Note("looking for eventbridges in " + c.name)
	pods, err := c.pods(ctx, c.options.RouseNamespace, bridgePods)
	if err != nil {
		return nil, err
	}
	var ready []corev1.Pod
	for _, pod := range pods {
		if isReady(&pod) && portOf(&pod, publishing) != 0 {
			ready = append(ready, pod)
		}
	}
	switch {
	case len(pods) == 0:
		return nil, exit.Errorf(exit.Unreachable, "there is no eventbridge in namespace %s of %s: name the one that Rouse is installed in with --rouse-namespace",
			c.options.RouseNamespace, c.name)
	case len(ready) == 0:
		return nil, exit.Errorf(exit.Unreachable, "no eventbridge is ready in namespace %s of %s, of %d: look at them with kubectl describe pods -n %s -l %s",
			c.options.RouseNamespace, c.name, len(pods), c.options.RouseNamespace, bridgePods)
	}
	return ready, nil
}

// pods returns the pods that match the selector.
func (c *cluster) pods(ctx context.Context, namespace, selector string) ([]corev1.Pod, error) {
	list, err := c.objects.Resource(podsResource()).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, c.explain(err, "list", "pods", namespace)
	}
	return intoAll[corev1.Pod](list.Items)
}

func isReady(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
		return false
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// portOf returns the container port with the name, 0 without one.
func portOf(pod *corev1.Pod, name string) int32 {
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == name {
				return port.ContainerPort
			}
		}
	}
	return 0
}

const (
	gatewayPods = "app.kubernetes.io/part-of=rouse,app.kubernetes.io/component=gateway"
	// identifyWithin bounds the request that identifies a port, to which a gateway responds at once.
	identifyWithin = 5 * time.Second
)

// activator returns the URL of a gateway's port for a Function, which forwards requests and wakes the Function. The error names what is
// missing.
func (c *cluster) activator(ctx context.Context, function types.NamespacedName, uid types.UID) (string, error) {
	port, err := c.activatorPort(ctx, function, uid)
	if err != nil {
		return "", err
	}
	gateways, err := c.system.pods(ctx, c.options.RouseNamespace, gatewayPods)
	if err != nil {
		return "", err
	}
	err = exit.Errorf(exit.Unreachable, "no gateway is ready in namespace %s of %s: name the one that Rouse is installed in with --rouse-namespace",
		c.options.RouseNamespace, c.name)
	for i := range gateways {
		if !isReady(&gateways[i]) {
			continue
		}
		url, failed := c.forward(ctx, &gateways[i], port)
		if failed == nil {
			failed = identify(ctx, url, uid)
		}
		if failed == nil {
			return url, nil
		}
		err = failed
	}
	return "", err
}

// activatorPort returns the port that the controller assigned to a Function.
func (c *cluster) activatorPort(ctx context.Context, function types.NamespacedName, uid types.UID) (int32, error) {
	slices, err := c.objects.Resource(slicesResource()).Namespace(function.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=" + function.Name + "," + discoveryv1.LabelManagedBy + "=" + activation.ManagedBy,
	})
	if err != nil {
		return 0, c.explain(err, "list", "endpointslices", function.Namespace)
	}
	for _, item := range slices.Items {
		slice, err := into[discoveryv1.EndpointSlice](item.Object)
		if err != nil {
			return 0, err
		}
		if listing, ok := activation.ListingOf(&slice); ok && listing.UID == uid {
			return listing.Port, nil
		}
	}
	return 0, exit.Errorf(exit.Failed, "HTTP does not wake Function %s: its scaleConfig, rouse.run/http-wake or the chart's gateway.enabled says so", function.Name)
}

// identify fails when the port belongs to another Function: an EndpointSlice may name any port, and ports are reassigned.
func identify(ctx context.Context, url string, uid types.UID) error {
	ctx, cancel := context.WithTimeout(ctx, identifyWithin)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/healthz", http.NoBody)
	if err != nil {
		return fmt.Errorf("ask a gateway for the owner of the port: %w", err)
	}
	transport := &http.Transport{Proxy: nil, DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return exit.Errorf(exit.Unreachable, "the gateway does not answer: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if types.UID(response.Header.Get(activation.HeaderFunction)) != uid {
		return exit.Errorf(exit.Unreachable, "the gateway has another Function at the port that the EndpointSlice names")
	}
	return nil
}

const loopback = "127.0.0.1"

// forward is a port of a pod, forwarded to loopback.
type forward struct {
	url   string
	stop  chan struct{}
	ended chan error
}

func (f *forward) close() {
	close(f.stop)
	<-f.ended //nolint:errcheck // why it ended does not matter any more
}

// forwardTo forwards a port of a pod, once.
func (c *cluster) forwardTo(ctx context.Context, pod *corev1.Pod, port int32) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := fmt.Sprintf("%s/%s:%d", pod.Namespace, pod.Name, port)
	if f, open := c.forwards[key]; open {
		return f.url, nil
	}
	f, err := c.newForward(ctx, pod.Namespace, pod.Name, port)
	if err != nil {
		return "", err
	}
	c.forwards[key] = f
	return f.url, nil
}

func (c *cluster) newForward(ctx context.Context, namespace, pod string, port int32) (*forward, error) {
	dialer, err := c.dialer(namespace, pod)
	if err != nil {
		return nil, err
	}
	f := &forward{stop: make(chan struct{}), ended: make(chan error, 1)}
	ready := make(chan struct{})
	ports := []string{"0:" + strconv.Itoa(int(port))}
	forwarder, err := portforward.NewOnAddresses(dialer, []string{loopback}, ports, f.stop, ready, io.Discard, io.Discard)
	if err != nil {
		return nil, fmt.Errorf("forward a port of pod %s: %w", pod, err)
	}
	go func() { f.ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-f.ended:
		return nil, c.explainForward(err, namespace, pod)
	case <-ctx.Done():
		f.close()
		return nil, ctx.Err()
	}
	open, err := forwarder.GetPorts()
	if err != nil {
		f.close()
		return nil, fmt.Errorf("forward a port of pod %s: %w", pod, err)
	}
	f.url = fmt.Sprintf("http://%s:%d", loopback, open[0].Local)
	return f, nil
}

// dialer uses WebSocket, and SPDY with API servers and proxies that do not support it.
func (c *cluster) dialer(namespace, pod string) (httpstream.Dialer, error) {
	base, _, err := rest.DefaultServerUrlFor(c.config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	address := base.JoinPath("api/v1/namespaces", namespace, "pods", pod, "portforward")
	transport, upgrader, err := spdy.RoundTripperFor(c.config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	old := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, address)
	first, err := portforward.NewSPDYOverWebsocketDialer(address, c.config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	return portforward.NewFallbackDialer(first, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

// explainForward detects a refusal by its text, because a failed upgrade has no typed error.
func (c *cluster) explainForward(err error, namespace, pod string) error {
	if err == nil {
		return exit.Errorf(exit.Unreachable, "the connection to pod %s ended", pod)
	}
	if strings.Contains(err.Error(), "forbidden") {
		return exit.Errorf(exit.Unreachable, "you may not create pods/portforward in namespace %s: ask for a role with that verb in %s", namespace, c.name)
	}
	return exit.Errorf(exit.Unreachable, "forward a port of pod %s/%s: %w", namespace, pod, err)
}
