{{/* "true" for a CRD of the chart that this release installs. */}}
{{- define "rouse.installsCRD" -}}
{{- if hasPrefix "gateway." (base .path) -}}
{{ include "rouse.installsAPIRules" .root }}
{{- else if hasPrefix "operator." (base .path) -}}
{{ include "rouse.operated" .root }}
{{- else -}}
true
{{- end -}}
{{- end -}}

{{/* A CRD may lose a version only when no object can be stored in it. The API server would refuse it, too, but during the upgrade and
without an instruction. controller/conversion has the same rule for the controller. Without a cluster, the lookup returns nothing and
the check passes. */}}
{{- define "rouse.validateStoredVersions" -}}
{{- if .Values.crds.enabled -}}
{{- range $path, $_ := .Files.Glob "files/crds/*.yaml" -}}
{{- $crd := $.Files.Get $path | fromYaml -}}
{{- $versions := list -}}
{{- $storage := "" -}}
{{- range $crd.spec.versions -}}
{{- $versions = append $versions .name -}}
{{- if .storage -}}{{- $storage = .name -}}{{- end -}}
{{- end -}}
{{- if eq (include "rouse.servesV1alpha1" $) "true" -}}
{{- range (($.Files.Get (printf "files/old-crds/%s" (base $path)) | fromYaml).spec | default dict).versions -}}
{{- $versions = append $versions .name -}}
{{- end -}}
{{- end -}}
{{- if eq (include "rouse.installsCRD" (dict "root" $ "path" $path)) "true" -}}
{{- range ((lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $crd.metadata.name).status | default dict).storedVersions -}}
{{- if not (has . $versions) -}}
{{- $name := $crd.metadata.name -}}
{{- $qualified := replace (printf "%s." $crd.spec.names.plural) (printf "%s.%s." $crd.spec.names.plural $storage) $name -}}
{{- fail (printf "CustomResourceDefinition %s: its objects may be stored as %s, which this release does not have. With the release that is installed, write all of them once more, as in kubectl get %s -A -o json | kubectl replace -f -, then kubectl patch crd %s --subresource=status --type=merge -p '{\"status\":{\"storedVersions\":[%q]}}', and upgrade again. See docs/convert.md" $name . $qualified $name $storage) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Helm deletes objects that a release no longer has, unless they are annotated to be kept: here, that would delete every Function. */}}
{{- define "rouse.validateKeptCRDs" -}}
{{- if not .Values.crds.enabled -}}
{{- range $path, $_ := .Files.Glob "files/crds/*.yaml" -}}
{{- $name := ($.Files.Get $path | fromYaml).metadata.name -}}
{{- $annotations := ((lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $name).metadata | default dict).annotations | default dict -}}
{{- $owner := printf "%s/%s" (get $annotations "meta.helm.sh/release-namespace") (get $annotations "meta.helm.sh/release-name") -}}
{{- if and (eq $owner (printf "%s/%s" $.Release.Namespace $.Release.Name)) (ne (get $annotations "helm.sh/resource-policy") "keep") -}}
{{- fail (printf "crds.enabled is false: Helm would delete the CustomResourceDefinition %s of this release with all its objects. Upgrade with crds.enabled=true and crds.keep=true first, and then again" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
