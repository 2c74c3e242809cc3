package target

import (
	"context"
	"fmt"
	"net/http"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/internal/activation"
)

const (
	gatewayPods = "app.kubernetes.io/part-of=rouse,app.kubernetes.io/component=gateway"
	// identifyWithin bounds the question whose port it is, which a gateway answers at once.
	identifyWithin = 5 * time.Second
)

// activator is the URL of a gateway's port for a Function, which forwards requests and wakes the Function for them where it sleeps.
// The error is what is missing for that.
func (c *cluster) activator(ctx context.Context, function types.NamespacedName, uid types.UID) (string, error) {
	port, err := c.activatorPort(ctx, function, uid)
	if err != nil {
		return "", err
	}
	gateways, err := c.pods(ctx, c.options.RouseNamespace, gatewayPods)
	if err != nil {
		return "", err
	}
	err = exit.Errorf(exit.Unreachable, "no gateway is ready in namespace %s of %s: name the one that Rouse is installed in with --rouse-namespace",
		c.options.RouseNamespace, c.name)
	for i := range gateways {
		if !isReady(&gateways[i]) {
			continue
		}
		url, failed := c.forward(ctx, gateways[i].Namespace, gateways[i].Name, port)
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

// activatorPort is the port that the controller gave to a Function.
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

// identify fails where another Function is called by this URL: who may write EndpointSlices can name any port, and it may have
// changed hands.
func identify(ctx context.Context, url string, uid types.UID) error {
	ctx, cancel := context.WithTimeout(ctx, identifyWithin)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/healthz", http.NoBody)
	if err != nil {
		return fmt.Errorf("ask a gateway whose port it is: %w", err)
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
