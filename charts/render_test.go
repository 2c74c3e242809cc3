package charts

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	namespace = "rouse-system"
	chart     = "rouse"
)

// fromKyma is the installation for users of Kyma.
const fromKyma = "as users of Kyma expect it"

// certificate looks like a certificate to the chart.
const certificate = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"

// authority is a valid certificate, which an API server requires for a webhook.
const authority = `-----BEGIN CERTIFICATE-----
MIIBdjCCARugAwIBAgIUIvwre5IdkreQL7H/ichYwL630ZwwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEdGVzdDAgFw0yNjExMjMxMzQxMzVaGA8yMTI2MTAzMDEzNDEz
NVowDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABHga
CEdEf3dFeHTiYvpnNw0kQcFL4PYLL3zCNg2FSTxU3KHqYK/lRnZK4qzOYKQDa380
EdYFMjZVSbpHQ5jdCp2jUzBRMB0GA1UdDgQWBBTnk85xXZQp4PH4vSeHx7seCrS5
DzAfBgNVHSMEGDAWgBTnk85xXZQp4PH4vSeHx7seCrS5DzAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0kAMEYCIQD9k2uNU4yBMQRAHjiQQa23+fpVxy4BFuKI
ylKbjDeYLgIhAMBT9YxdhXcIz01MFRrPCHpVAm3L5TeMopFVIBo5HTwh
-----END CERTIFICATE-----
`

// Installations with an operator.
const (
	operated                 = "a Function controller that a Serverless brings"
	operatedAnywhere         = "a Function controller that a Serverless of any namespace brings"
	withDashboard            = "with a dashboard"
	withDashboardAndIssuer   = "with a dashboard whose users log in at an issuer"
	withDashboardThatChanges = "with a dashboard that changes what its users may"
)

// installations are the sets of values for which every rule is tested.
var installations = map[string]values{
	"as it comes": nil,
	"external NATS with credentials and TLS": {
		"nats.enabled=false", `nats.external.url=tls://a.example.com:4222\,tls://b.example.com:4333`,
		"nats.external.credentials.secret=nats-user", "nats.external.tls.secret=nats-certificates",
		"nats.external.tls.certKey=tls.crt", "nats.external.tls.keyKey=tls.key",
	},
	"highly available and watched": {
		"nats.enabled=false", "nats.external.url=nats://nats.messaging", "stream.replicas=3",
		"controller.replicas=2", "eventbridge.replicas=5", "scaler.replicas=3", "gateway.replicas=4", "gateway.graceSeconds=70", "controller.defaultProfile=S",
		"metrics.podMonitor.enabled=true", "metrics.podMonitor.labels.team=a",
		"traceCollectorEndpoint=http://collector:4318/v1/traces", "eventbridge.traceSampleRatio=0.05", "scaler.traceSampleRatio=0.01",
		"metrics.dashboards.enabled=true", "metrics.alerts.enabled=true", "metrics.alerts.labels.team=a",
		"networkPolicies.metricsFrom[0].namespaceSelector.matchLabels.name=monitoring",
		"networkPolicies.publishers[0].podSelector.matchLabels.publishes=events",
		"access.subscribe.enabled=true", "access.subscribe.rules[0].namespaces={orders}", "access.subscribe.rules[0].types={order.>}",
		"access.publish.enabled=true", "access.publish.rules[0].serviceAccounts={shop/*}", "access.publish.rules[0].sources={shop}",
		"priorityClass.create=false", "priorityClass.name=system-cluster-critical", "networkPolicies.dnsPorts={5353}", "nodeSelector.pool=system", "tolerations[0].operator=Exists",
		"profiling.enabled=true", "podAnnotations.example\\.com/a=b", "image.pullSecrets[0]=registry",
	},
	"for a trial, leaving nothing behind": {
		"crds.keep=false", "nats.persistence.enabled=false", "networkPolicies.enabled=false",
		"image.repository=localhost:5000/rouse", "image.tag=dev", "runtimes.python314=null",
	},
	"an external registry and a CA of one's own": {
		"registry.external.registryAddress=registry.example.com/functions", "registry.external.username=me",
		"registry.external.password=secret", "controller.deniedCIDRs={10.0.0.0/8,fd00::/8}", "builds.perNamespace=4", "caBundle=" + certificate, "builds.maxImageSize=0", "git.checkInterval=24h",
	},
	"a registry that a Secret describes": {"registry.external.existingSecret=mine", "controller.defaultProfile=XL"},
	"no registry":                        {"registry.internal.enabled=false"},
	"a registry behind an address of its own": {
		"registry.internal.nodePort=0", "registry.internal.clusterIP=10.0.0.7", "registry.internal.pullAddress=registry.example.com",
		"registry.internal.persistence.enabled=false",
	},
	"sinks behind a mesh, with a CA of one's own": {
		"sinks.endpoints=service", "sinks.ca.configMap=mesh-roots", "sinks.ca.key=roots.pem", "eventbridge.maxReplySize=64Ki",
		"eventbridge.publishes.maxPending=1000000", "eventbridge.delivery.maxBackoff=1h", "stream.watermark=0.5", "stream.duplicateWindow=10m",
	},
	"plain HTTP wakes nobody": {"gateway.enabled=false"},
	"with a NetworkPolicy for each Function": {
		"functions.networkPolicies.enabled=true", "functions.networkPolicies.from[0].podSelector.matchLabels.calls=functions",
		"functions.networkPolicies.from[1].ipBlock.cidr=10.0.0.0/8",
		"functions.networkPolicies.egress[0].to[0].namespaceSelector.matchLabels.team=a", "functions.networkPolicies.egress[0].ports[0].port=5432",
	},
	"settings of all kinds": {
		"logLevel=debug", "logFormat=console", "logLevels.eventbridge/delivery=debug", "logLevels.scaler=warn", "logDebugLinesPerSecond=0",
		"controller.defaultProfile=S", "controller.maxRollouts=3", "controller.requeueDuration=5m", "controller.profiles.S.requestCpu=1",
		"controller.profiles.S.requestMemory=1Gi", "controller.profiles.S.limitCpu=1500m", "controller.profiles.S.limitMemory=2Gi",
		"scaling.cooldownPeriodSeconds=0", "git.checkInterval=1m", "gateway.waitSeconds=30", "eventbridge.delivery.maxAttempts=3", "networkPolicies.tracePorts={4318,9411}",
		"traceCollectorEndpoint=http://collector:9411", "publisherAddress=http://elsewhere/publish",
	},
	"with APIRules": {"apiRules.enabled=true"},
	withDashboard:   {"dashboard.enabled=true", "logLevel=debug", "metrics.podMonitor.enabled=true"},
	withDashboardAndIssuer: {
		"dashboard.enabled=true", "dashboard.oidc.issuer=https://login.example.com:8443/realms/one", "dashboard.oidc.clientID=rouse",
		"dashboard.oidc.secret=issuer", `dashboard.oidc.name=Example\, Inc.`, "dashboard.oidc.url=http://localhost:8080",
		"dashboard.oidc.scopes={email,offline_access}", "dashboard.oidc.caBundle=" + certificate,
	},
	withDashboardThatChanges: {
		"dashboard.enabled=true", "dashboard.allowChanges=true", "dashboard.name=the one in Berlin", "dashboard.host=rouse.example.com",
		"dashboard.gateway=infra/public", "dashboard.tls.secret=dashboard", "dashboard.trustedProxies={10.0.0.0/8}", "functions.networkPolicies.enabled=true",
		"networkPolicies.dashboardFrom[0].namespaceSelector.matchLabels.name=infra", "fips.mode=only",
	},
	"FIPS 140-3": {"fips.mode=only", "crds.keep=false"},
	"with APIRules of all kinds": {
		"apiRules.enabled=true", "apiRules.gatewayAPI=enabled", "apiRules.domains.kyma-system/kyma-gateway=example.com",
		"apiRules.authorizers[0].name=sessions", "apiRules.authorizers[0].service=sessions.auth", "apiRules.authorizers[0].port=8080",
		"apiRules.authorizers[0].headersToUpstreamOnAllow={x-user}", "apiRules.service.type=LoadBalancer", "apiRules.tls.secretNames={example-com}",
		"apiRules.trustedProxies={10.0.0.0/8}",
	},
	"older Functions": {"functions.v1alpha1.enabled=true", "controller.replicas=2"},
	"older Functions by another certificate": {
		"functions.v1alpha1.enabled=true", "functions.v1alpha1.secret=conversion", "functions.v1alpha1.caBundle=" + authority, "networkPolicies.metricsFrom[0].podSelector.matchLabels.a=b",
	},
	"without KEDA": {"scaler.externalMetrics.enabled=true", "networkPolicies.externalMetricsFrom[0].ipBlock.cidr=10.0.0.0/28"},
	"without KEDA by another certificate": {
		"scaler.externalMetrics.enabled=true", "scaler.externalMetrics.secret=external", "scaler.externalMetrics.caBundle=" + authority,
		"scaler.tls.enabled=true",
	},
	operated: {
		"operator.enabled=true", "operator.namespaces={rouse-system,kyma-system}", "operator.replicas=2", "controller.defaultProfile=S",
		"traceCollectorEndpoint=http://collector:4318/v1/traces", "caBundle=" + certificate, "metrics.podMonitor.enabled=true",
		"networkPolicies.metricsFrom[0].namespaceSelector.matchLabels.name=monitoring", "image.pullSecrets[0]=registry", "profiling.enabled=true",
		"access.publish.enabled=true", "access.publish.rules[0].serviceAccounts={shop/*}", "access.publish.rules[0].sources={shop}",
		"priorityClassName=system-cluster-critical", "nodeSelector.pool=system", "tolerations[0].operator=Exists", "podAnnotations.example\\.com/a=b",
		"fips.mode=on",
	},
	operatedAnywhere: {
		"operator.enabled=true", "operator.namespaces={*}", "crds.keep=false", "apiRules.enabled=true", "functions.networkPolicies.enabled=true",
		"scaler.tls.enabled=true", "fips.mode=only",
	},
	"TLS with KEDA":                       {"scaler.tls.enabled=true"},
	"TLS with KEDA by other certificates": {"scaler.tls.enabled=true", "scaler.tls.secret=scaler", "scaler.tls.kedaSecret=keda"},
	"its own NATS with users":             {"nats.users.enabled=true", "stream.name=events"},
	"credentials that a Job makes":        {"credentials.madeBy=job", "nats.users.enabled=true", "scaler.tls.enabled=true", "fips.mode=on"},
	"in place of Kyma's eventing": {
		"kyma.publisherAlias=true", "kyma.allowEventingManager=true",
		"publisherAddress=http://eventing-publisher-proxy.kyma-system.svc.cluster.local/publish",
	},
	fromKyma: {"@" + chart + "/values-kyma.yaml"},
	"removed with all data, behind NetworkPolicies": {"crds.keep=false", "nats.persistence.keep=false", "nats.persistence.storageClass=fast", "registry.internal.persistence.keep=true"},
}

// values are --set arguments of Helm, or files with values after an @.
type values []string

func (v values) args() []string {
	var args []string
	for _, value := range v {
		if file, ok := strings.CutPrefix(value, "@"); ok {
			args = append(args, "--values", file)
		} else {
			args = append(args, "--set", value)
		}
	}
	return args
}

// helm returns the Helm that is pinned in tools, or the one that HELM names.
var helm = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("HELM"); path != "" {
		return path, nil
	}
	out, err := exec.Command("go", "-C", "../tools", "tool", "-n", "helm").Output()
	return strings.TrimSpace(string(out)), err
})

// runHelm runs Helm on the chart without a cluster.
func runHelm(ctx context.Context, command []string, set values) (stdout, stderr string, err error) {
	path, err := helm()
	if err != nil {
		return "", "", fmt.Errorf("build helm from tools: %w", err)
	}
	args := slices.Concat(command, []string{"--namespace", namespace, "--kube-version", "1.36.0"}, set.args())
	cmd := exec.CommandContext(ctx, path, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err = cmd.Run()
	return out.String(), errOut.String(), err
}

// objects is a rendered chart.
type objects []client.Object

// rendered contains every installation, rendered once for all tests, which only read it.
var rendered = sync.OnceValues(func() (map[string]objects, error) {
	all := map[string]objects{}
	var mutex sync.Mutex
	group, ctx := errgroup.WithContext(context.Background())
	group.SetLimit(4)
	for name, set := range installations {
		group.Go(func() error {
			made, err := renderChart(ctx, set)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			mutex.Lock()
			defer mutex.Unlock()
			all[name] = made
			return nil
		})
	}
	return all, group.Wait()
})

func renderedInstallations(t *testing.T) map[string]objects {
	t.Helper()
	all, err := rendered()
	require.NoError(t, err)
	return all
}

// renders caches renders of values that tests share.
var renders sync.Map

// render returns the objects of a render, which may be shared with other tests.
func render(t *testing.T, set values) objects {
	t.Helper()
	once, _ := renders.LoadOrStore(strings.Join(set, "\x00"), sync.OnceValues(func() (string, error) {
		return template(context.Background(), set) // other tests wait for it, even when this one ends
	}))
	text, err := once.(func() (string, error))()
	require.NoError(t, err)
	all, err := decodeAll(text)
	require.NoError(t, err)
	return all
}

// renderChart renders the chart and decodes every object.
func renderChart(ctx context.Context, set values) (objects, error) {
	text, err := template(ctx, set)
	if err != nil {
		return nil, err
	}
	return decodeAll(text)
}

func template(ctx context.Context, set values) (string, error) {
	stdout, stderr, err := runHelm(ctx, []string{"template", "rouse", chart}, set)
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, stderr)
	}
	return stdout, nil
}

func decodeAll(text string) (objects, error) {
	var all objects
	documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if isComment(document) {
			continue
		}
		object, err := decodeOnce(document)
		if err != nil {
			return nil, err
		}
		all = append(all, object)
	}
}

// decoded caches objects by their text. Most of a chart is CRDs, which are the same in every render.
var decoded sync.Map

// decodeOnce returns a copy of a decoded document.
func decodeOnce(document []byte) (client.Object, error) {
	known, ok := decoded.Load(string(document))
	if !ok {
		object, err := decode(document)
		if err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, document)
		}
		known, _ = decoded.LoadOrStore(string(document), object)
	}
	return known.(client.Object).DeepCopyObject().(client.Object), nil
}

// decoder is strict: an unknown or repeated field is an error.
var decoder = sync.OnceValues(func() (*json.Serializer, error) {
	scheme := runtime.NewScheme()
	err := errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme))
	return json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true}), err
})

func decode(document []byte) (client.Object, error) {
	strict, err := decoder()
	if err != nil {
		return nil, err
	}
	object, _, err := strict.Decode(document, nil, nil)
	if runtime.IsNotRegisteredError(err) { // of the Prometheus operator or KEDA: its type is not used here
		object, _, err = strict.Decode(document, nil, &unstructured.Unstructured{})
	}
	if err != nil {
		return nil, err
	}
	typed, ok := object.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is not an object", object)
	}
	return typed, nil
}

func isComment(document []byte) bool {
	for line := range bytes.Lines(document) {
		if text := bytes.TrimSpace(line); len(text) > 0 && text[0] != '#' && string(text) != "---" {
			return false
		}
	}
	return true
}

// of returns the objects of one type.
func of[T client.Object](all objects) []T {
	var picked []T
	for _, object := range all {
		if typed, ok := object.(T); ok {
			picked = append(picked, typed)
		}
	}
	return picked
}

// named returns one object by type and name.
func named[T client.Object](t *testing.T, all objects, name string) T {
	t.Helper()
	var found T
	for _, object := range of[T](all) {
		if object.GetName() == name {
			return object
		}
	}
	require.Failf(t, "not rendered", "%T %s", found, name)
	return found
}

// workload is any object that creates pods.
type workload struct {
	metav1.Object
	Pod corev1.PodTemplateSpec
}

func (w workload) component() string { return w.Pod.Labels["app.kubernetes.io/component"] }

func workloads(all objects) []workload {
	var found []workload
	for _, object := range all {
		switch typed := object.(type) {
		case *appsv1.Deployment:
			found = append(found, workload{typed, typed.Spec.Template})
		case *appsv1.StatefulSet:
			found = append(found, workload{typed, typed.Spec.Template})
		case *batchv1.Job:
			found = append(found, workload{typed, typed.Spec.Template})
		}
	}
	return found
}
