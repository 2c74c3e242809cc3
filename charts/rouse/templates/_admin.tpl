{{/* The token of the eventbridge's admin API, as a file. */}}
{{- define "rouse.adminSecret" -}}
{{ .Values.eventbridge.admin.secret | default (printf "%s-eventbridge-admin" (include "rouse.fullname" .)) }}
{{- end -}}

{{- define "rouse.adminMounts" -}}
{{- if .Values.eventbridge.admin.enabled -}}
- name: admin-token
  mountPath: /etc/rouse/admin
  readOnly: true
{{- end -}}
{{- end -}}

{{- define "rouse.adminVolumes" -}}
{{- if .Values.eventbridge.admin.enabled -}}
- name: admin-token
  secret:
    secretName: {{ include "rouse.adminSecret" . }}
    items:
      - {key: token, path: token}
{{- end -}}
{{- end -}}
