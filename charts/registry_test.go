package charts

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

func TestRegistrySecretDescribesTheRegistry(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		set  values
		want map[string]string // without generated values
	}{
		"the chart's own": {nil, map[string]string{
			"username": "rouse", "isInternal": "true",
			"pushRegAddr": "rouse-registry.rouse-system.svc.cluster.local:5000", "pullRegAddr": "localhost:32137",
		}},
		"the chart's own by another port": {values{"registry.internal.nodePort=30500"}, map[string]string{
			"username": "rouse", "isInternal": "true",
			"pushRegAddr": "rouse-registry.rouse-system.svc.cluster.local:5000", "pullRegAddr": "localhost:30500",
		}},
		"the chart's own by another name": {values{"registry.internal.pullAddress=images.example.com"}, map[string]string{
			"username": "rouse", "isInternal": "true",
			"pushRegAddr": "rouse-registry.rouse-system.svc.cluster.local:5000", "pullRegAddr": "images.example.com",
		}},
		"an external one": {installations["an external registry and a CA of one's own"], map[string]string{
			"username": "me", "registryAddress": "registry.example.com/functions", "serverAddress": "registry.example.com/functions",
			"insecure": "false",
		}},
		"Docker Hub": {
			values{"registry.external.registryAddress=docker.io/me", "registry.external.serverAddress=https://index.docker.io/v1/"},
			map[string]string{
				"username": "", "registryAddress": "docker.io/me", "serverAddress": "https://index.docker.io/v1/", "insecure": "false",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			secret := named[*corev1.Secret](t, render(t, tc.set), "rouse-registry")
			require.Equal(t, v1alpha2.RemoteRegistryConfig, secret.Labels[v1alpha2.LabelRemoteRegistry])
			require.Contains(t, secret.StringData, "password")
			require.Equal(t, secret.StringData["isInternal"] == "true", len(secret.StringData["accountKey"]) == 40)
			delete(secret.StringData, "password")
			delete(secret.StringData, "accountKey")
			require.Equal(t, tc.want, secret.StringData)
		})
	}
}

func TestOnlyOneRegistryIsUsed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		runs, describes bool
		named           string
	}{
		"as it comes": {runs: true, describes: true, named: "rouse-registry"},
		"an external registry and a CA of one's own": {describes: true, named: "rouse-registry"},
		"a registry that a Secret describes":         {named: "mine"},
		"no registry":                                {},
	} {
		all := renderedInstallations(t)[name]
		running, described := 0, 0
		for _, deployment := range of[*appsv1.Deployment](all) {
			if deployment.Name == "rouse-registry" {
				running++
			}
		}
		for _, secret := range of[*corev1.Secret](all) {
			if secret.Name == "rouse-registry" {
				described++
			}
		}
		for _, arg := range named[*appsv1.Deployment](t, all, "rouse-controller").Spec.Template.Spec.Containers[0].Args {
			if secret, found := strings.CutPrefix(arg, "--registry-secret="); found {
				require.Equal(t, tc.named, secret, name)
				tc.named = ""
			}
		}
		require.Empty(t, tc.named, name)
		require.Equal(t, tc.runs, running == 1, name)
		require.Equal(t, tc.describes, described == 1, name)
		require.Equal(t, tc.runs, len(of[*corev1.PersistentVolumeClaim](all)) == 1, name)
	}
}

func TestTheRegistrysVolumeFollowsItsValues(t *testing.T) {
	t.Parallel()
	claim := named[*corev1.PersistentVolumeClaim](t, render(t, nil), "rouse-registry")
	require.Empty(t, claim.Annotations, "images can be built again")
	require.Nil(t, claim.Spec.StorageClassName)

	kept := named[*corev1.PersistentVolumeClaim](t, render(t, values{
		"registry.internal.persistence.keep=true", "registry.internal.persistence.storageClass=fast",
	}), "rouse-registry")
	require.Equal(t, "keep", kept.Annotations["helm.sh/resource-policy"])
	require.Equal(t, new("fast"), kept.Spec.StorageClassName)

	trial := render(t, values{"registry.internal.persistence.enabled=false"})
	require.Empty(t, of[*corev1.PersistentVolumeClaim](trial))
	volumes := named[*appsv1.Deployment](t, trial, "rouse-registry").Spec.Template.Spec.Volumes
	require.Equal(t, "data", volumes[len(volumes)-1].Name)
	require.NotNil(t, volumes[len(volumes)-1].EmptyDir)
}

func TestRegistryAllowsTheDeletionOfImages(t *testing.T) {
	t.Parallel()
	config := registryConfig(t)
	require.True(t, config.Storage.Delete.Enabled)
	require.Nil(t, config.Storage.Cache, "another process deletes blobs")
}

// The registry itself does not authenticate.
func TestOnlyItsProxyReachesTheRegistry(t *testing.T) {
	t.Parallel()
	require.Equal(t, "127.0.0.1:5001", registryConfig(t).HTTP.Addr)
	pod := named[*appsv1.Deployment](t, render(t, nil), "rouse-registry").Spec.Template.Spec
	require.Empty(t, pod.InitContainers)
	require.False(t, pod.HostNetwork)
	for _, container := range pod.Containers {
		for _, mount := range container.VolumeMounts {
			sees := map[string][]string{"login": {"proxy"}, "config": {"registry"}, "data": {"proxy", "registry"}}[mount.Name]
			require.Contains(t, sees, container.Name, "%s sees %s", container.Name, mount.Name)
		}
		if container.Name != "proxy" {
			require.Empty(t, container.Ports, container.Name)
			continue
		}
		require.Equal(t, []string{"/registryproxy"}, container.Command)
		require.Contains(t, container.Args, "--upstream=http://127.0.0.1:5001")
	}
}

type registryFile struct {
	Storage struct {
		Delete struct{ Enabled bool }
		Cache  any
	}
	HTTP struct{ Addr string }
}

func registryConfig(t *testing.T) (config registryFile) {
	t.Helper()
	text := named[*corev1.ConfigMap](t, render(t, nil), "rouse-registry").Data["config.yml"]
	require.NoError(t, yaml.Unmarshal([]byte(text), &config))
	return config
}

func TestOnlyTheChartsRegistryIsGarbageCollected(t *testing.T) {
	t.Parallel()
	const flag = "--image-gc-registry=rouse-registry"
	for name, tc := range map[string]struct {
		values values
		clears bool
	}{
		"by default":           {nil, true},
		"switched off":         {values{"registry.internal.garbageCollection.enabled=false"}, false},
		"no registry":          {values{"registry.internal.enabled=false"}, false},
		"an external registry": {values{"registry.external.registryAddress=registry.example.com"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := render(t, tc.values)
			args := named[*appsv1.Deployment](t, all, "rouse-controller").Spec.Template.Spec.Containers[0].Args
			require.Equal(t, tc.clears, slices.Contains(args, flag), "%v", args)
			for _, registry := range of[*appsv1.Deployment](all) {
				if registry.Name != "rouse-registry" {
					continue
				}
				proxy := registry.Spec.Template.Spec.Containers[0]
				require.Equal(t, tc.clears, slices.Contains(proxy.Args, "--store=/data"), "%v", proxy.Args)
				require.Equal(t, tc.clears, slices.ContainsFunc(proxy.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "data" && !m.ReadOnly }))
			}
		})
	}
}

func TestTheCABundleReachesTheController(t *testing.T) {
	t.Parallel()
	all := renderedInstallations(t)["an external registry and a CA of one's own"]
	require.Equal(t, certificate, named[*corev1.ConfigMap](t, all, "rouse-ca").Data["ca.crt"])
	pod := named[*appsv1.Deployment](t, all, "rouse-controller").Spec.Template
	require.Equal(t, "rouse-ca", pod.Spec.Volumes[0].ConfigMap.Name)
	require.Equal(t, "/etc/rouse/ca", pod.Spec.Containers[0].VolumeMounts[0].MountPath)
	require.Contains(t, pod.Spec.Containers[0].Args, "--ca-bundle=/etc/rouse/ca/ca.crt")
	require.Contains(t, pod.Annotations, "checksum/ca", "it is read at the start")
}

func TestControllerFlagsBoundTenants(t *testing.T) {
	t.Parallel()
	all := renderedInstallations(t)["an external registry and a CA of one's own"]
	args := named[*appsv1.Deployment](t, all, "rouse-controller").Spec.Template.Spec.Containers[0].Args
	require.Contains(t, args, "--denied-cidrs=10.0.0.0/8,fd00::/8")
	require.Contains(t, args, "--builds-per-namespace=4")
}
