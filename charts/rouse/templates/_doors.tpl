{{/* "true" when Doors are served: at the hosts of gateways that serve APIRules. */}}
{{- define "rouse.servesDoors" -}}
{{ and (eq (include "rouse.servesAPIRules" .) "true") .Values.doors.enabled }}
{{- end -}}

{{/* The Secret with the keys of Doors, and the Service of bridges that takes their requests from gateways. */}}
{{- define "rouse.doorKeys" -}}
{{ include "rouse.fullname" . }}-doors
{{- end -}}

{{/* Arguments of the controller, which writes the keys, and of the eventbridge, which reads them. */}}
{{- define "rouse.doorArgs" -}}
{{- if eq (include "rouse.servesDoors" .) "true" -}}
- --door-keys={{ .Release.Namespace }}/{{ include "rouse.doorKeys" . }}
- --doors-per-namespace={{ int64 .Values.doors.perNamespace }}
{{- end -}}
{{- end -}}

{{- define "rouse.doorBridgeArgs" -}}
{{- if eq (include "rouse.servesDoors" .) "true" -}}
{{ include "rouse.doorArgs" . }}
- --door-address=:8082
- --door-max-body={{ .Values.doors.maxBodySize }}
- --door-max-bytes={{ .Values.doors.maxBytes }}
- --gateway-account={{ .Release.Namespace }}/{{ include "rouse.fullname" . }}-gateway
{{- end -}}
{{- end -}}
