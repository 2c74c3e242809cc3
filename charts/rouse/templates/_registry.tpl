{{/* The registry of the images of Functions: "external", "internal" or "none". */}}
{{- define "rouse.registry" -}}
{{- with .Values.registry -}}
{{- if or .external.registryAddress .external.existingSecret -}}
external
{{- else if .internal.enabled -}}
internal
{{- else -}}
none
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The Secret that configures the controller with the registry. */}}
{{- define "rouse.registrySecret" -}}
{{ .Values.registry.external.existingSecret | default (printf "%s-registry" (include "rouse.fullname" .)) }}
{{- end -}}

{{- define "rouse.registryPushAddress" -}}
{{ include "rouse.fullname" . }}-registry.{{ .Release.Namespace }}.svc.cluster.local:5000
{{- end -}}

{{- define "rouse.registryPullAddress" -}}
{{ .Values.registry.internal.pullAddress | default (printf "localhost:%v" .Values.registry.internal.nodePort) }}
{{- end -}}

{{/* The credentials of the chart's own registry: the controller's password, and the key from which the
passwords of namespaces are derived. Credentials of an earlier release are kept, so that images can be pulled during an upgrade. They
are stored beside the values, because each call would generate others. */}}
{{- define "rouse.registrySecretValue" -}}
{{- $root := .root -}}
{{- if not (hasKey $root.Values.registry .key) -}}
{{- $known := (lookup "v1" "Secret" $root.Release.Namespace (printf "%s-registry" (include "rouse.fullname" $root))).data | default dict -}}
{{- $kept := and (eq ($known.isInternal | default "" | b64dec) "true") (hasKey $known .key) -}}
{{- $_ := set $root.Values.registry .key ($kept | ternary (get $known .key | default "" | b64dec) (randAlphaNum 40)) -}}
{{- end -}}
{{ get $root.Values.registry .key }}
{{- end -}}
