package charts

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// A real API server checks the restricted level; this test checks additional requirements.
func TestEveryContainerRunsAsOurUserOnAReadOnlyRoot(t *testing.T) {
	t.Parallel()
	for name, all := range renderedInstallations(t) {
		require.NotEmpty(t, workloads(all))
		for _, w := range workloads(all) {
			require.Equal(t, new(int64(65532)), w.Pod.Spec.SecurityContext.RunAsUser, "%s: %s", name, w.GetName())
			require.Equal(t, new(false), w.Pod.Spec.EnableServiceLinks, "%s: %s", name, w.GetName())
			for _, container := range slices.Concat(w.Pod.Spec.InitContainers, w.Pod.Spec.Containers) {
				require.Equal(t, new(true), container.SecurityContext.ReadOnlyRootFilesystem, "%s: %s", name, w.GetName())
			}
		}
	}
}

func TestEveryDeploymentSurvivesANodeDrainAndIsProbed(t *testing.T) {
	t.Parallel()
	for name, all := range renderedInstallations(t) {
		drained := map[string]bool{}
		for _, deployment := range of[*appsv1.Deployment](all) {
			if deployment.Name == "rouse-registry" {
				continue // a single pod with one volume
			}
			drained[deployment.Name] = true
			pod := deployment.Spec.Template
			require.Len(t, selecting(t, pod.Labels, of[*policyv1.PodDisruptionBudget](all), func(b *policyv1.PodDisruptionBudget) *metav1.LabelSelector {
				return b.Spec.Selector
			}), 1, deployment.Name)
			container := pod.Spec.Containers[0]
			require.NotNil(t, container.StartupProbe, deployment.Name)
			require.NotNil(t, container.LivenessProbe, deployment.Name)
			require.NotNil(t, container.ReadinessProbe, deployment.Name)
			for _, constraint := range pod.Spec.TopologySpreadConstraints {
				require.Equal(t, corev1.ScheduleAnyway, constraint.WhenUnsatisfiable, "%s must start on one node, too", deployment.Name)
			}
			for flag, seconds := range drains(t, container.Args) {
				require.Greater(t, ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, 0), seconds, "%s: --%s", deployment.Name, flag)
			}
		}
		want := map[string]bool{"rouse-controller": true, "rouse-eventbridge": true, "rouse-scaler": true}
		if name != "plain HTTP wakes nobody" {
			want["rouse-gateway"] = true
		}
		if slices.Contains([]string{operated, operatedAnywhere, fromKyma}, name) {
			want["rouse-operator"] = true
		}
		if slices.Contains([]string{withDashboard, withDashboardAndIssuer, withDashboardThatChanges}, name) {
			want["rouse-dashboard"] = true
		}
		require.Equal(t, want, drained, name)
	}
}

// drains returns the --...drain-timeout flags, in seconds.
func drains(t *testing.T, args []string) map[string]int64 {
	t.Helper()
	found := map[string]int64{}
	for _, arg := range args {
		flag, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if strings.HasSuffix(flag, "drain-timeout") {
			seconds, err := strconv.ParseInt(strings.TrimSuffix(value, "s"), 10, 64)
			require.NoError(t, err)
			found[flag] = seconds
		}
	}
	return found
}

func TestEveryPodHasOneNetworkPolicyUnlessDisabled(t *testing.T) {
	t.Parallel()
	for name, all := range renderedInstallations(t) {
		policies := of[*networkingv1.NetworkPolicy](all)
		if len(policies) == 0 {
			continue
		}
		for _, w := range workloads(all) {
			matching := selecting(t, w.Pod.Labels, policies, func(p *networkingv1.NetworkPolicy) *metav1.LabelSelector { return &p.Spec.PodSelector })
			require.Len(t, matching, 1, "%s: %s", name, w.GetName())
			require.ElementsMatch(t, []networkingv1.PolicyType{"Ingress", "Egress"}, matching[0].Spec.PolicyTypes, "%s: %s", name, w.GetName())
		}
	}
	require.Empty(t, of[*networkingv1.NetworkPolicy](render(t, values{"networkPolicies.enabled=false"})))
}

func TestNetworkPoliciesAllowOnlyNeededTraffic(t *testing.T) {
	t.Parallel()
	all := render(t, nil)
	ingress := func(name string) []networkingv1.NetworkPolicyIngressRule {
		return named[*networkingv1.NetworkPolicy](t, all, name).Spec.Ingress
	}
	require.Empty(t, ingress("rouse-controller"))

	require.Len(t, ingress("rouse-eventbridge"), 2, "publishing, and the admin API for the namespace")
	require.Empty(t, ingress("rouse-eventbridge")[0].From, "everyone may publish")
	require.Equal(t, "http", ingress("rouse-eventbridge")[0].Ports[0].Port.String())

	require.Len(t, ingress("rouse-scaler"), 1)
	require.Equal(t, map[string]string{"kubernetes.io/metadata.name": "keda"}, ingress("rouse-scaler")[0].From[0].NamespaceSelector.MatchLabels)

	require.Len(t, ingress("rouse-nats"), 1)
	clients, err := metav1.LabelSelectorAsSelector(ingress("rouse-nats")[0].From[0].PodSelector)
	require.NoError(t, err)
	for _, w := range workloads(all) {
		require.Equal(t, slices.Contains([]string{"controller", "eventbridge", "scaler"}, w.component()), clients.Matches(labels.Set(w.Pod.Labels)), w.GetName())
	}

	require.True(t, slices.ContainsFunc(named[*networkingv1.NetworkPolicy](t, all, "rouse-controller").Spec.Egress,
		func(rule networkingv1.NetworkPolicyEgressRule) bool {
			return len(rule.To) == 0 && len(rule.Ports) == 1 && rule.Ports[0].Port == nil
		}), "users name Git servers and registries anywhere")

	require.Len(t, ingress("rouse-registry"), 1)
	require.Empty(t, ingress("rouse-registry")[0].From, "builds of every namespace push, and nodes pull")
	require.Equal(t, "http", ingress("rouse-registry")[0].Ports[0].Port.String())
	require.Empty(t, named[*networkingv1.NetworkPolicy](t, all, "rouse-registry").Spec.Egress)
}

func TestEveryComponentReachesDNSOnTheConfiguredPorts(t *testing.T) {
	t.Parallel()
	for want, set := range map[string]values{
		"53/UDP 53/TCP 8053/UDP 8053/TCP": nil,
		"5353/UDP 5353/TCP":               {"networkPolicies.dnsPorts={5353}"},
		"53/UDP 53/TCP 1053/UDP 1053/TCP": {"networkPolicies.dnsPorts={53,1053}"},
	} {
		for _, policy := range of[*networkingv1.NetworkPolicy](render(t, append(values{"crds.keep=false"}, set...))) {
			if len(policy.Spec.Egress) == 0 {
				continue // of NATS and the registry, which send no DNS queries
			}
			var ports []string
			for _, port := range policy.Spec.Egress[0].Ports {
				ports = append(ports, port.Port.String()+"/"+string(*port.Protocol))
			}
			require.Equal(t, want, strings.Join(ports, " "), policy.Name)
		}
	}
}

func TestAnExternalNATSMayBeReachedOnItsPorts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		set  values
		want []string
	}{
		"ports in the URLs":          {installations["external NATS with credentials and TLS"], []string{"4222", "4333"}},
		"an address without a port":  {values{"nats.enabled=false", "nats.external.url=nats://10.0.0.5"}, []string{"4222"}},
		"a name that ends in digits": {values{"nats.enabled=false", "nats.external.url=nats://nats-0"}, []string{"4222"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ports []string
			for _, rule := range named[*networkingv1.NetworkPolicy](t, render(t, tc.set), "rouse-scaler").Spec.Egress {
				for _, port := range rule.Ports {
					ports = append(ports, port.Port.String())
				}
			}
			require.Equal(t, slices.Concat([]string{"53", "53", "8053", "8053", "443", "6443", "9091", "8080"}, tc.want, []string{"4318"}), ports)
		})
	}
}

func TestGoMemoryLimitIsBelowTheContainersLimit(t *testing.T) {
	t.Parallel()
	for name, all := range renderedInstallations(t) {
		for _, w := range workloads(all) {
			_, serves := w.Object.(*appsv1.Deployment)
			for _, container := range w.Pod.Spec.Containers {
				limit := container.Resources.Limits.Memory().Value()
				require.Positive(t, limit, "%s: %s of %s", name, container.Name, w.GetName())
				at := slices.IndexFunc(container.Env, func(env corev1.EnvVar) bool { return env.Name == "GOMEMLIMIT" })
				require.True(t, at >= 0 || !serves, "%s: %s of %s", name, container.Name, w.GetName())
				if at < 0 {
					continue
				}
				soft, err := strconv.ParseInt(container.Env[at].Value, 10, 64)
				require.NoError(t, err)
				require.InDelta(t, 0.9*float64(limit), soft, 1, "%s: %s of %s", name, container.Name, w.GetName())
			}
		}
	}
}

func TestSecretsReachPodsOnlyAsFiles(t *testing.T) {
	t.Parallel()
	all := render(t, installations["external NATS with credentials and TLS"])
	for _, deployment := range of[*appsv1.Deployment](all) {
		container := deployment.Spec.Template.Spec.Containers[0]
		for _, env := range container.Env {
			require.Nil(t, env.ValueFrom, deployment.Name)
		}
		if deployment.Name == "rouse-registry" || deployment.Name == "rouse-gateway" {
			require.NotContains(t, strings.Join(container.Args, " "), "nats", "%s knows no NATS", deployment.Name)
			continue
		}
		require.Subset(t, container.Args, []string{
			"--nats-url=tls://a.example.com:4222,tls://b.example.com:4333",
			"--nats-creds=/etc/rouse/nats-login/nats.creds",
			"--nats-ca=/etc/rouse/nats-tls/ca.crt",
			"--nats-cert=/etc/rouse/nats-tls/tls.crt",
			"--nats-key=/etc/rouse/nats-tls/tls.key",
		}, deployment.Name)
		mounts := map[string]string{}
		for _, mount := range container.VolumeMounts {
			require.True(t, mount.ReadOnly)
			mounts[mount.Name] = mount.MountPath
		}
		want := map[string]string{"nats-login": "/etc/rouse/nats-login", "nats-tls": "/etc/rouse/nats-tls"}
		if deployment.Name == "rouse-eventbridge" {
			require.Contains(t, container.Args, "--chain-key-file=/etc/rouse/chain/key")
			want["chain"] = "/etc/rouse/chain"
		}
		require.Equal(t, want, mounts, deployment.Name)
	}
}

func TestEventbridgeAndScalerReachTheCollectorOfTraces(t *testing.T) {
	t.Parallel()
	for endpoint, port := range map[string]int{
		"http://collector.observe:4318/v1/traces": 4318, "https://traces.example.com": 443, "http://10.0.0.9/v1/traces": 80,
	} {
		all := render(t, values{"traceCollectorEndpoint=" + endpoint, "eventbridge.traceSampleRatio=0.5", "scaler.traceSampleRatio=0.25"})
		for name, ratio := range map[string]string{"rouse-eventbridge": "0.5", "rouse-scaler": "0.25"} {
			require.Subset(t, named[*appsv1.Deployment](t, all, name).Spec.Template.Spec.Containers[0].Args,
				[]string{"--trace-sample-ratio=" + ratio})
			require.True(t, slices.ContainsFunc(named[*networkingv1.NetworkPolicy](t, all, name).Spec.Egress,
				func(rule networkingv1.NetworkPolicyEgressRule) bool {
					return len(rule.To) == 0 && rule.Ports[0].Port.IntValue() == port && rule.Ports[len(rule.Ports)-1].Port.IntValue() == 4318
				}), endpoint)
		}
	}
}

func TestProfilesAreOnTheLoopbackOfEveryProcessAndOnlyWhereTheyAreEnabled(t *testing.T) {
	t.Parallel()
	without, with := render(t, nil), render(t, values{"profiling.enabled=true"})
	for _, deployment := range of[*appsv1.Deployment](with) {
		require.Contains(t, deployment.Spec.Template.Spec.Containers[0].Args, "--pprof-address=127.0.0.1:6060", deployment.Name)
		before := named[*appsv1.Deployment](t, without, deployment.Name)
		require.NotContains(t, strings.Join(before.Spec.Template.Spec.Containers[0].Args, " "), "pprof", deployment.Name)
		require.Equal(t, before.Spec.Template.Spec.Containers[0].Ports, deployment.Spec.Template.Spec.Containers[0].Ports, deployment.Name)
	}
	require.Equal(t, of[*networkingv1.NetworkPolicy](without), of[*networkingv1.NetworkPolicy](with), "policies do not apply to forwarded ports")
	require.Equal(t, of[*corev1.Service](without), of[*corev1.Service](with))
}

func TestAllComponentsGetAllowedSinksAndOnlyTheEventbridgeReachesThem(t *testing.T) {
	t.Parallel()
	all := render(t, values{`sinks.allowedHosts={api.example.com,*.svc.cluster.local}`})
	outside := func(rule networkingv1.NetworkPolicyEgressRule) bool {
		return len(rule.To) == 2 && rule.To[0].IPBlock != nil && slices.Equal(rule.To[0].IPBlock.Except, []string{"169.254.0.0/16"})
	}
	for name, wanted := range map[string]bool{"rouse-controller": false, "rouse-eventbridge": true, "rouse-scaler": false} {
		require.Contains(t, named[*appsv1.Deployment](t, all, name).Spec.Template.Spec.Containers[0].Args,
			"--allowed-sink-hosts=api.example.com,*.svc.cluster.local", name)
		require.Equal(t, wanted, slices.ContainsFunc(named[*networkingv1.NetworkPolicy](t, all, name).Spec.Egress, outside), name)
		require.False(t, slices.ContainsFunc(named[*networkingv1.NetworkPolicy](t, render(t, nil), name).Spec.Egress, outside), name)
	}
}

func TestEachComponentGetsItsOwnLoginForNATSAndNoOther(t *testing.T) {
	t.Parallel()
	external := values{"nats.enabled=false", "nats.external.url=nats://nats"}
	for name, tc := range map[string]struct {
		set  values
		want map[string]string // by component, the arguments
	}{
		"one key for all": {
			set: values{"nats.external.nkey.secret=login"},
			want: map[string]string{
				"controller": "--nats-nkey=/etc/rouse/nats-login/nkey.seed", "eventbridge": "--nats-nkey=/etc/rouse/nats-login/nkey.seed",
				"scaler": "--nats-nkey=/etc/rouse/nats-login/nkey.seed",
			},
		},
		"a token, and another for one": {
			set: values{"nats.external.token.secret=login", "nats.external.token.keys.scaler=other"},
			want: map[string]string{
				"controller": "--nats-token-file=/etc/rouse/nats-login/token", "eventbridge": "--nats-token-file=/etc/rouse/nats-login/token",
				"scaler": "--nats-token-file=/etc/rouse/nats-login/other",
			},
		},
		"credentials of its own": {
			set: values{
				"nats.external.credentials.secret=login", "nats.external.credentials.keys.controller=a.creds",
				"nats.external.credentials.keys.eventbridge=b.creds", "nats.external.credentials.keys.scaler=c.creds",
			},
			want: map[string]string{
				"controller": "--nats-creds=/etc/rouse/nats-login/a.creds", "eventbridge": "--nats-creds=/etc/rouse/nats-login/b.creds",
				"scaler": "--nats-creds=/etc/rouse/nats-login/c.creds",
			},
		},
		"users named as the components": {
			set: values{"nats.external.password.secret=login"},
			want: map[string]string{
				"controller":  "--nats-user=controller --nats-password-file=/etc/rouse/nats-login/password",
				"eventbridge": "--nats-user=eventbridge --nats-password-file=/etc/rouse/nats-login/password",
				"scaler":      "--nats-user=scaler --nats-password-file=/etc/rouse/nats-login/password",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := render(t, slices.Concat(external, tc.set))
			for component, want := range tc.want {
				pod := named[*appsv1.Deployment](t, all, "rouse-"+component).Spec.Template.Spec
				require.Contains(t, strings.Join(pod.Containers[0].Args, " ")+" ", " "+want+" ")
				require.Equal(t, "login", pod.Volumes[0].Secret.SecretName)
				require.Len(t, pod.Volumes[0].Secret.Items, 1, "the pod sees no other login")
				require.True(t, strings.HasSuffix(want, "/"+pod.Volumes[0].Secret.Items[0].Path))
			}
		})
	}
}

func TestUninstallHookExistsOnlyWhereCRDsAreDeleted(t *testing.T) {
	t.Parallel()
	for _, set := range []values{nil, {"crds.enabled=false", "crds.keep=false"}} {
		for _, job := range of[*batchv1.Job](render(t, set)) {
			require.NotEqual(t, "rouse-uninstall", job.Name)
		}
	}

	job := named[*batchv1.Job](t, render(t, values{"crds.keep=false"}), "rouse-uninstall")
	require.Equal(t, "pre-delete", job.Annotations["helm.sh/hook"])
	require.NotContains(t, job.Annotations["helm.sh/hook-delete-policy"], "hook-failed", "its log says what is left")
	require.Positive(t, ptr.Deref(job.Spec.TTLSecondsAfterFinished, 0), "no Job is left for ever")
	require.Equal(t, []string{"/controller", "uninstall"}, job.Spec.Template.Spec.Containers[0].Command)
	require.Less(t, ptr.Deref(job.Spec.ActiveDeadlineSeconds, 0), int64(300), "Helm waits five minutes for a hook")
}

// selecting returns the objects whose selector matches a pod's labels.
func selecting[T any](t *testing.T, pod map[string]string, candidates []T, selectorOf func(T) *metav1.LabelSelector) []T {
	t.Helper()
	var found []T
	for _, candidate := range candidates {
		selector, err := metav1.LabelSelectorAsSelector(selectorOf(candidate))
		require.NoError(t, err)
		if selector.Matches(labels.Set(pod)) {
			found = append(found, candidate)
		}
	}
	return found
}
