package target

import (
	"context"
	"net"
	"strconv"

	"golang.org/x/oauth2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/rouse-run/rouse/cli/exit"
)

// What a process reads for each of its users.
const (
	usersObjects = 5000 // of a kind
	usersLine    = 64 << 10
	usersLogRate = 4 << 20 // bytes in a second, of all replicas of a Function
)

// OpenInCluster returns the connection of a process that runs in the cluster itself, with the rights of its ServiceAccount. It reaches
// the parts of Rouse at the addresses of their pods. It sends no request.
func OpenInCluster(config *rest.Config, rouseNamespace string) (*Connection, error) {
	options := Options{
		RouseNamespace: rouseNamespace, MaxObjects: usersObjects, MaxLine: usersLine, LogRate: usersLogRate, Note: func(string) {},
	}
	config = rest.CopyConfig(config)
	config.DisableCompression = true // the network is near, and both sides would work for it
	c, err := newCluster(options, "this cluster", config)
	if err != nil {
		return nil, err
	}
	c.forward = addressOf
	return &Connection{Target: c, Name: c.name}, nil
}

// As returns a connection of a process in the cluster for a user, who is known by a token, which may be another one at each request.
// Everything is read and changed with it; only pods of Rouse are found with the rights of the process.
func (c *Connection) As(token func() string, namespace string) (*Connection, error) {
	of, ok := c.Target.(*cluster)
	if !ok {
		return nil, exit.Errorf(exit.Usage, "users have connections to clusters alone")
	}
	config := rest.AnonymousClientConfig(of.config)
	config.Wrap(transport.TokenSourceWrapTransport(tokens(token)))
	user, err := newCluster(of.options, of.name, config)
	if err != nil {
		return nil, err
	}
	user.forward, user.system = of.forward, of
	return &Connection{Target: user, Name: c.Name, Namespace: namespace}, nil
}

// tokens is a function as what a transport takes tokens from.
type tokens func() string

// Token implements oauth2.TokenSource.
func (t tokens) Token() (*oauth2.Token, error) { return &oauth2.Token{AccessToken: t()}, nil }

// BridgeURLs returns the addresses of the admin APIs of all bridges that are ready, at least one.
func (c *Connection) BridgeURLs(ctx context.Context) ([]string, error) {
	of, ok := c.Target.(*cluster)
	if !ok {
		return nil, exit.Errorf(exit.Usage, "addresses of bridges exist in clusters alone")
	}
	return of.adminURLs(ctx)
}

// addressOf returns the URL of a pod's port inside the cluster.
func addressOf(_ context.Context, pod *corev1.Pod, port int32) (string, error) {
	if pod.Status.PodIP == "" {
		return "", exit.Errorf(exit.Unreachable, "pod %s has no address yet", pod.Name)
	}
	return "http://" + net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(port))), nil
}

// measured are the pods of Rouse whose metrics have alerts, and the port that has them.
const (
	measured = "app.kubernetes.io/part-of=rouse,app.kubernetes.io/component in (controller,eventbridge,gateway,scaler)"
	metrics  = "metrics"
)

// MetricsURLs returns the addresses of the metrics of all processes of Rouse that run, by the names of their pods.
func (c *Connection) MetricsURLs(ctx context.Context) (map[string]string, error) {
	of, ok := c.Target.(*cluster)
	if !ok {
		return nil, exit.Errorf(exit.Usage, "addresses of metrics exist in clusters alone")
	}
	pods, err := of.pods(ctx, of.options.RouseNamespace, measured)
	if err != nil {
		return nil, err
	}
	urls := map[string]string{}
	for i := range pods {
		port := portOf(&pods[i], metrics)
		if port == 0 || pods[i].Status.Phase != corev1.PodRunning || pods[i].Status.PodIP == "" {
			continue
		}
		url, err := of.forward(ctx, &pods[i], port)
		if err != nil {
			return nil, err
		}
		urls[pods[i].Name] = url + "/metrics"
	}
	return urls, nil
}
