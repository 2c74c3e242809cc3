{{/* "true" where the dashboard runs in the cluster. Values of an earlier chart do not have it. */}}
{{- define "rouse.servesDashboard" -}}
{{- eq (toString (.Values.dashboard | default dict).enabled) "true" -}}
{{- end -}}

{{- define "rouse.validateDashboard" -}}
{{- if eq (include "rouse.servesDashboard" .) "true" -}}
{{- if not .Values.eventbridge.admin.enabled -}}
{{- fail "dashboard.enabled is true while eventbridge.admin.enabled is false: the dashboard shows what the admin API reports" -}}
{{- end -}}
{{- if ne (empty .Values.dashboard.host) (empty .Values.dashboard.gateway) -}}
{{- fail "dashboard: host and gateway belong together, set both or none" -}}
{{- end -}}
{{- end -}}
{{- end -}}
