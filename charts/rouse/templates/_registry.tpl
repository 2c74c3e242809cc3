{{/* Where the images of Functions are kept: "external", "internal" or "none". */}}
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

{{/* The Secret that describes it to the controller. */}}
{{- define "rouse.registrySecret" -}}
{{ .Values.registry.external.existingSecret | default (printf "%s-registry" (include "rouse.fullname" .)) }}
{{- end -}}

{{- define "rouse.registryPushAddress" -}}
{{ include "rouse.fullname" . }}-registry.{{ .Release.Namespace }}.svc.cluster.local:5000
{{- end -}}

{{- define "rouse.registryPullAddress" -}}
{{ .Values.registry.internal.pullAddress | default (printf "localhost:%v" .Values.registry.internal.nodePort) }}
{{- end -}}

{{/* The credentials of the chart's own registry: the controller's password, and the key from which those of namespaces
follow. What an earlier release made up stays, so that images can be pulled during an upgrade. It is kept beside the values, as
each call would make up another one. */}}
{{- define "rouse.registrySecretValue" -}}
{{- $root := .root -}}
{{- if not (hasKey $root.Values.registry .key) -}}
{{- $known := (lookup "v1" "Secret" $root.Release.Namespace (printf "%s-registry" (include "rouse.fullname" $root))).data | default dict -}}
{{- $kept := and (eq ($known.isInternal | default "" | b64dec) "true") (hasKey $known .key) -}}
{{- $_ := set $root.Values.registry .key ($kept | ternary (get $known .key | default "" | b64dec) (randAlphaNum 40)) -}}
{{- end -}}
{{ get $root.Values.registry .key }}
{{- end -}}
