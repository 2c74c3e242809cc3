{{/* Where NATS is and what proves who we are. Secrets are mounted as files, never passed as arguments. */}}

{{- define "rouse.natsURL" -}}
{{- if .Values.nats.enabled -}}
nats://{{ include "rouse.fullname" . }}-nats.{{ .Release.Namespace }}.svc.cluster.local:4222
{{- else -}}
{{ .Values.nats.external.url }}
{{- end -}}
{{- end -}}

{{- define "rouse.natsArgs" -}}
- --nats-url={{ include "rouse.natsURL" . }}
{{- if not .Values.nats.enabled }}
{{- with .Values.nats.external.credentials }}
{{- if .secret }}
- --nats-creds=/etc/rouse/nats-credentials/{{ .key }}
{{- end }}
{{- end }}
{{- with .Values.nats.external.tls }}
{{- if and .secret .caKey }}
- --nats-ca=/etc/rouse/nats-tls/{{ .caKey }}
{{- end }}
{{- if and .secret .certKey }}
- --nats-cert=/etc/rouse/nats-tls/{{ .certKey }}
- --nats-key=/etc/rouse/nats-tls/{{ .keyKey }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "rouse.natsMounts" -}}
{{- if not .Values.nats.enabled -}}
{{- if .Values.nats.external.credentials.secret }}
- name: nats-credentials
  mountPath: /etc/rouse/nats-credentials
  readOnly: true
{{- end }}
{{- if .Values.nats.external.tls.secret }}
- name: nats-tls
  mountPath: /etc/rouse/nats-tls
  readOnly: true
{{- end }}
{{- end -}}
{{- end -}}

{{- define "rouse.natsVolumes" -}}
{{- if not .Values.nats.enabled -}}
{{- with .Values.nats.external.credentials.secret }}
- name: nats-credentials
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- with .Values.nats.external.tls.secret }}
- name: nats-tls
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- end -}}
{{- end -}}

{{/* The ports that an external NATS listens on, as a JSON list. */}}
{{- define "rouse.natsPorts" -}}
{{- $ports := list -}}
{{- range splitList "," .Values.nats.external.url -}}
{{- $ports = append $ports (regexFind ":[0-9]+$" . | trimPrefix ":" | default "4222" | int) -}}
{{- end -}}
{{ $ports | uniq | toJson }}
{{- end -}}
