{{/* "true" when APIRules are served. */}}
{{- define "rouse.servesAPIRules" -}}
{{ (.Values.apiRules | default dict).enabled | default false }}
{{- end -}}

{{/* "true" when APIRules may name Gateways of the Gateway API. */}}
{{- define "rouse.gatewayAPI" -}}
{{- $wanted := (.Values.apiRules | default dict).gatewayAPI | default "auto" -}}
{{ and (eq (include "rouse.servesAPIRules" .) "true") (or (eq $wanted "enabled") (and (eq $wanted "auto") (.Capabilities.APIVersions.Has "gateway.networking.k8s.io/v1"))) }}
{{- end -}}

{{/* The gateways' Service for the hosts of APIRules as namespace/name, empty without one. */}}
{{- define "rouse.apiRulesService" -}}
{{- if eq (include "rouse.servesAPIRules" .) "true" -}}
{{ .Release.Namespace }}/{{ include "rouse.fullname" . }}-gateway-http
{{- end -}}
{{- end -}}

{{/* Arguments that the controller and the gateways have to agree on. */}}
{{- define "rouse.apiRulesArgs" -}}
{{- if eq (include "rouse.servesAPIRules" .) "true" -}}
- --apirules
{{- range $gateway, $domain := .Values.apiRules.domains }}
- --gateway-domain={{ $gateway }}={{ $domain }}
{{- end }}
{{- if eq (include "rouse.gatewayAPI" .) "true" }}
- --gateway-api
{{- end }}
{{- if eq (include "rouse.servesDoors" .) "true" }}
- --door-service={{ .Release.Namespace }}/{{ include "rouse.doorKeys" . }}
{{- end }}
{{- end -}}
{{- end -}}
