package resources

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// bound returns a pod template as the controller applied it, with the projection of a ServiceBinding of the UID 1, and
// manual additions of another client.
func bound() *corev1.PodTemplateSpec {
	volumes := []corev1.Volume{{Name: "own"}, {Name: "servicebinding-1"}, {Name: "servicebinding-forged"}, {Name: "added"}}
	container := corev1.Container{
		Name: "function", Image: "i",
		Env: []corev1.EnvVar{
			{Name: "FUNC_HANDLER_SOURCE", Value: "code"},
			{Name: "OWN", ValueFrom: ofSecret("own")},
			{Name: "SERVICE_BINDING_ROOT", Value: "/bindings"},
			{Name: "PASSWORD", ValueFrom: ofSecret("db")},
			{Name: "KIND", ValueFrom: ofField("metadata.annotations['projector.servicebinding.io/type-1']")},
			{Name: "NODE", ValueFrom: ofField("spec.nodeName")},
			{Name: "ADDED", Value: "by hand"},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "own", MountPath: "/own"},
			{Name: "servicebinding-1", MountPath: "/bindings/db"},
			{Name: "servicebinding-forged", MountPath: "/bindings/forged"},
			{Name: "added", MountPath: "/added"},
		},
	}
	install := corev1.Container{Name: "install", VolumeMounts: []corev1.VolumeMount{{Name: "servicebinding-1", MountPath: "/bindings/db"}}}
	template := &corev1.PodTemplateSpec{}
	template.Annotations = map[string]string{
		"projector.servicebinding.io/secret-1": "db", "projector.servicebinding.io/type-1": "postgresql", "rouse.run/version": "v",
	}
	template.Spec = corev1.PodSpec{Volumes: volumes, Containers: []corev1.Container{container}, InitContainers: []corev1.Container{install}}
	return template
}

func ofSecret(name string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: "k"}}
}

func ofField(path string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
}

func TestProjectedKeepsOnlyBindings(t *testing.T) {
	t.Parallel()
	template := bound()
	got := Projected(template)
	require.Equal(t, corev1.PodSpec{
		Volumes: []corev1.Volume{{Name: "servicebinding-1"}},
		InitContainers: []corev1.Container{{
			Name: "install", VolumeMounts: []corev1.VolumeMount{{Name: "servicebinding-1", MountPath: "/bindings/db"}},
		}},
		Containers: []corev1.Container{{
			Name: "function",
			Env: []corev1.EnvVar{
				{Name: "PASSWORD", ValueFrom: ofSecret("db")},
				{Name: "KIND", ValueFrom: ofField("metadata.annotations['projector.servicebinding.io/type-1']")},
			},
			VolumeMounts: []corev1.VolumeMount{{Name: "servicebinding-1", MountPath: "/bindings/db"}},
		}},
	}, got)
	template.Spec = got
	require.Equal(t, got, Projected(template), "a cache may reduce it twice")

	template = bound()
	template.Annotations = nil
	require.Empty(t, Projected(template), "without a runtime's annotations no field is projected")
}

func TestSecretsOfBindingsAreFoundByAnnotation(t *testing.T) {
	t.Parallel()
	require.Empty(t, Secrets(nil))
	require.Equal(t, []string{"a", "b"}, Secrets(map[string]string{
		"projector.servicebinding.io/secret-1": "b", "projector.servicebinding.io/secret-2": "a", "projector.servicebinding.io/secret-3": "b",
		"projector.servicebinding.io/secret-4": "", "projector.servicebinding.io/type-1": "t", "secret-1": "x",
	}))
}

func TestToleratedCoversBindingRuntimeFields(t *testing.T) {
	t.Parallel()
	field, key := fieldpath.FieldNameElement, fieldpath.KeyByFields
	inSpec := func(parts ...any) fieldpath.Path {
		return fieldpath.MakePathOrDie(append([]any{"spec", "template", "spec"}, parts...)...)
	}
	function := key("name", "function")
	tests := map[string]struct {
		path fieldpath.Path
		want bool
	}{
		"a volume of a binding":                           {inSpec("volumes", key("name", "servicebinding-1")), true},
		"a field of it":                                   {inSpec("volumes", key("name", "servicebinding-1"), "projected", "sources"), true},
		"a volume without a mark":                         {inSpec("volumes", key("name", "servicebinding-forged")), false},
		"a volume of another name":                        {inSpec("volumes", key("name", "added")), false},
		"the list of volumes":                             {inSpec("volumes"), false},
		"a mount of a binding":                            {inSpec("containers", function, "volumeMounts", key("mountPath", "/bindings/db"), "readOnly"), true},
		"a mount of a binding elsewhere":                  {inSpec("initContainers", key("name", "install"), "volumeMounts", key("mountPath", "/bindings/db")), true},
		"the same path in a container without mounts":     {inSpec("containers", key("name", "other"), "volumeMounts", key("mountPath", "/bindings/db")), false},
		"the mount of a volume without a mark":            {inSpec("containers", function, "volumeMounts", key("mountPath", "/bindings/forged")), false},
		"a mount that was added":                          {inSpec("containers", function, "volumeMounts", key("mountPath", "/added")), false},
		"a variable of a bound Secret":                    {inSpec("containers", function, "env", key("name", "PASSWORD"), "valueFrom"), true},
		"a variable of a binding's type":                  {inSpec("containers", function, "env", key("name", "KIND")), true},
		"the root":                                        {inSpec("containers", function, "env", key("name", "SERVICE_BINDING_ROOT"), "value"), true},
		"a variable of another Secret":                    {inSpec("containers", function, "env", key("name", "OWN")), false},
		"a variable of another field":                     {inSpec("containers", function, "env", key("name", "NODE")), false},
		"a variable that was added":                       {inSpec("containers", function, "env", key("name", "ADDED")), false},
		"the command of a container":                      {inSpec("containers", function, "command"), false},
		"a container that was added":                      {inSpec("containers", key("name", "added")), false},
		"a setting of the pod":                            {inSpec("hostNetwork"), false},
		"a volume by its place":                           {inSpec("volumes", 1), false},
		"an entry with a key that is not a string":        {inSpec("volumes", key("name", 1)), false},
		"a field of a container in place of a list of it": {inSpec("containers", function, field("env")), false},
	}
	whole, reduced := bound(), bound()
	reduced.Spec = Projected(reduced)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, Tolerated(whole)(tc.path))
			require.Equal(t, tc.want, Tolerated(reduced)(tc.path), "with the reduced template of a cache")
		})
	}
}

func TestTemplatesWithoutBindingsTolerateOnlyTheRoot(t *testing.T) {
	t.Parallel()
	template := bound()
	template.Annotations = nil
	tolerated := Tolerated(template)
	function := fieldpath.KeyByFields("name", "function")
	require.False(t, tolerated(fieldpath.MakePathOrDie("spec", "template", "spec", "volumes", fieldpath.KeyByFields("name", "servicebinding-1"))))
	require.False(t, tolerated(fieldpath.MakePathOrDie("spec", "template", "spec", "containers", function, "env", fieldpath.KeyByFields("name", "PASSWORD"))))
	require.True(t, tolerated(fieldpath.MakePathOrDie("spec", "template", "spec", "containers", function, "env",
		fieldpath.KeyByFields("name", "SERVICE_BINDING_ROOT"))))
}

func TestConflictNamesFieldsThatFunctionAndBindingClaim(t *testing.T) {
	t.Parallel()
	function := func(change func(*corev1ac.ContainerApplyConfiguration)) *corev1ac.PodSpecApplyConfiguration {
		container := corev1ac.Container().WithName("function").WithEnv(corev1ac.EnvVar().WithName("OWN").WithValue("1"))
		if change != nil {
			change(container)
		}
		return corev1ac.PodSpec().WithContainers(container)
	}
	variable := func(name, secret string) *corev1ac.EnvVarApplyConfiguration {
		return corev1ac.EnvVar().WithName(name).WithValueFrom(corev1ac.EnvVarSource().WithSecretKeyRef(
			corev1ac.SecretKeySelector().WithName(secret).WithKey("k")))
	}
	tests := map[string]struct {
		live   *corev1.PodTemplateSpec
		wanted *corev1ac.PodSpecApplyConfiguration
		want   string
	}{
		"no binding": {live: &corev1.PodTemplateSpec{}, wanted: function(func(c *corev1ac.ContainerApplyConfiguration) { c.WithEnv(variable("X", "db")) })},
		"no field is claimed by both": {live: bound(), wanted: function(func(c *corev1ac.ContainerApplyConfiguration) {
			c.WithEnv(variable("X", "own")).WithVolumeMounts(corev1ac.VolumeMount().WithMountPath("/bindings/other"))
		})},
		"an empty spec": {live: bound()},
		"a variable of a bound Secret": {
			live: bound(), wanted: function(func(c *corev1ac.ContainerApplyConfiguration) { c.WithEnv(variable("X", "db")) }),
			want: "The variable X takes a key of the Secret db, which a ServiceBinding projects and takes out of all variables that are not its own. " +
				"Move the variable from spec.env of the Function to spec.env of the ServiceBinding, or read the file of the binding",
		},
		"a variable that the binding sets": {
			live: bound(), wanted: function(func(c *corev1ac.ContainerApplyConfiguration) {
				c.WithEnv(corev1ac.EnvVar().WithName("PASSWORD").WithValue("x"))
			}),
			want: "A ServiceBinding sets the variable PASSWORD, which the Function has already. " +
				"Give it another name in spec.env of the ServiceBinding, or remove it from spec.env of the Function",
		},
		"a path at which the binding is mounted": {
			live: bound(), wanted: function(func(c *corev1ac.ContainerApplyConfiguration) {
				c.WithVolumeMounts(corev1ac.VolumeMount().WithMountPath("/bindings/db"))
			}),
			want: "A ServiceBinding is mounted at /bindings/db, where the Function mounts a Secret already. " +
				"Give spec.name of the ServiceBinding or the path in spec.secretMounts of the Function another value",
		},
		"an init container": {
			live: bound(), wanted: corev1ac.PodSpec().WithInitContainers(corev1ac.Container().WithName("install").
				WithVolumeMounts(corev1ac.VolumeMount().WithMountPath("/bindings/db"))),
			want: "A ServiceBinding is mounted at /bindings/db, where",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Conflict(tc.live, tc.wanted)
			if tc.want == "" {
				require.Empty(t, got)
				return
			}
			require.Contains(t, got, tc.want)
		})
	}
}
