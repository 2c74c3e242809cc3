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
