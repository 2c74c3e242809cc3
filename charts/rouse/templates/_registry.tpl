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

{{/* The password of the chart's own registry: what an earlier release made up stays, so that images can be pulled during an
upgrade. It is kept beside the values, as each call would make up another one. */}}
{{- define "rouse.registryPassword" -}}
{{- if not (hasKey .Values.registry "password") -}}
{{- $known := (lookup "v1" "Secret" .Release.Namespace (printf "%s-registry" (include "rouse.fullname" .))).data | default dict -}}
{{- $kept := and (eq ($known.isInternal | default "" | b64dec) "true") (hasKey $known "password") -}}
{{- $_ := set .Values.registry "password" ($kept | ternary ($known.password | default "" | b64dec) (randAlphaNum 40)) -}}
{{- end -}}
{{ .Values.registry.password }}
{{- end -}}
